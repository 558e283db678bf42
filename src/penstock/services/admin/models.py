"""What requests and answers of administration look like; the OpenAPI document is made from it.

What is done with them is in `routes`. Bandwidth is in kbit/s and frequency in updates a second; null means no limit.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from penstock.doors.gate import BlockScope
from penstock.services.admin.logins import AdminRole

# Smaller and larger ones are typing errors: nothing would be sent, or the limit would be none.
LEAST = 0.001
MOST = 1_000_000_000

Limit = Annotated[float, Field(ge=LEAST, le=MOST, allow_inf_nan=False)]
# Text that the log and a protocol line can carry.
PrintableName = Annotated[str, Field(min_length=1, max_length=1_000, pattern=r"^[^\x00-\x1f\x7f]+$")]
PrintableText = Annotated[str, Field(max_length=1_000, pattern=r"^[^\x00-\x1f\x7f]*$")]


class Body(BaseModel):
    """A request: nothing that is not named here, and no text in place of a number."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Bandwidth(Body):
    max_kbps: Limit | None = Field(description="Maximum bandwidth of the session, in kbit/s; null: no limit.")


class Frequency(Body):
    max_per_second: Limit | None = Field(
        description="Maximum number of updates per second for each item; null: no limit."
    )


class StreamInfo(BaseModel):
    address: str = Field(
        description="Address of the streaming port for browsers of administrators; empty: not configured."
    )
    port: int = Field(description="The streaming port, on the host of the API port.")
    tls_port: int | None = Field(description="The same with TLS; null: there is none.")


class Ending(Body):
    code: Annotated[
        int,
        Field(
            ge=-2_147_483_648,
            le=48,
            description="32; or 48, so that the client opens a new session at once; or your own code, which is 0 or "
            "below.",
        ),
    ] = 32
    message: PrintableText = "The session was closed by an administrator"


class Blocking(Body):
    scope: Annotated[BlockScope, Field(strict=False)]
    name: Annotated[
        PrintableText, Field(description="Name of the adapter set or the user; empty for the scope `all`.")
    ] = ""


class Draining(Body):
    seconds: Annotated[
        Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] | None,
        Field(description="Sessions are ended evenly within this time; null: they are not ended."),
    ] = None
    stop: Annotated[bool, Field(description="Whether the process stops when no session is left.")] = False
    node: Annotated[
        PrintableText | None,
        Field(description="The node to drain, by its name in `GET /cluster`; null: the whole server."),
    ] = None


class LevelSetting(Body):
    category: Annotated[str, Field(max_length=200, pattern=r"^\w+(\.\w+)*$")] = Field(
        description="A category of the log, such as `penstock.doors`."
    )
    level: Annotated[str, Field(max_length=20)] | None = Field(
        description="debug, info, warning or error; null: the level of the configuration."
    )


class Clearing(Body):
    adapter: PrintableName = Field(description="`SET/NAME` of a data adapter, `SET` of a metadata adapter.")


class Error(BaseModel):
    error: str


class Who(BaseModel):
    user: str
    role: AdminRole


class LoginInfo(Who):
    token: str = Field(description="For the header `Authorization: Bearer`.")
    seconds: float = Field(description="How long the token is valid.")


class SessionInfo(BaseModel):
    session: str = Field(description="The part of its identifier that logs show; it is not enough to join the session.")
    user: str | None
    adapter_set: str
    address: str
    transport: str = Field(description="websocket, websocket-polling, http-streaming, http-polling or none.")
    library: str | None = Field(description="The client library, as it identifies itself.")
    seconds: float = Field(description="Time since it was opened.")
    max_kbps: float | None
    is_ruled: bool = Field(description="Whether an administrator has set the bandwidth.")
    subscriptions: int
    items: int
    updates: int
    bytes: int
    lost: int
    waiting_bytes: int


class SubscriptionInfo(BaseModel):
    number: int
    data_adapter: str
    mode: str
    items: int
    names: list[str] = Field(description="Of the first 100 items.")
    fields: list[str]
    unfiltered: bool
    max_per_second: float | None
    is_ruled: bool = Field(description="Whether an administrator has set the frequency.")


class SessionDetail(SessionInfo):
    subscribed: list[SubscriptionInfo]


