"""A metadata adapter in another process: the server's side of it.

While it is away, sessions and subscriptions go on with what they were granted; new ones are refused. Which refusal it
is, is in `refusals`; the connection is in `link`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import TypeVar, Unpack

from penstock.adapters.api import MetadataAdapter
from penstock.adapters.remote.calls import CallOutcome, Unanswered, Why
from penstock.adapters.remote.link import Linked, RemoteLink
from penstock.adapters.remote.refusals import refusal
from penstock.adapters.remote.settings import ConnectionParameters, ParameterError, read_settings
from penstock.adapters.server import ServerHandle
from penstock.kernel.alike import shared_grant, shared_item, shared_name
from penstock.kernel.errors import Cause, Reason, Refusal
from penstock.kernel.item import Mode
from penstock.kernel.ports import (
    Admission,
    ClientFacts,
    DeviceFacts,
    Grant,
    PushFacts,
    SessionFacts,
    Statistics,
    SubscriptionFacts,
    Wish,
)
from penstock.log import get
from penstock.wire.ari import requests
from penstock.wire.ari.notifications import AriUpdate
from penstock.wire.ari.packets import AriStream, ForceSessionEnd, ForceUnsubscription, Packet
from penstock.wire.ari.replies import (
    AriNames,
    Done,
    ExceptionKind,
    Failed,
    ItemData,
    Reply,
    SessionAdmitted,
    TablesAdmitted,
    UserAdmitted,
    UserItemData,
)

log = get(__name__)

# Ends of sessions and subscriptions kept for an adapter that is away; of more the oldest are dropped.
MAX_KEPT_ENDS = 10_000

R = TypeVar("R", bound=Reply)

# A subscription, and what the adapter wants to do and to hear about it.
KnownTable = tuple[SubscriptionFacts, TablesAdmitted]


class RemoteMetadataAdapter(Linked, MetadataAdapter):
    """Listens for the remote process.

    `close_notifications_recovery`: whether the process is told, when it is back, of sessions and subscriptions that
    have ended meanwhile.
    """

    quick = True

    def __init__(
        self, *, close_notifications_recovery: bool = True, **connection: Unpack[ConnectionParameters]
    ) -> None:
        if not isinstance(close_notifications_recovery, bool):
            raise ParameterError("close_notifications_recovery", close_notifications_recovery, "true or false")
        self._settings = read_settings(connection, first_connection_timeout_millis=-1)
        self._keeps_ends = close_notifications_recovery
        self._ends: deque[requests.Request] = deque(maxlen=MAX_KEPT_ENDS)
        # Sessions that the adapter is just being told of; those that it knows, with their subscriptions that it knows.
        self._opening: set[str] = set()
        self._sessions: dict[str, dict[int, KnownTable]] = {}

    def attach(self, server: ServerHandle) -> None:
        super().attach(server)
        self.link = RemoteLink(
            self._settings, {AriStream.METADATA: self._settings.port}, self, self.adapter_set, "metadata"
        )

    # -- sessions -------------------------------------------------------------------------------------------------

    async def authenticate(self, user: str | None, password: str | None, client: ClientFacts) -> Admission:
        # Headers have names in lower case, so that this one cannot be a client's.
        headers = (*client.headers.items(), ("REQUEST_ID", client.request_id))
        # Only for those who have shown a certificate: some peers admit everybody when asked in this way.
        request = (
            requests.NotifyUser(user, password, headers)
            if client.principal is None
            else requests.NotifyCertifiedUser(user, password, client.principal, headers)
        )
        admitted = await self._answer(request, UserAdmitted)
        limit = admitted.max_bandwidth
        return Admission(limit if limit > 0 else None, follows_subscriptions=admitted.wants_tables)

    async def new_session(self, session: SessionFacts) -> float | None:
        self._opening.add(session.id)
        try:
            admitted = await self._admit(requests.NotifySession(session.user, session.id, _context(session.client)))
        finally:
            closed = session.id not in self._opening
            self._opening.discard(session.id)
        if closed:
            await self._tell_end(requests.NotifySessionEnd(session.id))
            return None
        self._sessions[session.id] = {}
        time_to_live = admitted.time_to_live
        return float(time_to_live) if time_to_live is not None and time_to_live > 0 else None

    async def _admit(self, request: requests.NotifySession) -> SessionAdmitted:
        outcome = await self._ask(request)
        if isinstance(outcome, Failed) and outcome.kind is ExceptionKind.CONFLICTING_SESSION:
            # Only once: an adapter that still refuses then will not accept.
            self.server.end_session(
                outcome.conflicting_session or "",
                "Another session has been opened for this user",
                Cause.ANOTHER_SESSION,
            )
            outcome = await self._ask(request)
        return self._expect(outcome, SessionAdmitted)

    async def session_closed(self, session: SessionFacts) -> None:
        """Not for one that the adapter was never told of, or has refused."""
        self._opening.discard(session.id)
        tables = self._sessions.pop(session.id, None)
        if tables is None:
            return
        # Those that were told and then could not begin.
        for subscription, _ in tables.values():
            await self._tell_end(requests.NotifyTablesEnd(session.id, (_table(subscription),)))
        await self._tell_end(requests.NotifySessionEnd(session.id))

    # -- subscriptions --------------------------------------------------------------------------------------------

    async def resolve(self, session: SessionFacts, wish: Wish) -> Grant:
        """Items and fields one after the other, then what holds for all items at once."""
        if wish.selector is not None:
            raise Refusal(Reason.SELECTOR, f"{wish.selector[:60]} is not a selector: remote adapters have none")
        items = await self._answer(requests.GetItems(session.user, wish.group, session.id), AriNames)
        names = tuple([shared_name(name) for name in items.names])
        schema = requests.GetSchema(session.user, wish.group, wish.schema, session.id)
        fields = (await self._answer(schema, AriNames)).names
        if not fields:
            raise Refusal(Reason.SCHEMA, "The schema has no fields")
        if not names:
            # A request about no items is none that the protocol has.
            return Grant((), tuple([shared_name(field) for field in fields]))
        facts, user_facts = await asyncio.gather(
            self._answer(requests.GetItemData(names), ItemData),
            self._answer(requests.GetUserItemData(session.user, names), UserItemData),
        )
        if not len(facts.items) == len(user_facts.items) == len(names):
            log.error(
                "remote metadata adapter answered about the wrong items",
                adapter_set=self.adapter_set,
                asked=len(names),
                answered=[len(facts.items), len(user_facts.items)],
            )
            raise Refusal(Reason.AUTHORITY_ERROR, "The metadata adapter failed on this request")
        mode = Mode(wish.mode).value
        granted = []
        for name, item, own in zip(names, facts.items, user_facts.items, strict=True):
            if mode not in item.modes or mode not in own.modes:
                raise Refusal(Reason.MODE, f"Mode {mode} is not supported for item {name[:60]}")
            granted.append(
                shared_item(
                    name,
                    own.max_frequency if own.max_frequency > 0 else None,
                    own.max_buffer_size if own.max_buffer_size > 0 else None,
                    max(0, item.snapshot_length),
                    max(0.0, item.min_source_frequency),
                )
            )
        return shared_grant(tuple(granted), tuple([shared_name(field) for field in fields]))

    async def resolve_frequencies(
        self, session: SessionFacts, data_adapter: str, items: Sequence[str]
    ) -> Sequence[float | None] | None:
        """While the process is away, what was granted holds."""
        if not self.connected or not items:
            return None
        found = await self._answer(requests.GetUserItemData(session.user, tuple(items)), UserItemData)
        return [item.max_frequency if item.max_frequency > 0 else None for item in found.items]

    async def subscribed(self, session: SessionFacts, subscription: SubscriptionFacts) -> None:
        tables = self._sessions.get(session.id, {})
        before = tables.pop(subscription.number, None)
        if before is not None:
            # It was told and then could not begin; now its number comes again.
            await self._tell_end(requests.NotifyTablesEnd(session.id, (_table(before[0]),)))
        request = requests.NotifyTables(session.user, session.id, (_table(subscription),))
        admitted = await self._answer(request, TablesAdmitted)
        if session.id in self._sessions:
            tables[subscription.number] = subscription, admitted
        else:
            # The session has gone meanwhile.
            await self._tell_end(requests.NotifyTablesEnd(session.id, (_table(subscription),)))

    async def unsubscribed(
        self, session: SessionFacts, subscription: SubscriptionFacts, statistics: Sequence[Statistics]
    ) -> None:
        known = self._sessions.get(session.id, {}).pop(subscription.number, None)
        if known is not None:
            told = statistics if known[1].wants_statistics else ()
            await self._tell_end(requests.NotifyTablesEnd(session.id, (_table(subscription, told),)))

    # -- push notifications ---------------------------------------------------------------------------------------

    async def register_device(self, session: SessionFacts, device: DeviceFacts) -> None:
        await self._answer(requests.NotifyDevice(session.user, session.id, _device(device)), Done)

    async def change_device_token(self, session: SessionFacts, device: DeviceFacts, new_token: str) -> None:
        await self._answer(requests.NotifyTokenChange(session.user, session.id, _device(device), new_token), Done)

    async def activate_push(self, session: SessionFacts, device: DeviceFacts, subscription: PushFacts) -> None:
        request = requests.NotifyActivation(
            session.user,
            session.id,
            _push_table(subscription),
            _device(device),
            subscription.trigger,
            subscription.format,
        )
        await self._answer(request, Done)

    # -- messages -------------------------------------------------------------------------------------------------

    async def message(self, session: SessionFacts, text: str) -> str | None:
        await self._answer(requests.NotifyMessage(session.user, session.id, text), Done)
        return None

    # -- asking ---------------------------------------------------------------------------------------------------

    async def _answer(self, request: requests.Request, kind: type[R]) -> R:
        return self._expect(await self._ask(request), kind)

    def _expect(self, outcome: CallOutcome, kind: type[R]) -> R:
        if isinstance(outcome, kind):
            return outcome
        raise refusal(outcome, self.adapter_set)

    async def _ask(self, request: requests.Request) -> CallOutcome:
        if not self.connected:
            return Unanswered(request.method, Why.ABSENT)
        answer: asyncio.Future[CallOutcome] = asyncio.get_running_loop().create_future()
        self.link.ask(request, lambda outcome: None if answer.done() else answer.set_result(outcome))
        return await answer

    async def _tell_end(self, request: requests.Request) -> None:
        """Of a session or a subscription: nobody waits for the answer, but the session's next call does."""
        outcome = await self._ask(request)
        if isinstance(outcome, Done):
            return
        if isinstance(outcome, Unanswered) and outcome.why is Why.ABSENT:
            if self._keeps_ends:
                self._ends.append(request)
        else:
            refusal(outcome, self.adapter_set)

    # -- from the link --------------------------------------------------------------------------------------------

    def initialisation(self, common: requests.Pairs) -> requests.Request:
        return requests.InitMetadata(common)

    def ready(self) -> None:
        """Ends that it has missed come first. Of sessions that are still there it is not told again."""
        while self._ends:
            self.link.ask(self._ends.popleft(), _ignore)
        if self._sessions:
            log.info(
                "remote metadata adapter does not know sessions opened before",
                adapter_set=self.adapter_set,
                sessions=len(self._sessions),
            )

    def lost(self) -> None:
        pass

    def updated(self, updates: Sequence[AriUpdate]) -> None:
        raise AssertionError("no updates come on the connection of a metadata adapter")

    def answered_late(self, reply: Reply) -> None:
        pass

    def notified(self, packet: Packet) -> None:
        """The adapter wants a session or a subscription to end."""
        version = self.link.version
        assert version is not None
        if isinstance(packet, ForceSessionEnd):
            code = Cause.CLOSED_BY_SERVER if packet.code is None or packet.code > 0 else packet.code
            if self.server.end_session(packet.session, packet.message or "", code):
                self.link.tell(requests.session_ended(packet.request))
            else:
                self.link.tell(requests.refused(packet.request, "FST", "There is no such session", version))
        elif isinstance(packet, ForceUnsubscription):
            known = self._sessions.get(packet.session, {}).get(packet.table)
            if known is not None and not known[1].enable_unsubscription:
                message = "Unsubscription was not enabled for this subscription"
                self.link.tell(requests.refused(packet.request, "FUS", message, version))
            else:
                done = self.server.unsubscribe(packet.session, packet.table)
                self.link.tell(requests.unsubscribed(packet.request, done))


