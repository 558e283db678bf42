r"""What an item is called as a thing: item X of data adapter D in adapter set S is the thing `S.D:X`. Reversible.

A namespace has letters, digits and underscores, and must begin with a letter. In S and D everything else is written
`-uHHHH`, or `-UHHHHHH` beyond U+FFFF, with the lower-case hexadecimal digits of the character; what then does not
begin with a letter gets the prefix `x-z`. So an unescaped dot stands only between S and D.

A name has everything except control characters, the upper half of Latin-1 and the slash. In X these, and `=` itself,
are written `=HH`. An item without a name, or with an identifier of more than 256 characters, is not visible as a thing.

    DEMO, QUOTE_ADAPTER, item1    DEMO.QUOTE_ADAPTER:item1
    my-set, 2nd, a/b=c            my-u002dset.x-z2nd:a=2Fb=3Dc
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from penstock.wire.ditto.ids import EntityId, entity_id

_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_]", re.ASCII)
_SEGMENT_ESCAPE = re.compile(r"-(?:u([0-9a-f]{4})|U([0-9a-f]{6}))", re.ASCII)
_NOT_IN_NAME = re.compile(r"[\x00-\x1f\x7f-\xff/=]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_NAME_ESCAPE = re.compile(r"=([0-9A-F]{2})", re.ASCII)

# The prefix of what would not begin with a letter. There is no escape called z, so nothing else is written like this.
_NOTHING = "x-z"


@dataclass(frozen=True, slots=True)
class ItemName:
    """Where an item is found: in which set, with which data adapter, under which name."""

    adapter_set: str
    data_adapter: str
    item: str


def thing_of_item(name: ItemName) -> EntityId | None:
    """The identifier under which an item is a thing; None if it has none."""
    if _SURROGATE.search(name.adapter_set + "," + name.data_adapter):
        return None
    namespace = f"{_print_segment(name.adapter_set)}.{_print_segment(name.data_adapter)}"
    return entity_id(namespace, _NOT_IN_NAME.sub(_print_in_name, name.item))


def item_of_thing(thing: EntityId) -> ItemName | None:
    """The item that a thing is; None for identifiers that `thing_of_item` never gives."""
    first, dot, second = thing.namespace.partition(".")
    if not dot:
        return None
    try:
        name = ItemName(_parse_segment(first), _parse_segment(second), _NAME_ESCAPE.sub(_parse_in_name, thing.name))
    except ValueError:
        return None
    # One item has one identifier: other spellings, such as an unnecessary escape, are not items.
    return name if thing_of_item(name) == thing else None


def _print_segment(text: str) -> str:
    printed = _NOT_PLAIN.sub(_print_in_segment, text)
    return printed if printed[:1].isalpha() else _NOTHING + printed


def _parse_segment(text: str) -> str:
    return _SEGMENT_ESCAPE.sub(_parse_in_segment, text.removeprefix(_NOTHING))


def _print_in_segment(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"-u{code:04x}" if code <= 0xFFFF else f"-U{code:06x}"


def _parse_in_segment(found: re.Match[str]) -> str:
    return chr(int(found[1] or found[2], 16))


def _print_in_name(found: re.Match[str]) -> str:
    return f"={ord(found[0]):02X}"


def _parse_in_name(found: re.Match[str]) -> str:
    return chr(int(found[1], 16))
