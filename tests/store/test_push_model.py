"""Nodes of one database at random, with a clock that jumps: never do two serve a device, and nothing written is lost.

Each node is a naive service: it serves what it was given, until its lease ends or it is told to stop. The model is one
dictionary of everything that was ever written.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import delete

from penstock.push.records import (
    Device,
    DropDevice,
    DropNotification,
    DropSubscription,
    Notification,
    PushChange,
    PushSubscription,
    SaveDevice,
    SaveNotification,
    SaveSubscription,
)
from penstock.store.errors import AlreadyExists, Deposed, NoSuchRecord, NotOwner
from penstock.store.lease import LEASE_MILLIS
from penstock.store.push import LoadedDevices, PushStore
from penstock.store.schema import push_devices, push_nodes
from penstock.store.store import Store
from tests.store.devices import MovedClock, device, notification, subscription

pytestmark = pytest.mark.timeout(3_600)

LEASE = LEASE_MILLIS / 1000
NAMES = ("one", "two")
# Few, so that they meet.
DEVICES = st.sampled_from(["d1", "d2", "d3", "d4"])
TOKENS = st.sampled_from(["a", "b", "c", "d", "e"])
CHANGES = st.lists(
    st.one_of(
        st.builds(lambda id, token, badge: SaveDevice(device(id, token, badge)), DEVICES, TOKENS, st.integers(0, 3)),
        st.builds(DropDevice, DEVICES),
        # What belongs to a device has its name, because identifiers are never those of another device.
        st.builds(
            lambda id, n, t: SaveSubscription(subscription(f"{id}-{n}", id, t)), DEVICES, st.integers(1, 2), TOKENS
        ),
        st.builds(lambda id, n: DropSubscription(f"{id}-{n}"), DEVICES, st.integers(1, 2)),
        st.builds(lambda id, n: SaveNotification(notification(f"{id}-{n}", id)), DEVICES, st.integers(1, 2)),
        st.builds(lambda id, n: DropNotification(f"{id}-{n}"), DEVICES, st.integers(1, 2)),
    ),
    max_size=6,
)


class Kept:
    """What is written, the naive way: one change after the other."""

    def __init__(self) -> None:
        self.devices: dict[str, Device] = {}
        self.subscriptions: dict[str, PushSubscription] = {}
        self.notifications: dict[str, Notification] = {}

    def copy(self) -> Kept:
        made = Kept()
        made.devices = dict(self.devices)
        made.subscriptions = dict(self.subscriptions)
        made.notifications = dict(self.notifications)
        return made

    def after(self, changes: Iterable[PushChange]) -> Kept:
        """Raises NoSuchRecord and AlreadyExists as a store must."""
        found = self.copy()
        for change in changes:
            found._apply(change)
        owners = [each.device for each in found.subscriptions.values()]
        owners += [each.device for each in found.notifications.values()]
        if not set(owners) <= found.devices.keys():
            raise NoSuchRecord
        if len({each.key for each in found.devices.values()}) < len(found.devices):
            raise AlreadyExists
        return found

    def _apply(self, change: PushChange) -> None:
        match change:
            case SaveDevice(saved):
                self.devices[saved.id] = saved
            case SaveSubscription(subscription):
                self.subscriptions[subscription.id] = subscription
            case SaveNotification(notification):
                self.notifications[notification.id] = notification
            case DropSubscription(id):
                self.subscriptions.pop(id, None)
            case DropNotification(id):
                self.notifications.pop(id, None)
            case DropDevice(id):
                self.devices.pop(id, None)
                for key in [key for key, each in self.subscriptions.items() if each.device == id]:
                    del self.subscriptions[key]
                for key in [key for key, each in self.notifications.items() if each.device == id]:
                    del self.notifications[key]

    def of(self, ids: Iterable[str]) -> LoadedDevices:
        wanted = set(ids)
        return LoadedDevices(
            tuple([each for key, each in sorted(self.devices.items()) if key in wanted]),
            tuple([each for _, each in sorted(self.subscriptions.items()) if each.device in wanted]),
            tuple([each for _, each in sorted(self.notifications.items()) if each.device in wanted]),
        )


def touched(changes: Iterable[PushChange], before: Kept) -> set[str]:
    """Devices about which something is said, if that is there or is to be there."""
    found = set()
    for change in changes:
        match change:
            case SaveDevice(saved):
                found.add(saved.id)
            case DropDevice(id):
                found.add(id)
            case SaveSubscription(subscription):
                found.add(subscription.device)
            case SaveNotification(notification):
                found.add(notification.device)
            case DropSubscription(id):
                found.update([before.subscriptions[id].device] if id in before.subscriptions else [])
            case DropNotification(id):
                found.update([before.notifications[id].device] if id in before.notifications else [])
    return found


class Node:
    """A process: what it was given, and whether it still believes in it. It does nothing by itself."""

    def __init__(self, store: PushStore, given: Iterable[str]) -> None:
        self.store = store
        self.given = set(given)
        # Whether others have taken something, so that no call may succeed.
        self.deposed = False

    @property
    def serves(self) -> set[str]:
        return self.given if self.store.lease_left() > 0 else set()


class Nodes(RuleBasedStateMachine):
    # One for all examples.
    store: Store

    @initialize()
    def begin(self) -> None:
        self.clock = MovedClock()
        with self.store.engine.begin() as connection:
            for table in (push_devices, push_nodes):
                connection.execute(delete(table))
        self.kept = Kept()
        self.nodes: dict[str, Node] = {}
        # How the database should see it.
        self.owners: dict[str, str] = {}
        for name, ids in {"one": ("d1", "d2"), "two": ("d3",)}.items():
            self._start(name, 0)
            self._write(name, self.nodes[name], [SaveDevice(device(id)) for id in ids])

    @precondition(lambda self: len(self.nodes) < len(NAMES))
    @rule(data=st.data(), drift=st.integers(-1_000, 1_000))
    def start(self, data: st.DataObject, drift: int) -> None:
        """Or again: two processes of one name do not run at once. Stopwatches begin where they like."""
        self._start(data.draw(st.sampled_from([each for each in NAMES if each not in self.nodes])), drift)

    def _start(self, name: str, drift: int) -> None:
        made = PushStore.join(self.store, name, clock=self.clock, stopwatch=lambda: self.clock.stopwatch() + drift)
        found = made.load()
        ids = {each.id for each in found.devices}
        assert ids == {id for id, owner in self.owners.items() if owner == name}
        assert found == self.kept.of(ids)
        self.nodes[name] = Node(made, ids)

    @precondition(lambda self: self.nodes)
    @rule(data=st.data(), killed=st.booleans())
    def stop(self, data: st.DataObject, killed: bool) -> None:
        name, node = self._one(data)
        if not killed:
            node.store.leave()
        del self.nodes[name]

    @rule(seconds=st.sampled_from([0.1, 1, 4, LEASE * 0.89, LEASE * 0.95, LEASE, 2 * LEASE]))
    def move(self, seconds: float) -> None:
        """Also: the nodes are paused for so long."""
        self.clock.move(seconds)

    @precondition(lambda self: self.nodes)
    @rule(data=st.data(), releases=st.booleans())
    def renew(self, data: st.DataObject, releases: bool) -> None:
        name, node = self._one(data)
        try:
            wanted = node.store.renew()
        except Deposed:
            self._gone(name)
            return
        assert not node.deposed
        assert node.given == self._owned(name)
        assert set(wanted) <= node.given
        if releases:
            node.given -= set(wanted)
            node.store.release(wanted)
            for id in wanted:
                del self.owners[id]

    @precondition(lambda self: self.nodes)
    @rule(data=st.data(), limit=st.integers(1, 5))
    def adopt(self, data: st.DataObject, limit: int) -> None:
        name, node = self._one(data)
        try:
            found = node.store.adopt(limit)
        except Deposed:
            self._gone(name)
            return
        self._take(name, node, found)
        assert len(found.devices) <= limit

    @precondition(lambda self: self.nodes)
    @rule(data=st.data(), id=DEVICES)
    def claim(self, data: st.DataObject, id: str) -> None:
        name, node = self._one(data)
        try:
            found = node.store.claim(id)
        except Deposed:
            self._gone(name)
        except NoSuchRecord:
            assert id not in self.kept.devices
        else:
            if found is None:
                assert self.owners[id] != name
            else:
                assert [each.id for each in found.devices] == [id]
                self._take(name, node, found)

    @precondition(lambda self: self.nodes)
    @rule(data=st.data(), id=DEVICES)
    def register(self, data: st.DataObject, id: str) -> None:
        """Without what is often refused."""
        self._write(*self._one(data), [SaveDevice(device(id))])

    @precondition(lambda self: self.nodes)
    @rule(data=st.data(), changes=CHANGES)
    def write(self, data: st.DataObject, changes: list[PushChange]) -> None:
        """Also about devices that it does not serve: a node that is mistaken must not get through."""
        self._write(*self._one(data), changes)

    def _write(self, name: str, node: Node, changes: list[PushChange]) -> None:
        about = touched(changes, self.kept)
        foreign = {id for id in about if id in self.kept.devices and self.owners.get(id) != name}
        try:
            node.store.write(changes)
        except Deposed:
            self._gone(name)
        except NotOwner as refusal:
            refused = refusal.devices
            assert refused
            assert refused <= foreign
            # Something that is saved and dropped again in the same list is nothing.
            rest = foreign - refused
            with suppress(NoSuchRecord, AlreadyExists):
                assert self.kept.after(changes).of(rest) == self.kept.of(rest)
        except (NoSuchRecord, AlreadyExists) as error:
            with pytest.raises(type(error)):
                self.kept.after(changes)
        else:
            assert not (node.deposed and changes)
            after = self.kept.after(changes)
            # Something that is saved and dropped again in the same list is nothing.
            assert after.of(foreign) == self.kept.of(foreign)
            self.kept = after
            for id in about - foreign:
                if id in self.kept.devices:
                    self.owners[id] = name
                    node.given.add(id)
                else:
                    self.owners.pop(id, None)
                    node.given.discard(id)

    @invariant()
    def nobody_serves_what_another_serves(self) -> None:
        if hasattr(self, "nodes"):
            served = [id for node in self.nodes.values() for id in node.serves]
            assert len(served) == len(set(served)), {name: node.serves for name, node in self.nodes.items()}

    @invariant()
    def devices_are_found_with_their_owners(self) -> None:
        for node in [*getattr(self, "nodes", {}).values()][:1]:
            for id, each in self.kept.devices.items():
                found = node.store.find(each.key)
                assert found is not None
                assert (found.id, found.owner) == (id, self.owners.get(id))

    def _one(self, data: st.DataObject) -> tuple[str, Node]:
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        return name, self.nodes[name]

    def _owned(self, name: str) -> set[str]:
        return {id for id, owner in self.owners.items() if owner == name}

    def _gone(self, name: str) -> None:
        """It was deposed: it must know by then that it may not serve."""
        assert not self.nodes.pop(name).serves

    def _take(self, name: str, node: Node, found: LoadedDevices) -> None:
        assert not node.deposed
        ids = {each.id for each in found.devices}
        assert found == self.kept.of(ids)
        for id in ids:
            before = self.owners.get(id)
            if before not in (None, name) and before in self.nodes:
                # It may still think that it has it, but its lease has ended.
                assert not self.nodes[before].serves
                self.nodes[before].deposed = True
            self.owners[id] = name
        node.given |= ids


def test_nodes_that_share_a_database(store: Store) -> None:
    machine = type("Machine", (Nodes,), {"store": store})
    # A step takes several times as long with PostgreSQL, whose locks are tried by processes in test_push_race.py.
    part = 1 if store.engine.dialect.name == "sqlite" else 4
    chosen = settings(max_examples=settings().max_examples // part, stateful_step_count=40)
    run_state_machine_as_test(machine, settings=chosen)
