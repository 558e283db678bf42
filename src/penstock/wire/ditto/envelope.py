"""The JSON object that every message of the protocol is: read with its types checked, and written.

What topics and values mean is in `streaming` and `twin`; the lines that are not JSON are in `control`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import UNSET, Raw, UnsetType

from penstock.wire.ditto.document import Json, decode, encode, expect, expect_long, text_of
from penstock.wire.ditto.errors import FIELD_MISSING, HEADER_INVALID, DittoError, wrong_type
from penstock.wire.ditto.instant import parse_instant
from penstock.wire.ditto.pointer import Pointer, parse_pointer
from penstock.wire.ditto.topic import UNKNOWN, Topic, parse_topic

# By lower-case name. A published client also sends numbers.
Headers = Mapping[str, Json]

JSON_TYPE = "application/json"
MERGE_PATCH_TYPE = "application/merge-patch+json"

# The content type of protocol messages themselves.
PROTOCOL_TYPE = "application/vnd.eclipse.ditto+json"

# Seconds that a client may ask to wait, as upstream limits it.
MAX_DURATION = 60.0

_TAG = re.compile(r'\s*(\*|(?:W/)?"[^"]*")\s*(?:,|$)')
_DURATION = re.compile(r"([0-9]{1,9})(ms|s|m)?", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0}


@dataclass(frozen=True, slots=True)
class Envelope:
    """One message. A value that is absent is UNSET, one that is null is None; a `Raw` is written as it is."""

    topic: Topic
    path: str = "/"
    headers: Headers = field(default_factory=dict)
    value: Json | Raw | UnsetType = UNSET
    fields: str | None = None
    status: int | None = None
    revision: int | None = None
    timestamp: str | None = None
    extra: Json | None = None
    metadata: Json | None = None

    @property
    def pointer(self) -> Pointer:
        """The path; raises `json.pointer.invalid`."""
        return parse_pointer(self.path)

    @property
    def response_required(self) -> bool:
        return boolean_header(self.headers, "response-required", True)

    def to_bytes(self) -> bytes:
        """The message, on one line."""
        return encode(self.to_json())

    def to_json(self) -> dict[str, Json]:
        """The message as an object, which may be the item of another one."""
        message: dict[str, Json] = {"topic": str(self.topic), "headers": self.headers, "path": self.path}
        if self.fields is not None:
            message["fields"] = self.fields
        if self.value is not UNSET:
            message["value"] = self.value
        if self.extra is not None:
            message["extra"] = self.extra
        if self.metadata is not None:
            message["metadata"] = self.metadata
        if self.status is not None:
            message["status"] = self.status
        if self.revision is not None:
            message["revision"] = self.revision
        if self.timestamp is not None:
            message["timestamp"] = self.timestamp
        return message


class UnreadableMessage(Exception):
    """A message that could not be read: the error, and topic and headers to answer with, as far as they are known."""

    def __init__(self, error: DittoError, topic: Topic = UNKNOWN, headers: Headers | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.topic = topic
        self.headers: Headers = {} if headers is None else headers

    def answer(self) -> Envelope:
        """The error response; the connection stays open."""
        return error_response(self.error, self.topic, self.headers)


def error_response(error: DittoError, topic: Topic, headers: Headers) -> Envelope:
    """The answer to a message that cannot be honoured; `topic` is that of the message."""
    return Envelope(topic.errors(), headers=answer_headers(headers), value=error.as_value(), status=error.status)


def answer_headers(headers: Headers, content_type: str = JSON_TYPE) -> dict[str, Json]:
    """The headers of a message, for the answer to it: as they came, without the type of its value."""
    answer = {name: value for name, value in headers.items() if name != "content-type"}
    answer["content-type"] = content_type
    return answer


def parse_envelope(text: str | bytes) -> Envelope:
    """Read one message; unknown members are ignored. Raises UnreadableMessage, which has the answer to a bad one."""
    topic, headers = UNKNOWN, dict[str, Json]()
    try:
        message = decode(text)
        expect(message, dict, "/")
        # The headers first: they tell the client which of its messages an error is about.
        headers = _headers(message.get("headers"))
        topic = parse_topic(_required_text(message, "topic"))
        return Envelope(
            topic,
            _required_text(message, "path"),
            headers,
            message.get("value", UNSET),
            _text(message, "fields"),
            _long(message, "status"),
            _long(message, "revision"),
            _timestamp(message),
            _object(message, "extra"),
            _object(message, "metadata"),
        )
    except DittoError as error:
        raise UnreadableMessage(error, topic, headers) from None


def _headers(given: Json) -> dict[str, Json]:
    """Names in lower case, because they are case-insensitive; the last one wins."""
    if given is None:
        return {}
    expect(given, dict, "/headers")
    headers = {name.lower(): value for name, value in given.items() if value is not None}
    correlation = headers.get("correlation-id")
    if correlation is not None and type(correlation) is not str:
        raise wrong_type(text_of(correlation), "/headers/correlation-id", "String")
    return headers


def _required_text(message: dict[str, Json], name: str) -> str:
    if message.get(name) is None:
        raise FIELD_MISSING.of(f"/{name}")
    return str(expect(message[name], str, f"/{name}"))


def _text(message: dict[str, Json], name: str) -> str | None:
    value = message.get(name)
    return None if value is None else str(expect(value, str, f"/{name}"))


def _long(message: dict[str, Json], name: str) -> int | None:
    value = message.get(name)
    return None if value is None else expect_long(value, f"/{name}")


def _object(message: dict[str, Json], name: str) -> Json | None:
    value = message.get(name)
    return None if value is None else expect(value, dict, f"/{name}")


def _timestamp(message: dict[str, Json]) -> str | None:
    text = _text(message, "timestamp")
    if text is not None and parse_instant(text) is None:
        raise wrong_type(text_of(text), "/timestamp", "ISO-8601 timestamp")
    return text


def text_header(headers: Headers, name: str) -> str | None:
    """The header as text, a number as its digits; raises `header.invalid` for anything else."""
    value = headers.get(name)
    if value is None or type(value) is str:
        return value
    if type(value) in (int, float):
        return text_of(value)
    raise HEADER_INVALID.of(text_of(value), name, "text")


def parse_tags(text: str, name: str) -> list[str]:
    """The entity-tags that a header lists, each with its quotes, or the star; raises `header.invalid`."""
    tags: list[str] = []
    at = 0
    while at < len(text):
        found = _TAG.match(text, at)
        if found is None:
            raise HEADER_INVALID.of(text, name, "list of entity-tags")
        tags.append(found[1])
        at = found.end()
    if not tags:
        raise HEADER_INVALID.of(text, name, "list of entity-tags")
    return tags


def boolean_header(headers: Headers, name: str, default: bool) -> bool:
    """True and false, also as texts; raises `header.invalid`."""
    value = headers.get(name)
    if value is None:
        return default
    if type(value) is bool:
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise HEADER_INVALID.of(text_of(value), name, "boolean")


def duration_header(headers: Headers, name: str, default: float) -> float:
    """A time in seconds, also as `500ms`, `10s` or `1m`; raises `header.invalid`."""
    text = text_header(headers, name)
    if text is None:
        return default
    found = _DURATION.fullmatch(text)
    seconds = 0.0 if found is None else int(found[1]) * _SECONDS[found[2] or "s"]
    if not 0 < seconds <= MAX_DURATION:
        raise HEADER_INVALID.of(text, name, f"time of at most {MAX_DURATION:g}s, such as 500ms, 10s or 1m")
    return seconds
