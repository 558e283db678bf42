"""What calls between hub and edges carry: the bodies of questions and answers, as records and as bytes.

Which method has which body is in `penstock.cluster.guests` and `penstock.cluster.edge_calls`; what of the kernel's
records they stand for, in `penstock.cluster.conversions`. The envelopes are in `messages`.
"""

from __future__ import annotations

from typing import TypeAlias, TypeVar

import msgspec
from msgspec import Raw, Struct

from penstock.wire.fabric.messages import FabricError
from penstock.wire.tlcp import push

T = TypeVar("T")

# Sent, lost, filtered: of one item.
ItemStatistics: TypeAlias = tuple[int, int, int]

# -- from an edge: sessions --------------------------------------------------------------------------------------------


class ClientBody(Struct, array_like=True, frozen=True):
    """What is known of a client."""

    address: str
    secure: bool
    headers: dict[str, str]
    port: int
    principal: str | None
    request_id: str
    listener: str
    library: str | None
    library_version: str | None

    def __repr__(self) -> str:
        # Headers may have credentials.
        return f"ClientBody({self.address!r})"


class AuthenticateBody(Struct, array_like=True, frozen=True):
    adapter_set: str
    user: str | None
    password: str | None
    client: ClientBody

    def __repr__(self) -> str:
        return f"AuthenticateBody({self.adapter_set!r}, {self.user!r})"


class AdmissionBody(Struct, array_like=True, frozen=True):
    """The answer to `AuthenticateBody`."""

    max_bandwidth: float | None
    manages_bandwidth: bool
    user: str | None
    roles: tuple[str, ...]
    time_to_live: float | None
    follows_subscriptions: bool
    reexamines_bandwidth: bool


class WelcomeBody(Struct, array_like=True, frozen=True):
    """A session that an edge has opened."""

    session: str
    user: str | None
    adapter_set: str
    client: ClientBody
    admission: AdmissionBody


class SessionBody(Struct, array_like=True, frozen=True):
    """A question about a session that needs no more than its name."""

    session: str


# -- from an edge: subscriptions ---------------------------------------------------------------------------------------


class WishBody(Struct, array_like=True, frozen=True):
    data_adapter: str
    group: str
    schema: str
    mode: str
    selector: str | None
    buffer_size: int | None
    max_frequency: float | None
    unfiltered: bool
    snapshot: bool
    snapshot_length: int | None


class ResolveBody(Struct, array_like=True, frozen=True):
    session: str
    number: int
    wish: WishBody


class SubscriptionBody(Struct, array_like=True, frozen=True):
    """What a metadata adapter is told of a subscription."""

    number: int
    data_adapter: str
    mode: str
    group: str
    schema: str
    selector: str | None
    items: tuple[str, ...]


class ItemGrantBody(Struct, array_like=True, frozen=True):
    """`name` is that of a derived item if the metadata adapter changes or chooses events for the subscription."""

    name: str
    max_frequency: float | None
    max_buffer_size: int | None
    snapshot_length: int
    prefilter_frequency: float


class GrantBody(Struct, array_like=True, frozen=True):
    """The answer to `ResolveBody`."""

    items: tuple[ItemGrantBody, ...]
    fields: tuple[str, ...]
    facts: SubscriptionBody | None


class FrequenciesBody(Struct, array_like=True, frozen=True):
    """Answered by limits, one for each item, as is a question about the bandwidth by one."""

    session: str
    data_adapter: str
    items: tuple[str, ...]


class ClosedBody(Struct, array_like=True, frozen=True):
    """A subscription is over, or has not begun although it was granted."""

    session: str
    number: int
    statistics: tuple[ItemStatistics, ...]


# -- from an edge: messages --------------------------------------------------------------------------------------------


class MessageBody(Struct, array_like=True, frozen=True):
    session: str
    text: str


class OutcomeBody(Struct, array_like=True, frozen=True):
    """The answer to `MessageBody`; without a code all went well, and the text is the response."""

    code: int | None
    text: str


# -- from an edge: push notifications ----------------------------------------------------------------------------------


class RegisterBody(Struct, tag="register", array_like=True, frozen=True):
    platform: str
    application: str
    token: str
    new_token: str | None

    def __repr__(self) -> str:
        return f"RegisterBody({self.platform!r}, {self.application!r})"


