"""How a record becomes an event: which item it is of, and which fields it has.

Only what a template names is decoded, so that a record of an item that nobody wants costs little more than its key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from penstock.wire.records.formats import Decode, decode_text
from penstock.wire.records.record import BrokerRecord, PoisonRecord
from penstock.wire.records.template import Expression, Template, TemplateError, text_of

RecordMode = Literal["MERGE", "DISTINCT", "COMMAND"]

# The name of a field that stands for all members of an object.
ALL_MEMBERS = "*"

KEY_FIELD, COMMAND_FIELD = "key", "command"
COMMANDS = ("ADD", "UPDATE", "DELETE")

_UNDECODED = object()


class RecordView:
    """A record with its key and value decoded when they are first looked at."""

    __slots__ = ("_decode_key", "_decode_value", "_key", "_separator", "_value", "record")

    def __init__(self, record: BrokerRecord, decode_key: Decode, decode_value: Decode, separator: str = ".") -> None:
        self.record = record
        self._separator = separator
        self._decode_key = decode_key
        self._decode_value = decode_value
        self._key: object = _UNDECODED
        self._value: object = _UNDECODED

    def part(self, root: str) -> object:
        if root == "value":
            if self._value is _UNDECODED:
                self._value = _decoded(self.record.value(), self._decode_value, "value")
            return self._value
        if root == "key":
            if self._key is _UNDECODED:
                self._key = _decoded(self.record.key(), self._decode_key, "key")
            return self._key
        if root == "topic":
            return self.record.topic()
        if root == "partition":
            return self.record.partition()
        if root == "offset":
            return self.record.offset()
        kind, millis = self.record.timestamp()
        return millis if kind else None

    def level(self, number: int) -> str | None:
        """A part of the topic's name, as the broker divides it."""
        levels = (self.record.topic() or "").split(self._separator)
        return levels[number] if number < len(levels) else None

    def header(self, name: str) -> str | None:
        """The last of this name, as text."""
        for known, value in reversed(self.record.headers() or ()):
            if known == name:
                return decode_text(value) if isinstance(value, bytes) else text_of(value)
        return None


def _decoded(data: bytes | None, decode: Decode, part: str) -> object:
    if data is None:
        return None
    try:
        return decode(data)
    except PoisonRecord as poison:
        raise PoisonRecord(f"its {part}: {poison}") from None


class RecordMapping:
    """Checked when it is made; raises TemplateError."""

    def __init__(
        self,
        item: str,
        fields: Mapping[str, str],
        mode: RecordMode,
        row: str,
        decode_key: Decode,
        decode_value: Decode,
        separator: str = ".",
    ) -> None:
        self._separator = separator
        self.mode = mode
        self._item = Template(item)
        self._row = Template(row)
        if mode == "COMMAND" and not self._row.roots:
            raise TemplateError(f"row = {row!r}: expected an expression in braces, because rows are told apart by it")
        self._decode_key = decode_key
        self._decode_value = decode_value
        self._fields: list[tuple[str, Template]] = []
        self._objects: list[Expression] = []
        for name, text in fields.items():
            template = Template(text)
            if name != ALL_MEMBERS:
                self._fields.append((name, template))
            elif template.only is None:
                raise TemplateError(
                    f"{ALL_MEMBERS} = {text!r}: expected one expression in braces, whose members are fields"
                )
            else:
                self._objects.append(template.only)
        self._names_command = COMMAND_FIELD in fields
        # The usual case by a short way: nothing but the key as text.
        parts = self._item.parts
        keyed = [part for part in parts if isinstance(part, Expression)]
        self._ends: tuple[str, str] | None = None
        if len(keyed) == 1 and keyed[0].root == "key" and not keyed[0].path and decode_key is decode_text:
            at = parts.index(keyed[0])
            before, after = parts[:at], parts[at + 1 :]
            self._ends = "".join(map(str, before)), "".join(map(str, after))

    def view(self, record: BrokerRecord) -> RecordView:
        return RecordView(record, self._decode_key, self._decode_value, self._separator)

    def item(self, record: BrokerRecord) -> str:
        """The name of the record's item; raises PoisonRecord."""
        if self._ends is not None:
            key = record.key()
            if key:
                before, after = self._ends
                return f"{before}{decode_text(key)}{after}"
        return self._item.name(self.view(record))

    def row(self, record: BrokerRecord) -> str:
        """In COMMAND mode, the key of the record's row; raises PoisonRecord."""
        return self._row.name(self.view(record))

    def may_delete(self, record: BrokerRecord) -> bool:
        """In COMMAND mode, whether its event has to be looked at to know what it does to the row."""
        return self._names_command or record.value() is None

    def event(self, record: BrokerRecord) -> dict[str, str | None]:
        """Its fields, those of a row included; raises PoisonRecord."""
        view = self.view(record)
        event: dict[str, str | None] = {}
        for expression in self._objects:
            found = expression.of(view)
            if isinstance(found, Mapping):
                for name, value in found.items():
                    event[str(name)] = value if type(value) is str else text_of(value)
            elif found is not None:
                raise PoisonRecord(f"{expression.text} is not an object, whose members could be fields")
        for name, template in self._fields:
            event[name] = template.value(view)
        if self.mode == "COMMAND":
            key = self._row.name(view)
            if record.value() is None:
                return {KEY_FIELD: key, COMMAND_FIELD: "DELETE"}
            event[KEY_FIELD] = key
            command = event[COMMAND_FIELD] if self._names_command else "UPDATE"
            if command not in COMMANDS:
                raise PoisonRecord(f"its command is {str(command)[:60]!r}; expected {', '.join(COMMANDS)}")
            event[COMMAND_FIELD] = command
        return event
