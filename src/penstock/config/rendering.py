"""The effective configuration with the origin of each value, as TOML that loads again and as JSON.

Not here: where origins come from (loading.py), the documentation of the keys (reference.py).
Read next: docs/configuration.md.
"""

from typing import Any

import msgspec

from penstock.config.keys import all_keys, all_sections, value_of
from penstock.config.loading import Loaded
from penstock.config.toml import one_line, written


def as_toml(loaded: Loaded) -> str:
    blocks = []
    for section in all_sections():
        lines = []
        for key in section.keys:
            name = key.name.rpartition(".")[2]
            lines.append((f"{name} = {written(value_of(loaded.config, key.name))}", loaded.origins[key.name]))
        width = max(len(assignment) for assignment, _ in lines)
        body = [f"{assignment:<{width}}  # {one_line(origin)}" for assignment, origin in lines]
        blocks.append("\n".join([f"[{section.name}]", *body]))
    return "\n\n".join(blocks) + "\n"


def as_json(loaded: Loaded) -> str:
    entries: dict[str, Any] = {
        name: {"value": value_of(loaded.config, name), "origin": loaded.origins[name]} for name in all_keys()
    }
    return msgspec.json.format(msgspec.json.encode(entries), indent=2).decode()