def _ignore(outcome: CallOutcome) -> None:
    pass


def _context(client: ClientFacts) -> requests.Pairs:
    """What is known of the client, by the names that adapters expect. They find every name; null is what is unknown."""
    return (
        ("REMOTE_IP", client.address),
        ("REMOTE_PORT", str(client.port)),
        ("USER_AGENT", client.headers.get("user-agent")),
        ("FORWARDING_INFO", client.headers.get("x-forwarded-for")),
        ("LOCAL_SERVER", client.listener),
        ("CLIENT_TYPE", client.library),
        ("CLIENT_VERSION", client.library_version),
        ("REQUEST_ID", client.request_id),
    )


def _table(subscription: SubscriptionFacts, statistics: Sequence[Statistics] = ()) -> requests.TableInfo:
    return requests.TableInfo(
        index=subscription.number,
        mode=subscription.mode.value,
        group=subscription.group,
        schema=subscription.schema,
        first_item=1,
        last_item=len(subscription.items),
        selector=subscription.selector,
        data_adapter=subscription.data_adapter,
        items=subscription.items,
        statistics=tuple([requests.Statistics(each.sent, each.lost, each.filtered) for each in statistics]),
    )


def _device(device: DeviceFacts) -> requests.DeviceInfo:
    return requests.DeviceInfo(device.platform, device.application, device.token)


def _push_table(subscription: PushFacts) -> requests.TableInfo:
    """It has no number, because it is not one of the session's subscriptions."""
    return requests.TableInfo(
        index=0,
        mode=subscription.mode.value,
        group=subscription.group,
        schema=subscription.schema,
        first_item=1,
        last_item=len(subscription.items),
        data_adapter=subscription.data_adapter,
        items=subscription.items,
    )
