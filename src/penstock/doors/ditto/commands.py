"""From a command as clients send it to a command of the rules of twins, with the headers translated.

The way back, from results and refusals to answers, is in `answers`. An error in a condition is kept, and raised only
when the rules evaluate it. Upstream documentation: "Conditional requests".
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from penstock.twins.command import Caller, RetrieveThings, TwinCommand
from penstock.twins.history import PastMoment
from penstock.twins.preconditions import NO_CONDITIONS, Conditions, IfEqual, Tags, Unreadable
from penstock.wire.ditto.document import Json, NotJson, parse, text_of
from penstock.wire.ditto.envelope import Headers, boolean_header, parse_tags, text_header
from penstock.wire.ditto.errors import HEADER_INVALID, DittoError
from penstock.wire.ditto.kinds import Action, EntityGroup
from penstock.wire.ditto.metadata import metadata_wish
from penstock.wire.ditto.migration import parse_migration
from penstock.wire.ditto.pointer import Pointer, parse_pointer
from penstock.wire.ditto.policy_errors import POLICY_VIEW_INVALID
from penstock.wire.ditto.ranges import parse_revision, parse_timestamp
from penstock.wire.ditto.rql import Query, parse_rql
from penstock.wire.ditto.sender_placeholder import with_sender
from penstock.wire.ditto.twin import Command, RetrieveSeveral
from penstock.wire.ditto.unsupported import PATCH_CONDITIONS

T = TypeVar("T")

# The subject that sent a command: as the server knows it, whatever the client sends.
ORIGINATOR = "ditto-originator"

# Whether a migration is only tried.
DRY_RUN = "dry-run"

# Conditions for parts of one patch.
MAX_PARTS = 100

# Commands with a document that may have placeholders.
_BRINGS = frozenset((Action.CREATE, Action.MODIFY, Action.MERGE))

_ANY = "*"
_WEAK = "W/"
_IF_EQUAL = {
    "update": IfEqual.UPDATE,
    "skip": IfEqual.SKIP,
    "skip-minimizing-merge": IfEqual.SKIP_MINIMIZING_MERGE,
}
_CONDITIONS = frozenset(("if-match", "if-none-match", "if-equal", "condition", PATCH_CONDITIONS))


def twin_command(command: Command, caller: Caller, kept: Collection[str] = ()) -> TwinCommand:
    """`kept` are the names of the headers that are journaled with its changes."""
    resource, value = command.resource, command.value
    if command.action in _BRINGS:
        resource, value = with_sender(resource, value, caller.names[0])
    return TwinCommand(
        command.action,
        command.topic.group,
        command.entity,
        resource,
        command.path,
        value,
        command.fields,
        conditions_of(command.headers),
        to_keep(command.headers, caller, kept),
        command.headers.get("correlation-id"),
        _is_resolved(command),
        metadata_wish(command.action, command.headers) if command.topic.group is EntityGroup.THINGS else None,
        parse_migration(command.value) if command.action is Action.MIGRATE else None,
        boolean_header(command.headers, DRY_RUN, False) if command.action is Action.MIGRATE else False,
    )


def _is_resolved(command: Command) -> bool:
    """Whether a policy is asked for with its imports; raises `policies:view.invalid`."""
    view = command.headers.get("policy-view", "original")
    if view not in ("original", "resolved"):
        raise POLICY_VIEW_INVALID.of(view)
    return bool(view == "resolved")


def to_keep(headers: Headers, caller: Caller, names: Collection[str]) -> dict[str, Json]:
    """Those headers of a command that have these names, which are in lower case."""
    known = {**headers, ORIGINATOR: caller.names[0]}
    return {name: known[name] for name in names if name in known}


def things_asked_for(command: RetrieveSeveral) -> RetrieveThings:
    return RetrieveThings(command.entities, command.fields)


def conditions_of(headers: Headers) -> Conditions:
    """What the headers of a command demand."""
    if _CONDITIONS.isdisjoint(headers):
        return NO_CONDITIONS
    return Conditions(
        _read(lambda: _tags(headers, "if-match")),
        _read(lambda: _tags(headers, "if-none-match")),
        _read(lambda: _if_equal(headers)),
        _read(lambda: _condition(headers)),
        _read(lambda: _parts(headers)),
    )


def _read(parse: Callable[[], T]) -> T | Unreadable:
    try:
        return parse()
    except DittoError as error:
        return Unreadable(error)


def _tags(headers: Headers, name: str) -> Tags | None:
    text = text_header(headers, name)
    if text is None:
        return None
    tags = parse_tags(text, name)
    named = [tag for tag in tags if tag != _ANY]
    strong = tuple([tag.strip('"') for tag in named if not tag.startswith(_WEAK)])
    weak = tuple([tag.removeprefix(_WEAK).strip('"') for tag in named if tag.startswith(_WEAK)])
    return Tags(text, strong, weak, is_any=_ANY in tags)


def _if_equal(headers: Headers) -> IfEqual:
    text = text_header(headers, "if-equal")
    if text is None:
        return IfEqual.UPDATE
    if text not in _IF_EQUAL:
        raise HEADER_INVALID.of(text, "if-equal", f"word: one of {', '.join(_IF_EQUAL)}")
    return _IF_EQUAL[text]


def _condition(headers: Headers) -> Query | None:
    text = text_header(headers, "condition")
    return None if text is None else parse_rql(text)


def _parts(headers: Headers) -> tuple[tuple[Pointer, Query], ...]:
    given = headers.get(PATCH_CONDITIONS)
    if given is None:
        return ()
    value = given
    if type(given) is str:
        try:
            value = parse(given)
        except NotJson:
            value = None
    if type(value) is not dict or any(type(each) is not str for each in value.values()) or len(value) > MAX_PARTS:
        told = f"JSON object of at most {MAX_PARTS} paths with their conditions"
        raise HEADER_INVALID.of(given if type(given) is str else text_of(given), PATCH_CONDITIONS, told)
    return tuple([(parse_pointer(path), parse_rql(text)) for path, text in value.items()])


def moment_of(headers: Headers) -> PastMoment | None:
    """The moment that a retrieve command asks for; None for now. Raises `header.invalid`. A revision wins."""
    text = text_header(headers, "at-historical-revision")
    if text is not None:
        return PastMoment(revision=parse_revision(text, "at-historical-revision"))
    text = text_header(headers, "at-historical-timestamp")
    if text is not None:
        return PastMoment(before=parse_timestamp(text, "at-historical-timestamp"))
    return None
