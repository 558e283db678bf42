"""What an administrator can do to a running server. What is wrong raises an AdminProblem, and then nothing has changed.

Each action is written down (`audit`). How it is asked for is in `routes`; what there is to act on, in `lists`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from penstock import log
from penstock.adapters.roster import Roster
from penstock.config import ConfigError
from penstock.doors.gate import BlockKey, BlockScope, Gate
from penstock.kernel.errors import Cause
from penstock.kernel.kernel import Kernel
from penstock.kernel.ruling import Ruling
from penstock.services.admin.audit import Audit
from penstock.services.admin.clients import Clients, OwnClients
from penstock.services.admin.drain import Drain
from penstock.services.admin.logins import Administrator
from penstock.services.admin.nodes import Nodes, NodeState, OnlyNode
from penstock.services.admin.problems import AdminProblem
from penstock.wire.fabric.administration import GateBody

if TYPE_CHECKING:
    from penstock.doors.tlex.door import TlexDoor
    from penstock.exchange.session import HubSession
    from penstock.push.ports import Handover
    from penstock.services.admin.models import SessionInfo, SubscriptionInfo
    from penstock.services.push.engine import PushEngine

# Blocks at a time: each is a decision of a person.
MAX_BLOCKS = 10_000

# Causes that an administrator may end a session with, beside codes of their own.
CAUSES = (Cause.CLOSED_BY_SERVER, Cause.MAX_DURATION)


class Reloaded(NamedTuple):
    """What a reload has found: names of adapter sets, and keys that need a restart."""

    new: list[str]
    changed: list[str]
    gone: list[str]
    needs_restart: list[str]


class ProcessHandle(NamedTuple):
    """What the process around a server offers; a server inside another program has none."""

    reload: Callable[[], Awaitable[Reloaded]]
    stop: Callable[[], None]
    # The level of a category of the log has been set, or is no more.
    level_set: Callable[[str, str | None], None]


class Steering:
    """Made before the server is open; everything is looked up when it is asked for."""

    def __init__(
        self,
        kernel: Kernel,
        gate: Gate,
        roster: Roster,
        tlex: Callable[[], TlexDoor | None],
        push: Callable[[], PushEngine | None],
        audit: Audit,
        node: str,
    ) -> None:
        # A hub has others.
        self._own_clients = OwnClients(kernel)
        self.clients: Clients = self._own_clients
        self.nodes: Nodes = OnlyNode(node)
        self.gate = gate
        self.roster = roster
        self.drain = Drain(kernel, gate, lambda: self.clients.count())
        # Whether it is that of this node only, while it is on.
        self._drains_own = False
        # Told when somebody else is let in than before.
        self.gate_changed: Callable[[], None] = _nobody_else
        # Told when a level of the log has been set.
        self.levels_changed: Callable[[], None] = _nobody_else
        self.process: ProcessHandle | None = None
        self._tlex = tlex
        self._push = push
        self._audit = audit

    # -- push notifications ---------------------------------------------------------------------------------------

    def push(self) -> PushEngine:
        engine = self._push()
        if engine is None:
            raise AdminProblem(409, "push notifications are disabled (push.enabled)")
        return engine

    async def send_test_push(self, who: Administrator, device: str, payload: str | None) -> Handover:
        from penstock.services.admin.push_lists import TEST_PAYLOADS  # loaded with the module of push notifications

        engine = self.push()
        found = engine.memory.registry.device(device)
        if found is None:
            raise AdminProblem(404, f"device {device[:60]}: there is no such device")
        handover = await engine.send_test(device, payload or TEST_PAYLOADS[found.key.platform])
        self._audit.done(who, "send a test notification", device=device, verdict=handover.verdict.name.lower())
        return handover

    # -- sessions -------------------------------------------------------------------------------------------------

    async def end_session(self, who: Administrator, name: str, code: int, message: str) -> None:
        if code > 0 and code not in CAUSES:
            known = " or ".join([str(int(cause)) for cause in CAUSES])
            raise AdminProblem(422, f"code = {code}: expected {known}, or a code of your own that is 0 or below")
        ended = await self.clients.end_session(name, code, message)
        self._audit.done(who, "end session", session=name, user=ended.user, code=code, message=message)

    async def set_bandwidth(self, who: Administrator, name: str, ruling: Ruling | None) -> SessionInfo:
        session = await self.clients.set_bandwidth(name, ruling)
        self._audit.done(who, _change("bandwidth", ruling), session=name, user=session.user, **_limit(ruling))
        return session

    async def unsubscribe(self, who: Administrator, name: str, number: int) -> None:
        session = await self.clients.unsubscribe(name, number)
        self._audit.done(who, "unsubscribe", session=name, user=session.user, subscription=number)

    async def set_frequency(
        self, who: Administrator, name: str, number: int, ruling: Ruling | None
    ) -> SubscriptionInfo:
        user, subscription = await self.clients.set_frequency(name, number, ruling)
        self._audit.done(
            who, _change("frequency", ruling), session=name, user=user, subscription=number, **_limit(ruling)
        )
        return subscription

    # -- who is let in --------------------------------------------------------------------------------------------

    def block(self, who: Administrator, scope: BlockScope, name: str) -> None:
        key = _block_key(scope, name)
        blocks = self.gate.blocks
        if key not in blocks and len(blocks) >= MAX_BLOCKS:
            raise AdminProblem(409, f"there are {MAX_BLOCKS} blocks, the most allowed; lift one first")
        blocks[key] = who.name
        self.gate_changed()
        self._audit.done(who, "block", scope=scope.value, name=name)

    def unblock(self, who: Administrator, scope: BlockScope, name: str) -> None:
        key = _block_key(scope, name)
        if self.gate.blocks.pop(key, None) is None:
            raise AdminProblem(404, f"{scope.value} {name}".rstrip()[:80] + ": there is no such block")
        self.gate_changed()
        self._audit.done(who, "unblock", scope=scope.value, name=name)

    def gate_body(self) -> GateBody:
        """For other processes of the same server."""
        blocks = tuple([(key.scope.value, key.name, by) for key, by in self.gate.blocks.items()])
        state = self.drain_state(None)
        return GateBody(blocks, state.is_on, state.seconds_left)

    # -- the server as a whole, or one of its nodes ---------------------------------------------------------------

    def begin_drain(self, who: Administrator, seconds: float | None, stop: bool, node: str | None = None) -> None:
        node = self._part(node)
        if node is not None:
            self._begin_drain_of(who, node, seconds, stop)
            return
        process = self._process() if stop else None
        # Written down first, because the journal may be closed when it is over.
        self._audit.done(who, "drain", seconds=seconds, stop=stop, sessions=self.clients.count())
        self._drains_own = False
        self.drain.begin(seconds, None if process is None else process.stop)
        self.nodes.clear()
        self.gate_changed()

    def _begin_drain_of(self, who: Administrator, node: str, seconds: float | None, stop: bool) -> None:
        if self.drain_state(None).is_on:
            raise AdminProblem(409, "the whole server is draining")
        process = self._process() if stop and node == self.nodes.own else None
        self._audit.done(who, "drain", node=node, seconds=seconds, stop=stop, sessions=self.drain_state(node).sessions)
        if node != self.nodes.own:
            self.nodes.begin(node, seconds, stop)
            return
        self._drains_own = True
        self.drain.begin(seconds, None if process is None else process.stop, self._own_clients.count)

    def cancel_drain(self, who: Administrator, node: str | None = None) -> None:
        node = self._part(node)
        if not self.drain_state(node).is_on:
            raise AdminProblem(409, f"{node or 'the server'} is not draining" + (" by itself" if node else ""))
        if node is None or node == self.nodes.own:
            self.drain.cancel()
            self.gate_changed()
        else:
            self.nodes.cancel(node)
        self._audit.done(who, "cancel drain", **({} if node is None else {"node": node}))

    def drain_state(self, node: str | None) -> NodeState:
        """Of the server as a whole, or of a node that is drained by itself."""
        node = self._part(node)
        if node is not None and node != self.nodes.own:
            return self.nodes.state(node)
        drain, is_own = self.drain, node is not None
        sessions = self._own_clients.count() if is_own else self.clients.count()
        if not drain.is_on or self._drains_own is not is_own:
            return NodeState(False, None, False, sessions)
        return NodeState(True, drain.seconds_left, drain.stops, sessions)

    def drained_nodes(self) -> list[str]:
        """Those that are drained by themselves."""
        if isinstance(self.nodes, OnlyNode):
            return []
        return [node for node in self._node_names() if self.drain_state(node).is_on]

    def _node_names(self) -> list[str]:
        return [*([] if self.nodes.own is None else [self.nodes.own]), *self.nodes.others()]

    def _part(self, node: str | None) -> str | None:
        """None: the whole server, also if that is the only node."""
        names = self._node_names()
        if node is not None and node not in names:
            known = f"those are {', '.join(names)}" if names else "there are none"
            raise AdminProblem(404, f"node {node[:60]}: it is not one of the nodes with clients; {known}")
        return None if isinstance(self.nodes, OnlyNode) else node

    async def reload(self, who: Administrator) -> Reloaded:
        try:
            found = await self._process().reload()
        except ConfigError as error:
            raise AdminProblem(409, f"configuration refused, everything stays as it is: {error}") from None
        self._audit.done(who, "reload", **found._asdict())
        return found

    def _process(self) -> ProcessHandle:
        if self.process is None:
            raise AdminProblem(409, "this server runs inside another program, which starts and stops it")
        return self.process

    def set_level(self, who: Administrator, category: str, level: str | None) -> None:
        """None: what the configuration says. A reload forgets what was set."""
        try:
            log.set_level(category, level)
        except log.LevelError as error:
            raise AdminProblem(422, str(error)) from None
        if self.process is not None:
            self.process.level_set(category, level)
        self.levels_changed()
        self._audit.done(who, "set log level", category=category, log_level=level)

    def clear_failure(self, who: Administrator, label: str) -> None:
        found = [member for member in self.roster.members() if member.label == label]
        if not found:
            raise AdminProblem(404, f"adapter {label[:60]}: there is no such adapter")
        reasons = [member.trouble for member in found if member.has_failed]
        if not [member for member in found if member.clear()]:
            raise AdminProblem(409, f"adapter {label}: it has not failed")
        self._audit.done(who, "clear failure", adapter=label, failure=reasons[0])

    # -- the TLEX hub ---------------------------------------------------------------------------------------------

    def tlex(self) -> TlexDoor:
        door = self._tlex()
        if door is None:
            raise AdminProblem(409, "TLEX is not served: tlex.enabled is false")
        return door

    def end_tlex_session(self, who: Administrator, id: str) -> None:
        door, session = self._tlex_session(id)
        door.end_session(session)
        self._audit.done(who, "end TLEX session", tlex_session=id, account=session.account)

    def reconnect_tlex_session(self, who: Administrator, id: str) -> HubSession:
        door, session = self._tlex_session(id)
        if not door.ask_to_reconnect(session):
            raise AdminProblem(
                409, f"TLEX session {id}: it is {session.state.value}; only one that is live can reconnect"
            )
        self._audit.done(who, "reconnect TLEX session", tlex_session=id, account=session.account)
        return session

    def _tlex_session(self, id: str) -> tuple[TlexDoor, HubSession]:
        door = self.tlex()
        session = door.find_session(id)
        if session is None:
            raise AdminProblem(404, f"TLEX session {id[:60]}: there is no such session")
        return door, session


def _nobody_else() -> None:
    """There is only this process."""


def _block_key(scope: BlockScope, name: str) -> BlockKey:
    if scope is BlockScope.ALL and name:
        raise AdminProblem(422, f"name = {name[:60]}: expected none, because the block is for all")
    if scope is not BlockScope.ALL and not name:
        raise AdminProblem(422, f"name is empty: expected the name of the {scope.value.replace('_', ' ')}")
    return BlockKey(scope, name)


def _change(what: str, ruling: Ruling | None) -> str:
    return f"reset {what}" if ruling is None else f"set {what}"


def _limit(ruling: Ruling | None) -> dict[str, object]:
    return {} if ruling is None else {"limit": ruling.limit}
