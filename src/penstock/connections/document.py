"""The document of a connection, as clients send it: its members, checked, and without its secrets.

The form is that of Eclipse Ditto. What its parts do is in `source` and `target`; which addresses a kind of broker takes
is its own business.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from penstock.connections.errors import URI_INVALID, invalid

# What is shown in place of a secret. A document with it keeps the secret that is stored.
HIDDEN = "*****"

# Kinds of connections, and the schemes of their URIs; those in the second list are encrypted.
KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "mqtt": (("tcp", "mqtt"), ("ssl", "mqtts")),
    "mqtt-5": (("tcp", "mqtt"), ("ssl", "mqtts")),
    "kafka": (("tcp",), ("ssl",)),
    "http-push": (("http",), ("https",)),
    "nats": (("nats", "tcp"), ("tls",)),
}

MAX_ID_CHARACTERS = 128
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]*")

RESPONSE_TYPES = ("response", "error", "nack")


class _Part(msgspec.Struct, rename="camel", forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    pass


class Enforcement(_Part):
    input: str
    filters: list[str]


class AcknowledgementRequests(_Part):
    includes: list[str] = []


class ReplyTarget(_Part):
    address: str
    header_mapping: dict[str, str] = {}
    expected_response_types: tuple[str, ...] = RESPONSE_TYPES
    enabled: bool = True


class SourceDocument(_Part):
    addresses: list[str]
    authorization_context: list[str]
    consumer_count: int = 1
    qos: int = 1
    enforcement: Enforcement | None = None
    header_mapping: dict[str, str] = {}
    payload_mapping: list[str] = []
    reply_target: ReplyTarget | None = None
    acknowledgement_requests: AcknowledgementRequests | None = None


class TargetDocument(_Part):
    address: str
    topics: list[str]
    authorization_context: list[str]
    qos: int = 1
    header_mapping: dict[str, str] = {}
    payload_mapping: list[str] = []
    issued_acknowledgement_label: str | None = None


class MappingDefinition(_Part):
    mapping_engine: str
    options: dict[str, Any] = {}


class BrokerCredentials(_Part):
    """`plain` has user and password, `client-cert` a certificate and its key as PEM, `bearer` a token."""

    type: str
    username: str = ""
    password: str = ""
    cert: str = ""
    key: str = ""
    token: str = ""


class ConnectionDocument(_Part):
    connection_type: str
    uri: str
    id: str = ""
    name: str = ""
    connection_status: str = "open"
    sources: list[SourceDocument] = []
    targets: list[TargetDocument] = []
    specific_config: dict[str, str] = {}
    mapping_definitions: dict[str, MappingDefinition] = {}
    credentials: BrokerCredentials | None = None
    ca: str = ""
    failover_enabled: bool = True
    validate_certificates: bool = True
    client_count: int = 1
    tags: list[str] = []

    @property
    def is_encrypted(self) -> bool:
        return urlsplit(self.uri).scheme in KINDS[self.connection_type][1]

    @property
    def host(self) -> str:
        return urlsplit(self.uri).hostname or ""

    @property
    def port(self) -> int | None:
        return urlsplit(self.uri).port

    @property
    def user(self) -> str | None:
        if self.credentials is not None and self.credentials.type == "plain":
            return self.credentials.username
        found = urlsplit(self.uri).username
        return None if found is None else unquote(found)

    @property
    def password(self) -> str | None:
        if self.credentials is not None and self.credentials.type == "plain":
            return self.credentials.password
        found = urlsplit(self.uri).password
        return None if found is None else unquote(found)


def read_document(given: Any) -> ConnectionDocument:
    """Raises the error that says which member is wrong, and what is expected."""
    try:
        document = msgspec.convert(given, ConnectionDocument)
    except msgspec.ValidationError as error:
        raise invalid(f"The connection is not valid: {error}") from None
    _check(document)
    return document


def to_json(document: ConnectionDocument) -> dict[str, Any]:
    """With its secrets: for the store alone."""
    found: dict[str, Any] = msgspec.to_builtins(document)
    return {**found, "connectionStatus": document.connection_status}


def shown(document: ConnectionDocument) -> dict[str, Any]:
    """As clients see it, without its secrets."""
    found = to_json(document)
    found["uri"] = _without_password(document.uri)
    if document.credentials is not None:
        for name in _SECRETS:
            if found["credentials"].get(name):
                found["credentials"][name] = HIDDEN
    for name in found.get("specificConfig", {}):
        if _is_secret(name):
            found["specificConfig"][name] = HIDDEN
    return found


def with_secrets_of(document: ConnectionDocument, stored: ConnectionDocument) -> ConnectionDocument:
    """A document that was shown and sent back has its secrets again, if it is for the same place and user."""
    changes: dict[str, Any] = {}
    if not _same_place(document, stored):
        return document
    if f":{HIDDEN}@" in document.uri and _without_password(document.uri) == _without_password(stored.uri):
        changes["uri"] = stored.uri
    if document.credentials is not None and stored.credentials is not None:
        kept = {
            name: getattr(stored.credentials, name)
            for name in _SECRETS
            if getattr(document.credentials, name) == HIDDEN
        }
        if kept and document.credentials.username == stored.credentials.username:
            changes["credentials"] = msgspec.structs.replace(document.credentials, **kept)
    hidden = [name for name, value in document.specific_config.items() if value == HIDDEN]
    if hidden:
        known = {name: stored.specific_config.get(name, HIDDEN) for name in hidden}
        changes["specific_config"] = {**document.specific_config, **known}
    return msgspec.structs.replace(document, **changes)


def _same_place(one: ConnectionDocument, other: ConnectionDocument) -> bool:
    """Else whoever may change a connection could have its secrets sent to a place of their own."""

    def place(document: ConnectionDocument) -> tuple[object, ...]:
        # Options may name other places, as bootstrapServers does.
        options = {name: value for name, value in document.specific_config.items() if not _is_secret(name)}
        return document.connection_type, document.host, document.port, document.is_encrypted, options

    return place(one) == place(other)


_SECRETS = ("password", "key", "token")


def _is_secret(name: str) -> bool:
    return any(word in name.lower() for word in ("password", "secret", "token", "key.pem"))


def _without_password(uri: str) -> str:
    # Not by urlsplit: whatever follows the scheme must not be shown, also if it cannot be split.
    scheme, separator, rest = uri.partition("://")
    login, at, place = rest.rpartition("@")
    user, colon, _ = login.partition(":")
    return f"{scheme}{separator}{user}:{HIDDEN}@{place}" if at and colon else uri


def check_id(text: str) -> None:
    if not _ID.fullmatch(text) or len(text) > MAX_ID_CHARACTERS:
        raise invalid(
            f"The ID '{text}' of a connection is not valid: expected at most {MAX_ID_CHARACTERS} letters, digits and"
            " the characters _ . : -, beginning with a letter, a digit or _."
        )


def _check(document: ConnectionDocument) -> None:
    kind = document.connection_type
    if kind not in KINDS:
        raise invalid(f"connectionType = '{kind}': expected one of {', '.join(KINDS)}")
    if document.id:
        check_id(document.id)
    if document.connection_status not in ("open", "closed"):
        raise invalid(f"connectionStatus = '{document.connection_status}': expected open or closed")
    _check_uri(document)
    if not document.sources and not document.targets:
        raise invalid("A connection needs at least one entry in sources or targets")
    if kind == "http-push" and document.sources:
        raise invalid("sources: a connection of type http-push has targets only, because it makes requests")
    if not document.failover_enabled:
        raise invalid("failoverEnabled = false: expected true, because a connection that is lost is always made again")
    if document.client_count != 1:
        raise invalid(f"clientCount = {document.client_count}: expected 1, because one server runs the connection")
    if document.credentials is not None and document.credentials.type not in ("plain", "client-cert", "bearer"):
        raise invalid(f"credentials.type = '{document.credentials.type}': expected plain, client-cert or bearer")
    if (document.ca or (document.credentials and document.credentials.cert)) and not document.is_encrypted:
        raise invalid(f"ca and credentials of type client-cert need an encrypted URI: {' or '.join(KINDS[kind][1])}://")
    for number, source in enumerate(document.sources):
        where = f"sources[{number}]"
        _check_subjects(where, source.authorization_context)
        if not source.addresses or not all(source.addresses):
            raise invalid(f"{where}.addresses: expected at least one")
        _check_qos(where, source.qos)
        if source.consumer_count != 1:
            raise invalid(f"{where}.consumerCount = {source.consumer_count}: expected 1")
        reply = source.reply_target
        if reply is not None:
            wrong = [each for each in reply.expected_response_types if each not in RESPONSE_TYPES]
            if wrong:
                raise invalid(
                    f"{where}.replyTarget.expectedResponseTypes: '{wrong[0]}' is none of response, error, nack"
                )
    for number, target in enumerate(document.targets):
        where = f"targets[{number}]"
        _check_subjects(where, target.authorization_context)
        if not target.address:
            raise invalid(f"{where}.address: expected where messages are published")
        if not target.topics:
            raise invalid(f"{where}.topics: expected at least one, such as _/_/things/twin/events")
        _check_qos(where, target.qos)


def _check_uri(document: ConnectionDocument) -> None:
    plain, encrypted = KINDS[document.connection_type]
    try:
        parts = urlsplit(document.uri)
        port = parts.port
    except ValueError:
        raise URI_INVALID.of("it is malformed") from None
    if parts.scheme not in plain + encrypted:
        expected = ", ".join(f"{scheme}://" for scheme in plain + encrypted)
        raise URI_INVALID.of(f"expected one of {expected} for the type {document.connection_type}")
    if not parts.hostname:
        raise URI_INVALID.of("it has no host")
    if port is None and document.connection_type in ("kafka",):
        raise URI_INVALID.of("it has no port")


def _check_subjects(where: str, subjects: list[str]) -> None:
    if not subjects or not all(subjects):
        raise invalid(f"{where}.authorizationContext: expected at least one subject, as policies name it")
    for subject in subjects:
        if "{{" in subject:
            raise invalid(f"{where}.authorizationContext: '{subject}': placeholders are not supported in subjects")


def _check_qos(where: str, qos: int) -> None:
    if qos not in (0, 1, 2):
        raise invalid(f"{where}.qos = {qos}: expected 0, 1 or 2")
