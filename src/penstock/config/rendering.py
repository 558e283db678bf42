"""The effective configuration with the origin of each value, as TOML that loads again and as JSON.

Not here: where origins come from (loading.py), the documentation of the keys (reference.py).
Read next: docs/configuration.md.
"""

from typing import Any

import msgspec

from penstock.config.keys import ConfigKey, sections_of, value_at
from penstock.config.loading import Loaded
from penstock.config.schema.config import Config
from penstock.config.secret import MASK, masked
from penstock.config.toml import one_line, written, written_key


def as_toml(loaded: Loaded) -> str:
    """Secrets are masked: with them it loads again as it is, but for their values."""
    blocks = []
    for section in sections_of(loaded.config):
        lines = []
        for key in section.keys:
            value = _shown(loaded, key)
            lines.append((f"{written_key(key.path[-1])} = {written(value)}", loaded.origins[key.name]))
        width = max(len(assignment) for assignment, _ in lines)
        body = [f"{assignment:<{width}}  # {one_line(origin)}" for assignment, origin in lines]
        blocks.append("\n".join([f"[{section.name}]", *body]))
    return "\n\n".join(blocks) + "\n"


def as_json(loaded: Loaded) -> str:
    entries: dict[str, Any] = {
        key.name: {"value": _shown(loaded, key), "origin": loaded.origins[key.name]}
        for section in sections_of(loaded.config)
        for key in section.keys
    }
    return msgspec.json.format(msgspec.json.encode(entries), indent=2).decode()


def _shown(loaded: Loaded, key: ConfigKey) -> Any:
    return shown(loaded.config, key)


def shown(config: Config, key: ConfigKey) -> Any:
    """A value for people: secrets are masked."""
    value = value_at(config, key.path)
    return MASK if key.secret and value else masked(value)
