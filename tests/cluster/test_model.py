"""Everything at once, at random: a hub and edges against what a client of a single process holds.

The fabric drops, repeats, reorders and delays; hubs are replaced, and old ones go on sending; edges are cut off,
restarted and frozen; data adapters take long for their snapshots, and go away. `make test PROFILE=long` looks much
longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.kernel.item import Mode
from penstock.kernel.ports import Customizer, Event, ItemGrant, Selector, Value
from penstock.testing import Peer
from tests.cluster.judging import Entry, Story, Wish, judge
from tests.cluster.plant import EdgeNode, Plant
from tests.support.effort import tries

pytestmark = pytest.mark.timeout(3_600)

MODES = {
    **dict.fromkeys(("m1", "m2"), Mode.MERGE),
    **dict.fromkeys(("d1", "d2"), Mode.DISTINCT),
    **dict.fromkeys(("c1", "c2"), Mode.COMMAND),
}
SCHEMAS = {
    Mode.RAW: ("x", "y x command"),
    Mode.MERGE: ("x", "x y", "z y"),
    Mode.DISTINCT: ("x", "z x"),
    Mode.COMMAND: ("key command x y", "z y command key"),
}
EDGES = ("e1", "e2", "e3")
ITEM = st.sampled_from(sorted(MODES))
SEED = st.integers(0, 2**32)

# Beats until all that is wrong has been noticed, asked for and repaired, see the patience of `reader` and `owner`.
REPAIR = 14

LONG_STEPS = 20_000


def _hiding(event: Event) -> Event:
    return {**event, "x": None}


def _marking(event: Event) -> Event:
    # What was cleared looks the same whether the client has seen that or comes later.
    if not event:
        return event
    return {**event, "y": f"{event.get('x') or ''}!", "key": (event.get("key") or "").upper()}


def _dropping(event: Event) -> Event | None:
    return None if len(event.get("x") or "") == 2 else event


def _not_b(event: Event) -> bool:
    return event.get("key") != "b"


def _with_y(event: Event) -> bool:
    return event.get("y") != "1"


# What leads to the same table by whatever way it is reached.
CUSTOMIZERS: dict[Mode, list[Customizer | None]] = {
    Mode.RAW: [None, None, _marking, _dropping],
    Mode.MERGE: [None, None, _marking, _dropping, _hiding],
    Mode.DISTINCT: [None, None, _marking, _dropping],
    Mode.COMMAND: [None, None, _marking],
}
SELECTORS: dict[Mode, list[Selector | None]] = {
    Mode.RAW: [None, None, _not_b, _with_y],
    Mode.MERGE: [None, None, _with_y],
    Mode.DISTINCT: [None, None, _with_y],
    Mode.COMMAND: [None, None, _not_b],
}


class Cluster(RuleBasedStateMachine):
    plant: Plant
    stories: dict[str, Story]
    wishes: dict[tuple[str, int, int], Wish]
    names: dict[tuple[str, int, int], str]
    published: int

    # Steps of all runs together.
    steps = 0

    @initialize(edges=st.integers(1, 3), slow=st.booleans(), early=st.lists(ITEM, max_size=20), wishes=SEED)
    def start(self, edges: int, slow: bool, early: list[str], wishes: int) -> None:
        self.plant = Plant(MODES, slow)
        self.stories = {item: Story(mode, self.plant.truths[item]) for item, mode in MODES.items()}
        self.wishes, self.names = {}, {}
        self.published = 0
        for item in early:
            self._publish(item)
        for name in EDGES[:edges]:
            self._add_edge(name)
        self._subscribe_many(wishes, 8)
        self.plant.settle()

    def _add_edge(self, name: str) -> None:
        for key in [key for key in self.wishes if key[0] == name]:
            self._forget(key)
        edge = self.plant.add_edge(name)
        for _ in range(2):
            edge.client()

    def _forget(self, key: tuple[str, int, int]) -> None:
        del self.wishes[key]
        self.names.pop(key, None)
        for hub in self.plant.hubs:
            hub.derived.forget(key[0], "S", key[1] * 1_000 + key[2])

    # -- the adapter --------------------------------------------------------------------------------------------------

    @rule(items=st.lists(ITEM, min_size=1, max_size=30), turns=st.booleans())
    def publish(self, items: list[str], turns: bool) -> None:
        for item in items:
            self._publish(item)
            if turns:
                self.plant.turn()

    def _publish(self, item: str) -> None:
        self.published += 1
        number = self.published
        event: dict[str, Value] = {"x": str(number)}
        if number % 3:
            event["y"] = str(number % 2)
        if number % 4 == 0:
            event["z"] = "z" * (number % 7)
        if MODES[item] is Mode.COMMAND:
            event["key"] = "abc"[number // 2 % 3]
            event["command"] = ("ADD", "UPDATE", "UPDATE", "DELETE")[number % 4]
        self._happen(item, event)

    def _happen(self, item: str, event: dict[str, Value]) -> None:
        story = self.stories[item]
        is_bad = story.mode is Mode.COMMAND and event["command"] == "DELETE" and not self._has_row(item, event)
        told = self.plant.publish(item, event)
        shown: Event | None = event
        if is_bad:
            shown = None
        elif story.mode is Mode.MERGE or (story.mode is Mode.COMMAND and event["command"] != "DELETE"):
            rows = story.truth.snapshot()
            shown = rows[0] if story.mode is Mode.MERGE else next(row for row in rows if row["key"] == event["key"])
        story.entries.append(Entry(event, shown, told))

    def _has_row(self, item: str, event: Event) -> bool:
        return any(row["key"] == event["key"] for row in self.stories[item].truth.snapshot())

    @rule(item=ITEM)
    def clear(self, item: str) -> None:
        self.plant.clear(item)
        self.stories[item].entries.append(Entry(None, None, True))

    @rule(item=ITEM)
    def begin_snapshot(self, item: str) -> None:
        if not self.plant.adapter.is_away:
            for hub in self.plant.hubs:
                hub.source.begin(item)

    @rule(items=st.sets(ITEM))
    def finish_snapshots(self, items: set[str]) -> None:
        if not self.plant.adapter.is_away:
            for hub in self.plant.hubs:
                for item in sorted(items):
                    hub.source.finish(item)

    @rule(away=st.booleans())
    def move_adapter(self, away: bool) -> None:
        if away:
            self.plant.leave()
        else:
            self.plant.come_back()

    @rule(item=ITEM, order=st.sampled_from(["", "T", "P", "TP"]))
    def declare_differences(self, item: str, order: str) -> None:
        for hub in self.plant.hubs:
            if item in hub.source.unsent:
                hub.harness.feed.declare_differences(item, {"x": order, "y": order})

    # -- clients ------------------------------------------------------------------------------------------------------

    @rule(seed=SEED, count=st.integers(1, 4))
    def subscribe(self, seed: int, count: int) -> None:
        self._subscribe_many(seed, count)

    def _subscribe_many(self, seed: int, count: int) -> None:
        random = Random(seed)
        for _ in range(count):
            self._subscribe(random)

    def _subscribe(self, random: Random) -> None:
        awake = [edge for edge in self.plant.edges.values() if not edge.is_frozen]
        if not awake:
            return
        item = random.choice(sorted(MODES))
        mode = random.choice((MODES[item], MODES[item], Mode.RAW))
        edge, client = awake[random.randrange(3) % len(awake)], random.randrange(2)
        snapshot, unfiltered = random.random() < 0.7, random.random() < 0.3
        fields = random.choice(SCHEMAS[mode])
        customizer, selector = random.choice(CUSTOMIZERS[mode]), random.choice(SELECTORS[mode])
        if unfiltered or mode is Mode.COMMAND:
            # What was hidden once would have to be told from what is missing.
            fields = "key command x" if mode is Mode.COMMAND else "x"
        if mode is Mode.COMMAND and unfiltered:
            customizer = selector = None
        if unfiltered and customizer is _hiding:
            customizer = None
        wish = Wish(
            item,
            mode,
            tuple(fields.split()),
            snapshot and mode is not Mode.RAW,
            unfiltered,
            customizer,
            selector,
        )
        peer = edge.peers[client]
        number, _ = peer.state.subscribe(item, fields, mode=mode.value, snapshot=wish.snapshot)
        key = (edge.name, client, number)
        name = self.plant.derive(edge.name, client * 1_000 + number, mode, item, customizer, selector)
        if name != item:
            self.names[key] = name
        edge.harness.subscribe(
            peer.session, number, item, fields, mode, wish.snapshot, unfiltered=unfiltered, granted=(ItemGrant(name),)
        )
        self.wishes[key] = wish
        self._note_joined()

    def _edge(self, who: int) -> EdgeNode:
        return list(self.plant.edges.values())[who % len(self.plant.edges)]

    def _peer(self, key: tuple[str, int, int]) -> Peer:
        return self.plant.edges[key[0]].peers[key[1]]

    def _note_joined(self) -> None:
        """From when on a client must not miss anything: the hub has answered its edge."""
        for key, wish in self.wishes.items():
            if wish.since is None:
                part = self.plant.edges[key[0]].source.parts[self.names.get(key, wish.item)]
                if part.joined and part.whole:
                    wish.since = len(self.stories[wish.item].entries)

    @rule(data=st.data())
    def unsubscribe(self, data: st.DataObject) -> None:
        keys = [key for key in sorted(self.wishes) if not self.plant.edges[key[0]].is_frozen]
        if keys:
            key = data.draw(st.sampled_from(keys))
            peer = self._peer(key)
            peer.unsubscribe(key[2])
            self._forget(key)

    # -- the fabric ---------------------------------------------------------------------------------------------------

    @rule(count=st.integers(1, 60))
    def deliver(self, count: int) -> None:
        for _ in range(min(count, len(self.plant.fabric.parcels))):
            self.plant.deliver()
        self.plant.turn()

    @rule()
    def deliver_all(self) -> None:
        self.plant.settle()

    @rule(places=st.lists(st.integers(0, 200), min_size=1, max_size=20))
    def deliver_out_of_order(self, places: list[int]) -> None:
        for place in places:
            if self.plant.fabric.parcels:
                self.plant.deliver(place % len(self.plant.fabric.parcels))

    @rule(places=st.lists(st.integers(0, 200), min_size=1, max_size=10))
    def drop(self, places: list[int]) -> None:
        for place in places:
            parcels = self.plant.fabric.parcels
            if parcels:
                del parcels[place % len(parcels)]

    @rule()
    def drop_all(self) -> None:
        self.plant.fabric.parcels.clear()

    @rule(places=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200)), min_size=1, max_size=10))
    def repeat(self, places: list[tuple[int, int]]) -> None:
        for place, later in places:
            parcels = self.plant.fabric.parcels
            if parcels:
                parcels.insert(later % len(parcels), parcels[place % len(parcels)])

    @rule(seed=SEED, faults=st.sampled_from([0.05, 0.3]), beats=st.integers(0, 5))
    def storm(self, seed: int, faults: float, beats: int) -> None:
        """Many events, and everything else that goes on, over a fabric that is bad at it."""
        random = Random(seed)
        items = random.sample(sorted(MODES), 2)
        for _ in range(beats + 1):
            for _ in range(random.randrange(8)):
                self._publish(random.choice(items))
                self.plant.turn()
            self._deliver_badly(random, faults)
            if beats:
                self.plant.tick()

    def _deliver_badly(self, random: Random, faults: float) -> None:
        for _ in range(len(self.plant.fabric.parcels)):
            place = random.randrange(len(self.plant.fabric.parcels)) if random.random() < faults else 0
            fate = random.random()
            if fate < faults:
                del self.plant.fabric.parcels[place]
            else:
                if fate < 2 * faults:
                    self.plant.fabric.parcels.append(self.plant.fabric.parcels[place])
                self.plant.deliver(place)

    @rule(who=st.integers(0, 2))
    def cut(self, who: int) -> None:
        self.plant.cut(self._edge(who).name)

    # -- nodes --------------------------------------------------------------------------------------------------------

    @rule(who=st.integers(0, 2))
    def restart_edge(self, who: int) -> None:
        self._add_edge(self._edge(who).name)

    @rule(who=st.integers(0, 2))
    def freeze_edge(self, who: int) -> None:
        self._edge(who).is_frozen = True

    @rule(who=st.integers(0, 2))
    def thaw_edge(self, who: int) -> None:
        self._edge(who).thaw()

    @rule(slow=st.booleans(), old=st.booleans())
    def replace_hub(self, slow: bool, old: bool) -> None:
        """`old`: the one before believes that it is still the owner."""
        if not old:
            self.plant.hubs.clear()
        del self.plant.hubs[:-1]
        self.plant.add_hub(slow)
        for (edge, client, number), name in self.names.items():
            wish = self.wishes[edge, client, number]
            subscription = client * 1_000 + number
            self.plant.derive(edge, subscription, wish.mode, wish.item, wish.customizer, wish.selector, name)

    @rule()
    def stop_old_hubs(self) -> None:
        del self.plant.hubs[:-1]

    # -- time ---------------------------------------------------------------------------------------------------------

    @rule(count=st.integers(1, 3))
    def tick(self, count: int) -> None:
        for _ in range(count):
            self.plant.tick()

    @rule()
    def tick_and_deliver(self) -> None:
        self.plant.tick()
        self.plant.settle()

    # -- the judgement ------------------------------------------------------------------------------------------------

    @precondition(lambda self: hasattr(self, "plant"))
    @invariant()
    def turn(self) -> None:
        Cluster.steps += 1
        self.plant.turn()
        for edge in self.plant.edges.values():
            edge.turn()
        self._note_joined()

    def teardown(self) -> None:
        if not hasattr(self, "plant"):
            return
        self.stop_old_hubs()
        for edge in self.plant.edges.values():
            edge.thaw()
        self.plant.come_back()
        self.plant.hub.source.slow = False
        self.finish_snapshots(set(MODES))
        self._heal()
        self._note_joined()
        self._judge(is_fresh=False)
        for item in sorted(MODES):
            self.published += 1
            last: dict[str, Value] = {"x": f"{self.published:05}", "y": "0", "z": "last"}
            if MODES[item] is Mode.COMMAND:
                last |= {"key": "a", "command": "UPDATE"}
            self._happen(item, last)
        self._heal()
        self._judge(is_fresh=True)
        for name, edge in self.plant.edges.items():
            assert edge.refusals == []
            assert edge.reader.unanswered == 0
            assert self.plant.hub.owner.edges[name] == edge.reader.items
        for key in list(self.wishes):
            self._peer(key).unsubscribe(key[2])
        self._heal()
        assert self.plant.hub.owner.items == 0
        assert self.plant.hub.harness.feed.items == {}

    def _judge(self, is_fresh: bool) -> None:
        for key, wish in self.wishes.items():
            judge(wish, self.stories[wish.item], self._peer(key).seen.get((key[2], 1), ()), is_fresh)

    def _heal(self) -> None:
        for _ in range(REPAIR):
            self.plant.settle()
            self.plant.tick()
        self.plant.settle()


TestCluster = Cluster.TestCase
TestCluster.settings = settings(stateful_step_count=40, max_examples=max(tries(50), settings().max_examples // 2))


@pytest.fixture(autouse=True, scope="module")
def counted() -> Iterator[None]:
    """The long profile is as long as it says."""
    yield
    print(f"{Cluster.steps} steps")
    if settings.get_current_profile_name() == "long":
        assert Cluster.steps >= LONG_STEPS
