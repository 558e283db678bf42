"""Writing values and key names as TOML, always on one line.

Not here: reading TOML, which the standard library does (loading.py).
Read next: rendering.py, which prints a whole configuration; https://toml.io/en/v1.0.0.
"""

import re
from collections.abc import Mapping

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+\Z")


def written(value: object) -> str:
    """A value as it would stand in a file."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _quoted(value)
        case list() | tuple():
            return "[" + ", ".join(written(entry) for entry in value) + "]"
        case Mapping():
            inside = ", ".join(f"{written_key(name)} = {written(entry)}" for name, entry in value.items())
            return "{ " + inside + " }" if inside else "{}"
        case _:
            # Numbers and dates print as TOML writes them; inf and nan do as well.
            return str(value)


def written_key(name: str) -> str:
    return name if _BARE_KEY.match(name) else _quoted(name)


def one_line(text: str) -> str:
    """Text with everything escaped that would break a line or a terminal."""
    return "".join(character if character.isprintable() else _escaped(character) for character in text)


def _quoted(text: str) -> str:
    return '"' + one_line(text.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
