"""A TLEX hub and nodes that its peers are connected to, with a fabric between them that the test can break.

Words cross as calls of `penstock.cluster.calling`, as they do in a server, over ways that lose, repeat and reorder.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from penstock.cluster.calling import Answered, FabricCallee, FabricCaller, Question
from penstock.doors.tlex.annex import HUB_SILENCE
from penstock.doors.tlex.interpreter import Interpreter
from penstock.doors.tlex.messages import TlexMessages
from penstock.exchange.hub import TICK_SECONDS, Hub
from penstock.exchange.outpost import Outpost
from penstock.exchange.outposts import Outposts
from penstock.exchange.places import Places, TlexPlace
from penstock.exchange.session import HubSession
from penstock.exchange.settings import HubSettings
from penstock.wire.fabric.messages import Call, CallDone, CallNoted, CallRefused, decode
from penstock.wire.fabric.tlex import (
    TLEX,
    HubWord,
    NodeWord,
    decode_hub_words,
    decode_node_words,
    encode_words,
)
from penstock.wire.tlex.datagrams import KeepAlive, Token
from penstock.wire.tlex.forms import PayloadForms
from penstock.wire.tlex.frames import PREAMBLE
from penstock.wire.tlex.vocabulary import Protocol, SecurityMode, SessionType, Tlc, TlcType
from tests.exchange.world import MULTIPLEX, Numbers, Peer, World

NIL = b"\xc0"
FOR_EVER = float("inf")

# Seconds without a word of a node after which a hub takes it for lost, as `penstock.cluster.owner` does.
NODE_SILENCE = 5.0


class Node:
    """A process with peers; another `run` is another process."""

    def __init__(self, world: NodesWorld, name: str, run: str) -> None:
        self.world = world
        self.name = name
        self.run = run
        self.outpost = Outpost(world.settings, PayloadForms(), TlexMessages(), lambda: None)
        self.caller = FabricCaller(run, self._to_hub)
        self.callee = FabricCallee(self._to_hub, self._do)
        self.epoch = 0
        self.heard = world.now.elapsed
        self.peers: list[Peer] = []
        self.outpost.offer(TlexPlace(name, 1))

    def _to_hub(self, payload: bytes) -> None:
        self.world.carry(self, True, payload)

    def _do(self, question: Question) -> None:
        self.outpost.hear(decode_hub_words(question.body), self.world.now)
        question.answer(NIL)

    def received(self, payload: bytes) -> None:
        _received(self.caller, self.callee, payload, self.world.now.elapsed)

    def welcomed(self) -> None:
        is_new = self.world.epoch > self.epoch
        self.epoch = self.world.epoch
        self.callee.begin(str(self.epoch), self.epoch)
        self.caller.begin(self.world.now.elapsed, self.epoch)
        if is_new:
            self.outpost.renew(self.world.now)
        else:
            self.outpost.welcome()

    def flush(self) -> None:
        self.outpost.turn.run(self.world.now)
        words = self.outpost.take()
        if words:
            _tell(self.caller, words, self.world.now.elapsed)

    def accept(self, security: SecurityMode = SecurityMode.NONE) -> Peer:
        peer = Peer(self.world)
        peer.interpreter = Interpreter(self.outpost, peer, security, self.world.now)
        peer.conversation.resumed = peer.interpreter.resume
        self.peers.append(peer)
        return peer

    def show(self, token: str) -> Peer:
        """A peer that presents a token; whether it is right is known later."""
        peer = self.accept()
        peer.send_bytes(PREAMBLE + Token(token).encode())
        return peer


class _Way:
    """The hub's end of the way to a node."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.is_up = True
        self.is_known = True
        self.heard = node.world.now.elapsed
        self.caller = FabricCaller(str(node.world.epoch), self._to_node)
        self.callee = FabricCallee(self._to_node, self._do)
        self.callee.begin(node.run, node.world.epoch)
        self.caller.begin(self.heard, node.world.epoch)

    def _to_node(self, payload: bytes) -> None:
        self.node.world.carry(self.node, False, payload)

    def _do(self, question: Question) -> None:
        world = self.node.world
        world.outposts.hear(self.node.name, decode_node_words(question.body), world.now)
        question.answer(NIL)

    def received(self, payload: bytes) -> None:
        _received(self.caller, self.callee, payload, self.node.world.now.elapsed)


