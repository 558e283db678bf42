"""From an HTTP request to its command: path, headers and parameters, body.

The command is carried out in `service`, and answered in `http`. Upstream documentation: "HTTP API".
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from urllib.parse import parse_qsl, unquote_to_bytes
from uuid import uuid4

from fastapi import Request
from msgspec import UNSET, UnsetType

from penstock.doors.ditto.commands import DRY_RUN
from penstock.doors.facts import request_id
from penstock.kernel.ports import ClientFacts
from penstock.wire.ditto import metadata, unsupported
from penstock.wire.ditto.document import MAX_ENTITY_BYTES, Json, decode, encode, expect
from penstock.wire.ditto.envelope import JSON_TYPE, MERGE_PATCH_TYPE, PROTOCOL_TYPE, Envelope
from penstock.wire.ditto.errors import (
    FIELD_MISSING,
    HEADER_INVALID,
    JSON_INVALID,
    UNKNOWN_PATH,
    DittoError,
    media_type_unsupported,
    too_large,
)
from penstock.wire.ditto.ids import EntityId, parse_policy_id, parse_thing_id
from penstock.wire.ditto.kinds import Action, EntityGroup
from penstock.wire.ditto.live import CLAIM
from penstock.wire.ditto.policy_errors import POLICY_ID_IN_MESSAGE, POLICY_TOO_LARGE
from penstock.wire.ditto.search import Selection
from penstock.wire.ditto.thing_errors import THING_ID_IN_MESSAGE, THING_ID_IN_POST, THING_ID_IN_PUT, THING_TOO_LARGE
from penstock.wire.ditto.topic import Criterion, Topic, TopicChannel, policy_topic, thing_topic
from penstock.wire.ditto.twin import Command, RetrieveSeveral, parse_command

ROOT = "/api/2"
# Whether a policy is retrieved with all that it imports.
POLICY_VIEW = "policy-view"
FORM_TYPE = "application/x-www-form-urlencoded"

# Headers that have an effect on a command. They can also be query parameters; the header wins.
HEADERS = (
    "correlation-id",
    "if-match",
    "if-none-match",
    "if-equal",
    "condition",
    "at-historical-revision",
    "at-historical-timestamp",
    "response-required",
    "timeout",
    "requested-acks",
    "channel",
    DRY_RUN,
    POLICY_VIEW,
    unsupported.PATCH_CONDITIONS,
    *metadata.NAMES,
    # Those that are refused.
    *unsupported.NAMES,
)

ACTIONS: Mapping[str, Action] = {
    "GET": Action.RETRIEVE,
    "HEAD": Action.RETRIEVE,
    "PUT": Action.MODIFY,
    "PATCH": Action.MERGE,
    "DELETE": Action.DELETE,
}

# The body may contain whitespace, so it may be larger than the document in it.
MAX_BODY_BYTES = 4 * MAX_ENTITY_BYTES


def client_of(request: Request) -> ClientFacts:
    host, port = ("", 0) if request.client is None else (request.client.host, request.client.port)
    headers = {name.lower(): value for name, value in request.headers.items()}
    state = request.state
    return ClientFacts(
        host,
        request.url.scheme == "https",
        headers,
        port,
        request_id=request_id(),
        listener=state.listener,
        is_from_proxy=state.is_from_proxy,
    )


def parameters_of(request: Request) -> dict[str, str]:
    """The query parameters, by names in lower case."""
    return {name.lower(): value for name, value in request.query_params.items()}


def headers_of(request: Request, kept: tuple[str, ...] = ()) -> dict[str, Json]:
    """Those that the command is to have; `kept` are the names of those that are journaled with it."""
    parameters = parameters_of(request)
    headers: dict[str, Json] = {name: request.headers[name] for name in kept if name in request.headers}
    for name in HEADERS:
        value = request.headers.get(name, parameters.get(name))
        if value is not None:
            headers[name] = value
    correlation = headers.setdefault("correlation-id", str(uuid4()))
    if not _fits_header(str(correlation)):
        raise HEADER_INVALID.of(correlation, "correlation-id", "line of text, in characters that HTTP headers allow")
    return headers


def _fits_header(text: str) -> bool:
    """Whether an answer can carry it: as a query parameter it may be any text."""
    return all(" " <= letter <= "~" or "\xa0" <= letter <= "\xff" for letter in text)


def segments_of(request: Request, group: EntityGroup) -> list[str]:
    """The parts of the path after the group, each decoded separately: an escaped slash belongs to its part."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    rest = raw.partition(b"?")[0].removeprefix(f"{ROOT}/{group.value}".encode()).strip(b"/")
    try:
        return [unquote_to_bytes(part).decode() for part in rest.split(b"/")] if rest else []
    except UnicodeDecodeError:
        raise UNKNOWN_PATH.of(request.url.path, description="The path is not UTF-8.") from None