class SessionList(BaseModel):
    total: int = Field(description="Number of all that match; the list has only a part of them.")
    sessions: list[SessionInfo]


class ItemInfo(BaseModel):
    adapter_set: str
    data_adapter: str
    item: str
    mode: str | None
    subscribers: int
    events: int


class ItemList(BaseModel):
    total: int
    items: list[ItemInfo]


class AdapterInfo(BaseModel):
    adapter: str
    kind: str = Field(description="data or metadata.")
    state: str = Field(description="running, failed, degraded or awaited.")
    trouble: str | None
    optional: bool


class BlockInfo(BaseModel):
    scope: BlockScope
    name: str
    by: str


class DrainInfo(BaseModel):
    node: str | None = Field(description="The node that was asked about; null: the whole server.")
    draining: bool
    seconds_left: float | None
    stop: bool
    sessions: int
    nodes: list[str] = Field(description="The nodes that are drained by themselves.")


class NodeInfo(BaseModel):
    name: str = Field(description="Its name in logs and metrics: `hub`, `w1`, or the name of a node.")
    node: str = Field(description="What the identifiers of its sessions end with.")
    role: str = Field(
        description="single, hub, edge, both for a hub that also serves clients, or standby for one that is not active."
    )
    version: str
    since_ms: int = Field(
        description="When an edge connected to the hub, the hub started or first heard of a standby, or a worker was "
        "given up; in milliseconds since 1970."
    )
    state: str = Field(
        description="up; draining; silent: it has not answered within the last seconds; or given up: a worker that is "
        "not started again."
    )
    answers: bool = Field(description="Whether it has answered within the last seconds.")
    sessions: int
    items: int
    lag_millis: float | None = Field(description="Round-trip time of the hub's last request; null: no answer yet.")


class ClusterInfo(BaseModel):
    epoch: str | None = Field(description="A number that increases with every new active hub; null: there is no hub.")
    nodes: list[NodeInfo]


class ReloadInfo(BaseModel):
    new: list[str] = Field(description="Adapter sets that are being started.")
    changed: list[str]
    gone: list[str]
    needs_restart: list[str] = Field(description="Keys whose change has no effect before a restart.")


class TlexSessionInfo(BaseModel):
    id: str
    account: str
    domain: str
    type: str
    protocol: str
    state: str
    identifiers: int
    names: list[str] = Field(description="Of the first 100 controllers.")
    created_ms: int
    connected_ms: int | None
    received: int
    sent: int
    dropped: int


class TlexSessionList(BaseModel):
    total: int
    sessions: list[TlexSessionInfo]


class PushApplicationInfo(BaseModel):
    platform: str
    application: str
    held_back: str | None = Field(
        description="Why nothing is sent to its devices: the provider does not accept its credentials."
    )
    public_key: str | None = Field(description="Public key that pages pass to the browser, for Web Push.")


class PushDeviceInfo(BaseModel):
    device: str
    platform: str
    application: str
    status: str = Field(description="ACTIVE or SUSPENDED.")
    status_ms: int = Field(description="When the status changed, in milliseconds since 1970.")
    used_ms: int = Field(description="When a client used it last, in milliseconds since 1970.")
    badge: int
    subscriptions: int
    waiting: int = Field(description="Notifications that have not been accepted by its provider yet.")


class PushDeviceList(BaseModel):
    total: int
    devices: list[PushDeviceInfo]


class PushSubscriptionInfo(BaseModel):
    model_config = ConfigDict(protected_namespaces=())

    subscription: str
    device: str
    status: str = Field(description="ACTIVE or TRIGGERED.")
    status_ms: int
    adapter_set: str
    data_adapter: str
    group: str
    field_schema: str = Field(alias="schema", serialization_alias="schema")
    mode: str
    format: str
    trigger: str | None
    buffer_size: int | None
    max_per_second: float | None


class PushSubscriptionList(BaseModel):
    total: int
    subscriptions: list[PushSubscriptionInfo]


class PushTest(BaseModel):
    payload: str | None = Field(
        default=None, min_length=2, max_length=4_096, description="JSON for the provider; by default a line of text."
    )


class PushTested(BaseModel):
    verdict: str = Field(description="accepted, retry, refused, gone or credentials.")
    reason: str
