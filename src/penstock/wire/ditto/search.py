"""A search for things as clients write it: options, cursors, and the command of the search protocol.

Over a WebSocket the messages after `subscribe` are those of `streaming`, on topics of criterion `search`. Filters are
parsed in `rql`. Upstream documentation: "Search functionality", "Things - Search protocol specification".
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64
from dataclasses import dataclass
from typing import Final

from penstock.wire.ditto.document import Json, NotJson, encode, expect, expect_long, parse
from penstock.wire.ditto.envelope import Envelope, Headers
from penstock.wire.ditto.errors import (
    NAMESPACES_INVALID,
    SEARCH_OPTION_INVALID,
    UNKNOWN_PATH,
    UNKNOWN_TOPIC,
    DittoError,
)
from penstock.wire.ditto.fields import Fields, parse_fields
from penstock.wire.ditto.index_entries import for_search
from penstock.wire.ditto.pointer import parse_pointer, print_pointer
from penstock.wire.ditto.rql import Query, parse_rql, print_rql
from penstock.wire.ditto.streaming import Cancel, DemandRequest, members, subscription_in
from penstock.wire.ditto.topic import SearchAction, Topic, TopicChannel
from penstock.wire.ditto.unsupported import check_headers, check_no_thing

# Things on a page.
DEFAULT_SIZE: Final = 25
MAX_SIZE: Final = 200

# Things that `limit` may skip: each of them has to be found.
MAX_OFFSET: Final = 100_000

# Properties to sort by, and namespaces to search in.
MAX_SORT: Final = 10
MAX_NAMESPACES: Final = 1000

_OPTION = re.compile(r"\s*([a-z]+)\(([^()]*)\)\s*(,|$)")
_NUMBER = re.compile(r"\s*([0-9]{1,9})\s*", re.ASCII)
_NAMESPACE = re.compile(r"(|[a-zA-Z]\w*([.-][a-zA-Z]\w*)*)", re.ASCII)
THING_ID: Final = "/thingId"


@dataclass(frozen=True, slots=True)
class SortKey:
    """A property to sort by, as a pointer such as `/attributes/x`."""

    path: str
    descending: bool = False

    def __str__(self) -> str:
        return f"{'-' if self.descending else '+'}{self.path}"


BY_ID: Final = (SortKey(THING_ID),)


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """`sort` always ends with the ID, so that no two things are equal. `offset` is None without the option `limit`."""

    sort: tuple[SortKey, ...] = BY_ID
    size: int = DEFAULT_SIZE
    cursor: str | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Selection:
    """What a client sent: read by `read_selection`, when the search begins."""

    filter: str | None = None
    options: str | None = None
    namespaces: tuple[str, ...] | None = None
    fields: str | None = None


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """`after` is the position of a cursor: a value for each sort key."""

    query: Query | None
    options: SearchOptions
    namespaces: tuple[str, ...] | None
    fields: Fields | None
    after: tuple[Json, ...] | None = None


def read_selection(selection: Selection, *, is_streamed: bool = False) -> SearchRequest:
    """Raises the error to answer with. A search that is streamed has no cursor and no limit."""
    query = None if selection.filter is None else for_search(parse_rql(selection.filter))
    options = SearchOptions() if selection.options is None else parse_options(selection.options)
    if is_streamed and (options.cursor is not None or options.offset is not None):
        raise _bad_option("The options 'cursor' and 'limit' are not allowed here: request more pages instead.")
    namespaces = selection.namespaces
    if namespaces is not None:
        _check_namespaces(namespaces)
    fields = None if selection.fields is None else parse_fields(selection.fields)
    request = SearchRequest(query, options, namespaces, fields)
    if options.cursor is None:
        return request
    return SearchRequest(query, options, namespaces, fields, _position(request, options.cursor))


def _check_namespaces(namespaces: tuple[str, ...]) -> None:
    if len(namespaces) > MAX_NAMESPACES:
        raise NAMESPACES_INVALID.of(
            f"{len(namespaces)} namespaces are given.", description=f"Allowed: {MAX_NAMESPACES}."
        )
    for each in namespaces:
        if _NAMESPACE.fullmatch(each) is None:
            told = "A namespace is words with dots between them, such as com.example."
            raise NAMESPACES_INVALID.of(f"'{each}' is not a namespace.", description=told)


# -- options -----------------------------------------------------------------------------------------------------------


def parse_options(text: str) -> SearchOptions:
    """`sort(+thingId,-attributes/x),size(25),cursor(…)`; raises `thing-search:search.option.invalid`."""
    given: dict[str, str] = {}
    at = 0
    while at < len(text):
        found = _OPTION.match(text, at)
        if found is None:
            raise _bad_option(f"Expected sort(…), size(…), cursor(…) or limit(…) at position {at + 1}.")
        name, value, comma = found[1], found[2], found[3]
        if name not in ("sort", "size", "cursor", "limit"):
            raise _bad_option(f"There is no option '{name}'. Allowed: sort, size, cursor, limit.")
        if name in given:
            raise _bad_option(f"There may not be more than 1 '{name}' option.")
        given[name] = value
        at = found.end()
        if comma and at >= len(text):
            raise _bad_option("An option is expected after the last comma.")
    if "limit" in given and ("size" in given or "cursor" in given):
        raise _bad_option("The option 'limit' must not be used together with 'size' or 'cursor'.")
    sort = _sort(given["sort"]) if "sort" in given else BY_ID
    if "limit" in given:
        offset, comma, count = given["limit"].partition(",")
        if not comma:
            raise _bad_option("The option 'limit' needs two numbers: limit(offset,count).")
        return SearchOptions(sort, _whole("limit", count, 0, MAX_SIZE), None, _whole("limit", offset, 0, MAX_OFFSET))
    size = _whole("size", given["size"], 1, MAX_SIZE) if "size" in given else DEFAULT_SIZE
    return SearchOptions(sort, size, given["cursor"].strip() if "cursor" in given else None)


def _whole(name: str, text: str, least: int, most: int) -> int:
    found = _NUMBER.fullmatch(text)
    if found is None or not least <= int(found[1]) <= most:
        raise _bad_option(f"The option '{name}' has the value '{text[:60]}', allowed: {least} to {most}.")
    return int(found[1])


def _sort(text: str) -> tuple[SortKey, ...]:
    keys: list[SortKey] = []
    for part in text.split(","):
        # A plus sign that was not encoded in an address has become a space.
        sign, path = part[:1], part[1:].strip()
        if sign not in ("+", "-", " ") or not path:
            raise _bad_option(f"The option 'sort' has '{part[:60]}', expected + or - and a property, as in +thingId.")
        try:
            pointer = parse_pointer(path)
        except DittoError as error:
            raise _bad_option(f"The option 'sort': {error.message}") from None
        keys.append(SortKey(print_pointer(pointer), sign == "-"))
    if len(keys) > MAX_SORT:
        raise _bad_option(f"The option 'sort' has {len(keys)} properties, allowed: {MAX_SORT}.")
    for at, key in enumerate(keys):
        if key.path == THING_ID:
            # Nothing after it makes a difference.
            return tuple(keys[: at + 1])
    return (*keys, *BY_ID)


def _bad_option(description: str) -> DittoError:
    return SEARCH_OPTION_INVALID.of(description=description)


# -- cursors -----------------------------------------------------------------------------------------------------------


def cursor_of(request: SearchRequest, values: tuple[Json, ...]) -> str:
    """The position after a thing with these values of the sort keys, for the same search."""
    return urlsafe_b64encode(encode([*_identity(request), list(values)])).decode().rstrip("=")


def _identity(request: SearchRequest) -> list[Json]:
    filter = None if request.query is None else print_rql(request.query)
    return [filter, [str(key) for key in request.options.sort]]


def _position(request: SearchRequest, cursor: str) -> tuple[Json, ...]:
    try:
        filter, sort, values = parse(urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (NotBase64, NotJson, ValueError, TypeError):
        raise _bad_cursor("It is not one that this server has made.") from None
    wanted_filter, wanted_sort = _identity(request)
    if filter != wanted_filter:
        raise _bad_cursor("The parameter 'filter' must not differ from the original query of the cursor.")
    if sort != wanted_sort:
        raise _bad_cursor("The option 'sort' must not differ from the original query of the cursor.")
    if type(values) is not list or len(values) != len(wanted_sort) or type(values[-1]) is not str:
        raise _bad_cursor("It is not one that this server has made.")
    return tuple(values)


def _bad_cursor(description: str) -> DittoError:
    return DittoError(
        SEARCH_OPTION_INVALID.status,
        SEARCH_OPTION_INVALID.code,
        "The option 'cursor' is not valid for the search request.",
        description,
    )


# -- the protocol ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SearchSubscribe:
    """Answer with `created`, whatever the selection is: it is read at the first request."""

    topic: Topic
    headers: Headers
    selection: Selection


SearchCommand = SearchSubscribe | DemandRequest | Cancel


def parse_search(envelope: Envelope) -> SearchCommand:
    """What a client wants. Raises the error to answer with, as an error response."""
    topic = envelope.topic
    if topic.action not in (SearchAction.SUBSCRIBE, SearchAction.REQUEST, SearchAction.CANCEL):
        raise UNKNOWN_TOPIC.of(topic, description=f"Search action name <{topic.action}> cannot be sent by a client.")
    if not topic.is_about_several or topic.channel is not TopicChannel.TWIN:
        raise UNKNOWN_TOPIC.of(topic, description="The topic of a search is _/_/things/twin/search/ACTION.")
    check_headers(envelope.headers)
    check_no_thing(envelope.headers)
    if envelope.path not in ("/", ""):
        raise UNKNOWN_PATH.of(envelope.path, description="The path of a search message is '/'.")
    value = members(envelope)
    if topic.action == SearchAction.SUBSCRIBE:
        return SearchSubscribe(topic, envelope.headers, _selection(value, envelope.fields))
    subscription = subscription_in(value)
    if topic.action == SearchAction.CANCEL:
        return Cancel(topic, envelope.headers, subscription)
    demand = value.get("demand")
    return DemandRequest(topic, envelope.headers, subscription, 0 if demand is None else expect_long(demand, "/demand"))


def _selection(value: dict[str, Json], fields: str | None) -> Selection:
    filter, options, namespaces = value.get("filter"), value.get("options"), value.get("namespaces")
    if type(options) is list:
        # As older clients send them.
        options = ",".join([str(expect(each, str, "/options")) for each in options])
    if namespaces is not None:
        expect(namespaces, list, "/namespaces")
        namespaces = tuple([str(expect(each, str, "/namespaces")) for each in namespaces])
    return Selection(
        None if filter is None else str(expect(filter, str, "/filter")),
        None if options is None else str(expect(options, str, "/options")),
        namespaces,
        fields,
    )
