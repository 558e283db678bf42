"""From a file and the options of the command line to one checked, frozen configuration.

Not here: what the keys mean (schema.py), checks between keys (checks.py), printing (rendering.py).
Read next: docs/configuration.md.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from penstock.config.checks import check
from penstock.config.errors import ConfigError
from penstock.config.keys import Key, Section, all_keys, whole
from penstock.config.schema import Config
from penstock.config.toml import written_key

DEFAULT = "default"

# What the command line may set, and what the origin of a value set there is called.
OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "stream.host": "--host",
        "api.host": "--host",
        "stream.port": "--port",
        "api.port": "--api-port",
        "server.data_dir": "--data-dir",
        "log.level": "--log-level",
        "demo.enabled": "penstock demo",
    }
)
OTHER_OVERRIDE = "override"

_SYNTAX_PLACE = re.compile(r"(?P<problem>.*) \(at (?P<place>[^()]*)\)\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration that passed every check, and where each of its values comes from."""

    config: Config
    origins: Mapping[str, str]
    """Dotted key -> "default", the name of the file, or the option."""


def load(path: Path | None, overrides: Mapping[str, object]) -> Loaded:
    """
    Read `path` (no file at all when None), put `overrides` (dotted key -> value) on top, check everything.

    A text given for a number or a switch is read as one, since options arrive as text; in the file it is
    a mistake. Raises ConfigError; a name in `overrides` that is no key is the caller's bug and a KeyError.
    """
    keys = all_keys()
    values: dict[str, Any] = {}
    origins = dict.fromkeys(keys, DEFAULT)
    places: dict[str, str] = {}
    if path is not None:
        place = str(path)
        for name, value in _found(whole(), _read(path), place):
            values[name] = _checked(keys[name], value, place)
            origins[name] = path.name
            places[name] = place
    for name, value in overrides.items():
        option = OPTIONS.get(name, OTHER_OVERRIDE)
        values[name] = _checked(keys[name], value, option, lax=isinstance(value, str))
        origins[name] = places[name] = option
    config = msgspec.convert(_nested(values), Config)
    check(config, places)
    return Loaded(config, MappingProxyType(origins))


def _read(path: Path) -> dict[str, Any]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            str(path), f"cannot read the configuration file ({error.strerror}); expected a readable TOML file"
        ) from None
    try:
        return tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(str(path), f"line {line}: not UTF-8; expected a TOML file in UTF-8") from None
    except RecursionError:
        raise ConfigError(str(path), "nested too deeply; expected tables of keys") from None
    except ValueError as error:
        # Before Python 3.14 the position exists only at the end of the message: "… (at line 1, column 5)".
        found = _SYNTAX_PLACE.match(str(error))
        where, problem = (found["place"], found["problem"]) if found else ("TOML", str(error))
        raise ConfigError(str(path), f"{where}: {problem[:1].lower()}{problem[1:]}") from None


def _found(section: Section, table: Mapping[str, Any], place: str) -> Iterator[tuple[str, Any]]:
    """The keys of a table and of the tables inside it, in the order of the file."""
    keys = {key.name for key in section.keys}
    inner = {part.name: part for part in section.sections}
    for name, value in table.items():
        dotted = f"{section.name}.{written_key(name)}" if section.name else written_key(name)
        if dotted in keys:
            yield dotted, value
        elif dotted not in inner:
            raise ConfigError(place, _unknown(section, name), key=dotted)
        elif isinstance(value, dict):
            yield from _found(inner[dotted], value, place)
        else:
            raise ConfigError(place, f"expected a table, written as [{dotted}]", key=dotted, value=value)


def _unknown(section: Section, name: str) -> str:
    import difflib  # only mistakes wait for it

    # The right name in the wrong table is a likelier mistake than a wrong letter.
    meant = [dotted for dotted in all_keys() if dotted.rpartition(".")[2] == name]
    for near in difflib.get_close_matches(name, section.names(), n=1) if not meant else ():
        meant = [f"{section.name}.{near}" if section.name else near]
    advice = f" (did you mean {' or '.join(meant)}?)" if meant else ""
    return f"unknown key{advice}; allowed here: {', '.join(section.names())}"


def _checked(key: Key, value: object, place: str, *, lax: bool = False) -> Any:
    try:
        return msgspec.convert(value, key.type, strict=not lax)
    except (msgspec.ValidationError, UnicodeEncodeError):
        # The second: bytes on the command line that are no UTF-8 arrive as lone surrogates.
        raise ConfigError(place, f"expected {key.allowed}", key=key.name, value=value) from None


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    tables: dict[str, Any] = {}
    for dotted, value in values.items():
        *path, name = dotted.split(".")
        table = tables
        for part in path:
            table = table.setdefault(part, {})
        table[name] = value
    return tables