class NodesWorld(World):
    """Nodes have names of one letter. With a `chance` of more than 0 the fabric is bad."""

    def __init__(self, *nodes: str, chance: float = 0.0, seed: int = 0, settings: HubSettings | None = None) -> None:
        super().__init__(settings)
        self.settings = settings or HubSettings()
        self.random = Random(seed)
        self.chance = chance
        self.epoch = 0
        self.runs = 0
        self.tlcs: list[Tlc] = []
        self.nodes: dict[str, Node] = {}
        self.ways: dict[str, _Way] = {}
        # Rounds that are left, to whom (node, and whether it is for the hub), in which epoch.
        self._flying: list[tuple[int, Node, bool, int, bytes]] = []
        self.begin_hub()
        for name in nodes:
            self.start(name)
        self.settle()

    # -- processes ------------------------------------------------------------------------------------------------

    def begin_hub(self) -> None:
        """Another hub takes the place of the one that there was, and knows nothing of its sessions."""
        self.epoch += 1
        self.places = Places()
        numbers = Numbers()
        numbers.count = self.epoch * 1_000_000
        self.hub = Hub(self.settings, numbers, PayloadForms(), TlexMessages(), lambda: None, [self.diary, self.places])
        self.outposts = Outposts(self.hub, self.places, lambda: None)
        for tlc in self.tlcs:
            self.hub.register(tlc)
        for node in self.nodes.values():
            self.meet(node)

    def register(self, *identifiers: str, domain: str = "test", type: TlcType = TlcType.TCP_STREAMING) -> None:
        super().register(*identifiers, domain=domain, type=type)
        self.tlcs = [each.tlc for each in self.hub.registry]

    def start(self, name: str) -> Node:
        self.runs += 1
        node = self.nodes[name] = Node(self, name, f"run {self.runs}")
        before = self.ways.get(name)
        if before is not None:
            before.caller.end("replaced")
        self.meet(node)
        return node

    def meet(self, node: Node) -> None:
        """Hub and node have not heard of each other before."""
        self.ways[node.name] = _Way(node)
        self.greet(node)

    def kill(self, name: str, is_noticed: bool = True) -> list[Peer]:
        """Returns its peers, whose connections are broken. Some fabrics notice it at once."""
        node = self.nodes.pop(name)
        self.ways[name].is_up = False
        if is_noticed:
            self._lose(self.ways[name])
        return node.peers

    def greet(self, node: Node) -> None:
        """Hello and Welcome, over a way that is there again."""
        way = self.ways[node.name]
        way.is_up = way.is_known = True
        way.heard = node.heard = self.now.elapsed
        self.outposts.came(node.name, node.run, self.now)
        way.caller.begin(self.now.elapsed, self.epoch)
        node.welcomed()

    def cut(self, name: str) -> None:
        """Nothing gets through in either direction, and nobody is told."""
        self.ways[name].is_up = False

    def mend(self, name: str) -> None:
        self.greet(self.nodes[name])

    def _lose(self, way: _Way) -> None:
        if way.is_known:
            way.is_known = False
            way.caller.stop()
            self.outposts.lost(way.node.name, self.now)

    # -- the fabric -----------------------------------------------------------------------------------------------

    def carry(self, node: Node, to_hub: bool, payload: bytes) -> None:
        random, chance = self.random, self.chance
        if chance and random.random() < chance:
            return
        for _ in range(2 if chance and random.random() < chance else 1):
            rounds = random.randrange(8) if chance else 0
            self._flying.append((rounds, node, to_hub, self.epoch, payload))

    def round(self) -> None:
        """What is due arrives; then everybody says what there is to say."""
        flying, self._flying = self._flying, []
        for rounds, node, to_hub, epoch, payload in flying:
            if rounds:
                self._flying.append((rounds - 1, node, to_hub, epoch, payload))
                continue
            way = self.ways[node.name]
            if way.node is not node or not way.is_up or epoch != self.epoch:
                continue
            if to_hub:
                way.heard = self.now.elapsed
                way.received(payload)
            else:
                node.heard = self.now.elapsed
                node.received(payload)
        self.turn()

    def settle(self) -> None:
        """Until nothing is on its way any more."""
        self.turn()
        while self._flying:
            self.round()

    def turn(self) -> None:
        self.hub.turn.run(self.now)
        for node in self.nodes.values():
            node.flush()
        for name, words in self.outposts.take():
            _tell(self.ways[name].caller, words, self.now.elapsed)

    # -- time -----------------------------------------------------------------------------------------------------

    def wait(self, seconds: float, *alive: Peer) -> None:
        """Time goes by, with everything that is due; all peers of nodes, and `alive`, send keep-alives."""
        for _ in range(round(seconds / TICK_SECONDS)):
            self.move(TICK_SECONDS)
            for peer in [*alive, *[each for node in self.nodes.values() for each in node.peers]]:
                peer.interpreter.received(KeepAlive().encode(), self.now)
            self.hub.tick(self.now)
            for node in self.nodes.values():
                way = self.ways[node.name]
                if way.is_up:
                    # Both say that they are there.
                    way.heard = node.heard = self.now.elapsed
                if self.now.elapsed - node.heard > HUB_SILENCE:
                    node.outpost.cut_off(self.now)
                node.outpost.tick(self.now)
                node.caller.tick(self.now.elapsed)
            for way in self.ways.values():
                way.caller.tick(self.now.elapsed)
                if self.now.elapsed - way.heard > NODE_SILENCE:
                    self._lose(way)
            for _ in range(10):
                self.round()

    # -- peers ----------------------------------------------------------------------------------------------------

    def join_at(
        self,
        node: str,
        type: SessionType,
        *identifiers: str,
        account: str = "ours",
        domain: str = "test",
        protocol: Protocol = MULTIPLEX,
    ) -> Peer:
        """A session, connected there; what it is sent at the beginning is taken."""
        session = self.open(type, *identifiers, account=account, domain=domain, protocol=protocol)
        peer = self.nodes[node].show(session.token)
        self.settle()
        assert peer.conversation.session is not None
        assert peer.conversation.session.id == session.id
        peer.take()
        return peer

    def session_of(self, peer: Peer) -> HubSession:
        assert peer.conversation.session is not None
        found = self.hub.find(peer.conversation.session.id, self.now)
        assert found is not None
        return found


def _tell(caller: FabricCaller, words: Sequence[NodeWord] | Sequence[HubWord], now: float) -> None:
    caller.ask(now, TLEX, encode_words(words), _answered, TLEX, repeatable=False, patience=FOR_EVER)


def _answered(answered: Answered) -> None: ...


def _received(caller: FabricCaller, callee: FabricCallee, payload: bytes, now: float) -> None:
    message = decode(payload)
    assert isinstance(message, Call | CallDone | CallRefused | CallNoted)
    if isinstance(message, Call):
        callee.received(message)
    else:
        caller.heard(now, message)
