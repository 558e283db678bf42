"""From a file and the options of the command line to one checked, frozen configuration.

Not here: what the keys mean (schema/), checks between keys (checks.py), printing (rendering.py).
Read next: docs/configuration.md.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec.structs import replace

from penstock.config.checks import check
from penstock.config.errors import ConfigError
from penstock.config.keys import ConfigKey, KeyPath, Section, all_keys, dotted, sections_of, whole
from penstock.config.schema.config import Config
from penstock.config.schema.tlex import TLEX_PORT, TLEX_TLS_PORT
from penstock.config.schema.values import Line
from penstock.config.secret import MASK
from penstock.extras import has_journal, lack_of

DEFAULT = "default"
DEFAULT_WITH_SETS = "default with adapter sets"
DEMO = "penstock demo"
WITHOUT_JOURNAL = "default without the extra journal"

NOTHING: Mapping[KeyPath, object] = MappingProxyType({})
NO_PORTS: Mapping[str, int] = MappingProxyType({})

MAX_DEPTH = 20
"""Tables and lists inside one another in a value; deeper ones would overflow those who walk over them."""

# What the command line may set, and what the origin of a value set there is called.
OPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "stream.host": "--host",
        "api.host": "--host",
        "stream.port": "--port",
        "api.port": "--api-port",
        "server.data_dir": "--data-dir",
        "log.level": "--log-level",
        "server.workers": "--workers",
        "demo.enabled": DEMO,
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
    path: Path | None
    overrides: Mapping[str, object]
    defaults: Mapping[KeyPath, object]
    source: bytes | None = field(default=None, repr=False)
    """What the file said; None without a file. Secrets may be in it."""
    ports: Mapping[str, int] = field(default_factory=dict)
    """Ports that stand in place of those configured, by the name of their listener."""

    @property
    def place(self) -> str:
        """What a mistake in it is reported under."""
        return str(self.path) if self.path is not None else DEFAULT

    @property
    def directory(self) -> Path:
        """Where relative paths of adapters begin, and their modules are found: next to the file."""
        return (self.path.parent if self.path is not None else Path()).resolve()

    def again(self) -> "Loaded":
        """The same file as it is now, with the same options on top."""
        return load(self.path, self.overrides, self.defaults, ports=self.ports)


def load(
    path: Path | None,
    overrides: Mapping[str, object],
    defaults: Mapping[KeyPath, object] = NOTHING,
    *,
    source: bytes | None = None,
    ports: Mapping[str, int] = NO_PORTS,
) -> Loaded:
    """
    Read `path` (no file at all when None), put `overrides` (dotted key -> value) on top, check everything.

    With `source` the file is not read: that is what it said when it was. `ports` are for processes that share them.

    `defaults` are those of the demo, in place of the schema's: a value of the file comes before them, and they are left
    out if it has adapter sets.

    A text given for a number or a switch is converted, because options arrive as text; in the file it is
    an error. Raises ConfigError; an unknown name in `overrides` is the caller's bug and a KeyError.
    """
    keys = all_keys()
    values: dict[KeyPath, Any] = {}
    places: dict[str, str] = {}
    origins: dict[str, str] = {}
    if path is not None:
        place = str(path)
        source = _read(path) if source is None else source
        for found, value in _found(whole(), _parsed(source, place), place):
            if isinstance(found, Section):
                values[found.path] = {}
                continue
            values[found.path] = _checked(found, value, place)
            origins[found.name] = path.name
            places[found.name] = place
    for name, value in overrides.items():
        option = OPTIONS.get(name, OTHER_OVERRIDE)
        values[keys[name].path] = _checked(keys[name], value, option, lax=isinstance(value, str))
        origins[name] = places[name] = option
    has_sets = any(found[0] == "adapters" for found in values)
    for demo_key, value in defaults.items():
        # Who has data of their own has not asked for what the demo allows with its data.
        if demo_key not in values and not has_sets:
            values[demo_key] = value
            origins[dotted(demo_key)] = places[dotted(demo_key)] = DEMO
    if "demo.enabled" not in origins and has_sets:
        # A server with data of its own should not show the demo next to it.
        values["demo", "enabled"] = False
        origins["demo.enabled"] = DEFAULT_WITH_SETS
    if "journal.enabled" not in origins and not has_journal():
        # Most who stream do not record. Who needs the journal is refused by the checks, with this place.
        values["journal", "enabled"] = False
        origins["journal.enabled"] = WITHOUT_JOURNAL
        places["journal.enabled"] = lack_of("pyarrow")
    config = _with_ports(msgspec.convert(_nested(values), Config), ports)
    check(config, places)
    for section in sections_of(config):
        for key in section.keys:
            origins.setdefault(key.name, DEFAULT)
    return Loaded(config, MappingProxyType(origins), path, MappingProxyType(dict(overrides)), defaults, source, ports)


def _with_ports(config: Config, ports: Mapping[str, int]) -> Config:
    """The same with other ports; those of listeners that there are not mean nothing."""
    stream, api, tlex = config.stream, config.api, config.tlex
    tls = replace(stream.tls, port=ports.get("stream.tls", stream.tls.port))
    return replace(
        config,
        stream=replace(stream, port=ports.get("stream", stream.port), tls=tls),
        api=replace(api, port=ports.get("api", api.port)),
        tlex=replace(tlex, port=ports.get(TLEX_PORT, tlex.port), tls_port=ports.get(TLEX_TLS_PORT, tlex.tls_port)),
        listeners={name: replace(each, port=ports.get(name, each.port)) for name, each in config.listeners.items()},
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            str(path), f"cannot read the configuration file ({error.strerror}); expected a readable TOML file"
        ) from None


def _parsed(content: bytes, place: str) -> dict[str, Any]:
    try:
        return tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(place, f"line {line}: not UTF-8; expected a TOML file in UTF-8") from None
    except RecursionError:
        raise ConfigError(place, "nested too deeply; expected tables of keys") from None
    except ValueError as error:
        # Before Python 3.14 the position exists only at the end of the message: "… (at line 1, column 5)".
        found = _SYNTAX_PLACE.match(str(error))
        where, problem = (found["place"], found["problem"]) if found else ("TOML", str(error))
        raise ConfigError(place, f"{where}: {problem[:1].lower()}{problem[1:]}") from None


def _found(section: Section, table: Mapping[str, Any], place: str) -> Iterator[tuple[ConfigKey | Section, Any]]:
    """The keys of a table and of the tables inside it, in the order of the file, and each table with a chosen name."""
    keys = {key.path[-1]: key for key in section.keys}
    inner = {part.path[-1]: part for part in section.sections}
    for name, value in table.items():
        path = (*section.path, name)
        if name in keys:
            yield keys[name], value
            continue
        if section.entry is not None:
            part = _named(section, name, place)
        elif name in inner:
            part = inner[name]
        else:
            raise ConfigError(place, _unknown(section, name), key=dotted(path))
        if not isinstance(value, dict):
            written = part.name if part.entry is None else f"{part.name}.NAME"
            raise ConfigError(place, f"expected a table, written as [{written}]", key=dotted(path), value=value)
        if section.entry is not None:
            yield part, value
        yield from _found(part, value, place)
    for key in section.keys:
        if key.required and key.path[-1] not in table:
            raise ConfigError(place, f"missing; expected {key.allowed}", key=key.name)


def _named(section: Section, name: str, place: str) -> Section:
    try:
        msgspec.convert(name, Line)
    except msgspec.ValidationError:
        path = (*section.path, name)
        raise ConfigError(place, "expected a name that is text on one line, not empty", key=dotted(path)) from None
    return section.named(name)


def _unknown(section: Section, name: str) -> str:
    import difflib  # only mistakes wait for it

    # The right name in the wrong table is a likelier mistake than a wrong letter.
    meant = [key.name for key in all_keys().values() if key.path[-1] == name]
    for near in difflib.get_close_matches(name, section.names(), n=1) if not meant else ():
        meant = [dotted((*section.path, near))]
    advice = f" (did you mean {' or '.join(meant)}?)" if meant else ""
    return f"unknown key{advice}; allowed here: {', '.join(section.names())}"


def _checked(key: ConfigKey, value: object, place: str, *, lax: bool = False) -> Any:
    if _is_deeper(value, MAX_DEPTH):
        raise ConfigError(place, f"nested too deeply; expected {key.allowed}", key=key.name)
    try:
        return msgspec.convert(value, key.type, strict=not lax)
    except (msgspec.ValidationError, UnicodeEncodeError):
        # The second: bytes on the command line that are no UTF-8 arrive as lone surrogates.
        shown = MASK if key.secret else value
        raise ConfigError(place, f"expected {key.allowed}", key=key.name, value=shown) from None


def _is_deeper(value: object, depth: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    inside = value.values() if isinstance(value, dict) else value
    return depth == 0 or any(_is_deeper(entry, depth - 1) for entry in inside)


def _nested(values: Mapping[KeyPath, Any]) -> dict[str, Any]:
    tables: dict[str, Any] = {}
    for (*path, name), value in values.items():
        table = tables
        for part in path:
            table = table.setdefault(part, {})
        table[name] = value
    return tables
