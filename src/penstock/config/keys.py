"""The schema as a list of keys with dotted names, for everything that walks over all of them.

Not here: the keys themselves (schema/), values from a file (loading.py).
Read next: loading.py, which checks values key by key, and reference.py, which prints this list.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

from penstock.config.schema.config import Config
from penstock.config.schema.values import SECRET
from penstock.config.toml import written_key

KeyPath = tuple[str, ...]
"""The names of the tables from the top of the file, and of the key at the end."""

ANY_NAME = "NAME"
"""Stands in the documentation for a name that the file may choose."""


def dotted(path: KeyPath) -> str:
    """A path as it is written in a file: `stream.tls.port`, `adapters."My set".timeout_millis`."""
    return ".".join(written_key(name) for name in path)


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One key: what the schema says about it."""

    path: KeyPath
    type: Any
    default: Any
    """`msgspec.NODEFAULT` for a key that must be there."""
    allowed: str
    """What a value may be, to be read after the word "expected"."""
    description: str
    secret: bool = False
    """Whether its value is never printed."""

    @property
    def name(self) -> str:
        """Dotted, from the top: `stream.tls.port`."""
        return dotted(self.path)

    @property
    def required(self) -> bool:
        return self.default is msgspec.NODEFAULT


@dataclass(frozen=True, slots=True)
class Section:
    """One table of the file: its path (empty for the whole file), its keys and the tables inside."""

    path: KeyPath
    description: str
    keys: tuple[ConfigKey, ...]
    sections: tuple["Section", ...]
    entry: type[msgspec.Struct] | None = None
    """Set where the tables inside have names that the file chooses: the shape that all of them have."""

    @property
    def name(self) -> str:
        return dotted(self.path)

    def names(self) -> tuple[str, ...]:
        """What may stand directly in this table, without the dots."""
        paths = [key.path for key in self.keys] + [section.path for section in self.sections]
        return tuple(path[-1] for path in paths)

    def named(self, name: str) -> "Section":
        """The table of a name that the file has chosen."""
        assert self.entry is not None
        return _section((*self.path, name), self.entry)


@cache
def whole() -> Section:
    return _section((), Config)


@cache
def all_sections() -> tuple[Section, ...]:
    """Every table that is always there, a table before the ones inside it."""
    return tuple(_inside(whole(), lambda section: ()))


@cache
def all_keys() -> dict[str, ConfigKey]:
    """Every key that is always there, by its dotted name, in the order of the schema."""
    return {key.name: key for section in all_sections() for key in section.keys}


def sections_of(config: Config) -> Iterator[Section]:
    """Every table of a configuration, those with names of its own included."""
    return _inside(whole(), lambda section: tuple(value_at(config, section.path)))


def documented_sections() -> Iterator[Section]:
    """Every table, those with names that the file chooses once."""
    return _inside(whole(), lambda section: (ANY_NAME,))


def value_of(config: Config, key: str) -> Any:
    """The value of a key that is always there, by its dotted name."""
    return value_at(config, tuple(key.split(".")))


def named_values(config: Config) -> dict[str, Any]:
    """All keys in tables that have names of their own, by dotted name: listeners, applications, readers."""
    (listeners,) = [part for part in whole().sections if part.path == ("listeners",)]
    (push,) = [part for part in whole().sections if part.path == ("push",)]
    (journal,) = [part for part in whole().sections if part.path == ("journal",)]
    tables = (listeners, *push.sections, *journal.sections)
    found = _inside(Section((), "", (), tables), lambda each: tuple(value_at(config, each.path)))
    return {key.name: value_at(config, key.path) for part in found for key in part.keys}


def value_at(config: Config, path: KeyPath) -> Any:
    value: Any = config
    for name in path:
        value = value[name] if isinstance(value, Mapping) else getattr(value, name)
    return value


def _inside(section: Section, names: Callable[[Section], tuple[str, ...]]) -> Iterator[Section]:
    """The tables in a table that have keys; `names` says which there are where the file chooses them."""
    parts = section.sections
    if section.entry is not None:
        parts += tuple(section.named(name) for name in names(section))
    for part in parts:
        if part.keys:
            yield part
        yield from _inside(part, names)


def _section(path: KeyPath, struct: type[msgspec.Struct]) -> Section:
    keys: list[ConfigKey] = []
    sections: list[Section] = []
    for field in msgspec.structs.fields(struct):
        inside = (*path, field.name)
        entry = _entry(field.type)
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            sections.append(_section(inside, field.type))
        elif entry is not None:
            sections.append(Section(inside, (entry.__doc__ or "").strip(), (), (), entry))
        else:
            default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
            allowed, description = _allowed(field.type), _rules(field.type)["description"]
            keys.append(ConfigKey(inside, field.type, default, allowed, description, _is_secret(field.type)))
    return Section(path, (struct.__doc__ or "").strip(), tuple(keys), tuple(sections))


def _entry(annotated: Any) -> type[msgspec.Struct] | None:
    """The shape of the tables in a table of tables."""
    if get_origin(annotated) is not Mapping:
        return None
    struct: type[msgspec.Struct] = get_args(annotated)[1]
    return struct


def _rules(annotated: Any) -> dict[str, Any]:
    """The constraints of a type, the words of `extra` among them; a later Meta wins over an earlier one."""
    rules: dict[str, Any] = {}
    for meta in getattr(annotated, "__metadata__", ()):
        for name in ("ge", "gt", "le", "description", "extra"):
            if (value := getattr(meta, name)) is not None:
                rules[name] = value
    return rules


def _is_secret(annotated: Any) -> bool:
    return SECRET in getattr(annotated, "__metadata__", ())


def _allowed(annotated: Any) -> str:
    rules = _rules(annotated)
    bare = get_args(annotated)[0] if get_origin(annotated) is Annotated else annotated
    if "extra" in rules:
        return str(rules["extra"]["allowed"])
    if get_origin(bare) is Literal:
        return "one of " + ", ".join(f'"{choice}"' for choice in get_args(bare))
    if get_origin(bare) is tuple:
        return "a list, each entry " + _allowed(get_args(bare)[0])
    if bare is bool:
        return "true or false"
    if bare is int:
        return f"a whole number from {rules['ge']} to {rules['le']}"
    if bare is float:
        return f"a number above {rules['gt']}, up to {rules['le']}"
    raise TypeError(f"the schema has a type without words for it: {annotated}")