def entity_of(group: EntityGroup, text: str) -> EntityId:
    """Raises that the ID is invalid."""
    return parse_policy_id(text) if group is EntityGroup.POLICIES else parse_thing_id(text)


def topic_of(group: EntityGroup, entity: EntityId, action: Action) -> Topic:
    topic = policy_topic if group is EntityGroup.POLICIES else thing_topic
    return topic(entity.namespace, entity.name, Criterion.COMMANDS, action)


def path_of(group: EntityGroup, parts: list[str]) -> str:
    """The path inside the entity. In that of a policy slashes are part of the last key; in things they are not."""
    if group is EntityGroup.POLICIES:
        return "/" + "/".join(parts)
    return "/" + "/".join([part.replace("/", "~1") for part in parts])


async def body_of(request: Request, action: Action, group: EntityGroup) -> Json | UnsetType:
    """The value in the body of a request; raises 415, and 413 before all of a too large body is read."""
    if action not in (Action.CREATE, Action.MODIFY, Action.MERGE):
        return UNSET
    _check_type(request, action)
    body = await _whole_body(request, group)
    if not body and action is Action.CREATE:
        return {}
    return decode(body)


async def _whole_body(request: Request, group: EntityGroup) -> bytes:
    declared = request.headers.get("content-length", "")
    if declared.isdigit():
        _check_length(int(declared), group)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        _check_length(len(body), group)
    return bytes(body)


def _check_length(size: int, group: EntityGroup) -> None:
    if size > MAX_BODY_BYTES:
        entry = POLICY_TOO_LARGE if group is EntityGroup.POLICIES else THING_TOO_LARGE
        raise too_large(entry, size, MAX_ENTITY_BYTES)


def _check_type(request: Request, action: Action) -> None:
    given = request.headers.get("content-type")
    kind = "" if given is None else given.partition(";")[0].strip().lower()
    allowed = (MERGE_PATCH_TYPE,) if action is Action.MERGE else (JSON_TYPE, PROTOCOL_TYPE)
    if (given is None and action is not Action.MERGE) or kind in allowed:
        return
    raise media_type_unsupported(given or "", ", ".join(allowed))


async def command_of(request: Request, group: EntityGroup, kept: tuple[str, ...] = ()) -> Command:
    """The command of a request about one entity; raises what is wrong with it."""
    action = ACTIONS[request.method]
    id, *parts = segments_of(request, group)
    topic = topic_of(group, entity_of(group, id), action)
    value = await body_of(request, action, group)
    fields = parameters_of(request).get("fields")
    try:
        return _one(parse_command(Envelope(topic, path_of(group, parts), headers_of(request, kept), value, fields)))
    except DittoError as error:
        # The same in terms of HTTP.
        if error == THING_ID_IN_MESSAGE.of():
            raise THING_ID_IN_PUT.of() from None
        raise


async def creation_of(
    request: Request, group: EntityGroup, default_namespace: str, kept: tuple[str, ...] = ()
) -> Command:
    """The command of a POST: the identifier is generated here."""
    value = expect(await body_of(request, Action.CREATE, group), dict, "/")
    if group is EntityGroup.THINGS and "thingId" in value:
        raise THING_ID_IN_POST.of()
    if group is EntityGroup.POLICIES and "policyId" in value:
        raise POLICY_ID_IN_MESSAGE.of()
    namespace = parameters_of(request).get("namespace", default_namespace)
    entity = entity_of(group, f"{namespace}:{uuid4()}")
    return _one(parse_command(Envelope(topic_of(group, entity, Action.CREATE), "/", headers_of(request, kept), value)))


