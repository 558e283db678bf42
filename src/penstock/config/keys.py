"""The schema as a list of keys with dotted names, for everything that walks over all of them.

Not here: the keys themselves (schema.py), values from a file (loading.py).
Read next: loading.py, which checks values key by key, and reference.py, which prints this list.
"""

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

from penstock.config.schema import Config


@dataclass(frozen=True, slots=True)
class Key:
    """One key: what the schema says about it."""

    name: str
    """Dotted, from the top: `stream.tls.port`."""
    type: Any
    default: Any
    allowed: str
    """What a value may be, to be read after the word "expected"."""
    description: str


@dataclass(frozen=True, slots=True)
class Section:
    """One table of the file: its dotted name (empty for the whole file), its keys and the tables inside."""

    name: str
    description: str
    keys: tuple[Key, ...]
    sections: tuple["Section", ...]

    def names(self) -> tuple[str, ...]:
        """What may stand directly in this table, without the dots."""
        dotted = [key.name for key in self.keys] + [section.name for section in self.sections]
        return tuple(name.rpartition(".")[2] for name in dotted)


@cache
def whole() -> Section:
    return _section("", Config)


@cache
def all_sections() -> tuple[Section, ...]:
    """Every table of the file, a table before the ones inside it."""
    return tuple(_inside(whole()))


@cache
def all_keys() -> dict[str, Key]:
    """Every key by its dotted name, in the order of the schema."""
    return {key.name: key for section in all_sections() for key in section.keys}


def value_of(config: Config, key: str) -> Any:
    value: Any = config
    for part in key.split("."):
        value = getattr(value, part)
    return value


def _inside(section: Section) -> list[Section]:
    return [found for part in section.sections for found in (part, *_inside(part))]


def _section(name: str, struct: type[msgspec.Struct]) -> Section:
    keys: list[Key] = []
    sections: list[Section] = []
    for field in msgspec.structs.fields(struct):
        dotted = f"{name}.{field.name}" if name else field.name
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            sections.append(_section(dotted, field.type))
        else:
            rules = _rules(field.type)
            keys.append(Key(dotted, field.type, field.default, _allowed(field.type), rules["description"]))
    return Section(name, (struct.__doc__ or "").strip(), tuple(keys), tuple(sections))


def _rules(annotated: Any) -> dict[str, Any]:
    """The constraints of a type, the words of `extra` among them; a later Meta wins over an earlier one."""
    rules: dict[str, Any] = {}
    for meta in getattr(annotated, "__metadata__", ()):
        for name in ("ge", "gt", "le", "description", "extra"):
            if (value := getattr(meta, name)) is not None:
                rules[name] = value
    return rules


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