class ResetBody(Struct, tag="reset", array_like=True, frozen=True):
    device: str


class ActivateBody(Struct, tag="activate", array_like=True, frozen=True):
    device: str
    subscription: str | None
    number: int
    data_adapter: str
    group: str
    schema: str
    mode: str
    buffer_size: int | None
    max_frequency: float | None
    format: str
    trigger: str | None
    coalescing: bool


class ReconfigureBody(Struct, tag="reconfigure", array_like=True, frozen=True):
    device: str
    subscription: str
    data_adapter: str
    group: str
    schema: str
    mode: str
    changes_frequency: bool
    max_frequency: float | None
    format: str | None
    trigger: str | None


class DeactivateBody(Struct, tag="deactivate", array_like=True, frozen=True):
    device: str
    subscription: str | None
    status: str | None


PushRequestBody: TypeAlias = RegisterBody | ResetBody | ActivateBody | ReconfigureBody | DeactivateBody

_PUSH: dict[type[push.PushControl], type[PushRequestBody]] = {
    push.RegisterDevice: RegisterBody,
    push.ResetBadge: ResetBody,
    push.ActivatePush: ActivateBody,
    push.ReconfigurePush: ReconfigureBody,
    push.DeactivatePush: DeactivateBody,
}
_PUSH_REQUESTS = {body: request for request, body in _PUSH.items()}


class PushBody(Struct, array_like=True, frozen=True):
    """Answered by texts: the device and its data adapter, the subscription, those that are gone, or none."""

    session: str
    request: PushRequestBody


def push_body(session: str, request: push.PushControl) -> PushBody:
    kind = _PUSH[type(request)]
    return PushBody(session, kind(*[getattr(request, name) for name in kind.__struct_fields__]))


def push_request(body: PushBody) -> push.PushControl:
    """The request, without what only the door that parsed it needs."""
    kind = _PUSH_REQUESTS[type(body.request)]
    return kind(body.session, "", **msgspec.structs.asdict(body.request))


# -- from an edge: its sessions, to a hub that may not know them -------------------------------------------------------


class PresentBody(Struct, array_like=True, frozen=True):
    """All sessions of an edge; `coming` are those that the hub is being asked about. Answered by those that the hub
    does not know: they are to be adopted. `round` counts up: what belongs to one before the latest is too old.
    """

    round: int
    sessions: tuple[str, ...]
    coming: tuple[str, ...]


class KnownSubscription(Struct, array_like=True, frozen=True):
    """A subscription of a session to be adopted. `limitable`: its frequency may be limited.

    With derived items there are the wish and the names of all items, because the hub has to derive them again.
    """

    number: int
    limitable: bool
    facts: SubscriptionBody | None
    wish: WishBody | None
    items: tuple[str, ...]


class AdoptedSession(Struct, array_like=True, frozen=True):
    """`device` is the one that the session has registered for push notifications."""

    session: WelcomeBody
    device: str | None
    subscriptions: tuple[KnownSubscription, ...]


class AdoptBody(Struct, array_like=True, frozen=True):
    """Answered by the names of those that are to be closed. `is_last`: all others have been adopted before."""

    round: int
    sessions: tuple[AdoptedSession, ...]
    is_last: bool


# -- from a hub --------------------------------------------------------------------------------------------------------


class EndBody(Struct, array_like=True, frozen=True):
    session: str
    cause: int
    message: str


class EndAfterBody(Struct, array_like=True, frozen=True):
    session: str
    seconds: float


class UnsubscribeBody(Struct, array_like=True, frozen=True):
    session: str
    number: int


class BandwidthBody(Struct, array_like=True, frozen=True):
    session: str
    limit: float | None


class FrequencyBody(Struct, array_like=True, frozen=True):
    session: str
    number: int
    limit: float | None


# -- bytes -------------------------------------------------------------------------------------------------------------

_ENCODER = msgspec.msgpack.Encoder()


def encode_body(body: object) -> bytes:
    return _ENCODER.encode(body)


def decode_body(kind: type[T], body: Raw | bytes) -> T:
    """Raises a FabricError."""
    try:
        return msgspec.msgpack.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FabricError(f"{kind.__name__}: {error}") from None