async def migration_of(request: Request, kept: tuple[str, ...] = ()) -> Command:
    """The command of a POST that gives a thing another definition."""
    id, *_ = segments_of(request, EntityGroup.THINGS)
    topic = topic_of(EntityGroup.THINGS, entity_of(EntityGroup.THINGS, id), Action.MIGRATE)
    value = await body_of(request, Action.CREATE, EntityGroup.THINGS)
    return _one(parse_command(Envelope(topic, "/", headers_of(request, kept), value)))


def several_of(request: Request) -> RetrieveSeveral:
    """The command of a GET that names several things by `ids`."""
    parameters = parameters_of(request)
    if "ids" not in parameters:
        raise FIELD_MISSING.of("ids", description="Name the things in the parameter 'ids', separated by commas.")
    ids = [id.strip() for id in parameters["ids"].split(",") if id.strip()]
    topic = thing_topic("_", "_", Criterion.COMMANDS, Action.RETRIEVE)
    envelope = Envelope(topic, "/", headers_of(request), {"thingIds": ids}, parameters.get("fields"))
    found = parse_command(envelope)
    assert isinstance(found, RetrieveSeveral)
    return found


async def message_of(request: Request) -> Envelope:
    """The message of a POST to a mailbox. JSON is a value, text is a text, anything else a text in Base64."""
    id, *parts = segments_of(request, EntityGroup.THINGS)
    entity = entity_of(EntityGroup.THINGS, id)
    if parts == ["inbox", CLAIM]:
        parts = ["inbox", "messages", CLAIM]
    subject = "/".join(parts[parts.index("messages") + 1 :])
    topic = Topic(
        entity.namespace, entity.name, EntityGroup.THINGS, TopicChannel.LIVE, Criterion.MESSAGES, None, subject
    )
    headers = headers_of(request)
    unsupported.check_headers(headers)
    unsupported.check_plain(headers)
    body = await _whole_body(request, EntityGroup.THINGS)
    kind = request.headers.get("content-type", JSON_TYPE if not body else "application/octet-stream")
    headers["content-type"] = kind
    value: Json | UnsetType = UNSET
    if body:
        value = _message_value(body, kind)
    return Envelope(topic, "/" + "/".join(parts), headers, value)


def _is_json(kind: str) -> bool:
    media = kind.partition(";")[0].strip().lower()
    return media == JSON_TYPE or media.endswith("+json")


def _is_text(kind: str) -> bool:
    return kind.strip().lower().startswith("text/")


def _message_value(body: bytes, kind: str) -> Json:
    if _is_json(kind):
        return decode(body)
    if _is_text(kind):
        try:
            return body.decode()
        except UnicodeDecodeError:
            raise JSON_INVALID.of("The text is not UTF-8.", description="Send other bytes as another type.") from None
    return b64encode(body).decode()


def body_of_message(value: Json, kind: str) -> tuple[bytes, str]:
    """The body for the value of an answer, and its type: the reverse of what `message_of` does."""
    if _is_json(kind) or type(value) is not str:
        return encode(value), kind if _is_json(kind) else JSON_TYPE
    if _is_text(kind):
        return value.encode(), kind
    try:
        return b64decode(value, validate=True), kind
    except ValueError:
        return value.encode(), kind


async def selection_of(request: Request, *, is_count: bool = False) -> Selection:
    """The search that a request asks for: its parameters are in the query, or in the form that a POST sends."""
    headers = headers_of(request)
    unsupported.check_headers(headers)
    unsupported.check_plain(headers)
    given = parameters_of(request)
    if request.method == "POST":
        kind = request.headers.get("content-type", FORM_TYPE)
        if kind.partition(";")[0].strip().lower() != FORM_TYPE:
            raise media_type_unsupported(kind, FORM_TYPE)
        try:
            form = (await _whole_body(request, EntityGroup.THINGS)).decode()
            given |= dict(parse_qsl(form, keep_blank_values=True, errors="strict", max_num_fields=16))
        except ValueError:
            told = "The body is not a form: expected at most 16 fields in UTF-8, such as filter=eq(attributes/x,1)."
            raise JSON_INVALID.of(told, description="See the documentation of searches.") from None
    namespaces = given.get("namespaces")
    return Selection(
        given.get("filter") or None,
        None if is_count else given.get("option") or None,
        tuple([each.strip() for each in namespaces.split(",")]) if namespaces else None,
        None if is_count else given.get("fields") or None,
    )


def _one(command: Command | RetrieveSeveral) -> Command:
    assert isinstance(command, Command)
    return command
