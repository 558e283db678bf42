"""Who may watch which things: sessions of adapter set DITTO are those of Ditto users, and policies decide for them.

A subscription whose user loses the right to read is ended. Who users are is found out by whoever makes the adapter.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from penstock.adapters.api import AdapterSet, MetadataAdapter
from penstock.adapters.things.adapter import ThingsAdapter
from penstock.adapters.things.fields import field_of, may_read
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.item import Mode
from penstock.kernel.ports import Admission, ClientFacts, DeviceFacts, SessionFacts, Statistics, SubscriptionFacts
from penstock.twins.access import Subjects, readable
from penstock.twins.names import DEFAULT_SET, THINGS, thing_key
from penstock.twins.registry import Twins
from penstock.twins.told import Told
from penstock.twins.twin import Twin
from penstock.wire.ditto.kinds import EntityGroup

# Finds out who a client is; raises a Refusal. The roles of the admission are the subjects that policies know.
Admit = Callable[[str | None, str | None, ClientFacts], Awaitable[Admission]]

_ESCAPE = re.compile(r"=([0-9A-F]{2})", re.ASCII)
ITEM_SHOWN = 60


def things_set(twins: Twins, admit: Admit, name: str = DEFAULT_SET) -> AdapterSet:
    """The adapter set of all things."""
    adapter = ThingsAdapter(twins)
    return AdapterSet(name, ThingsMetadata(twins, adapter, admit), {THINGS: adapter})


def thing_named(text: str) -> str:
    """The thing that is meant in a group, where names have spaces between them: `=20` is one inside of a name."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), text)


@dataclass(frozen=True, slots=True)
class _Watcher:
    session: str
    number: int
    subjects: Subjects
    things: tuple[str, ...]
    fields: tuple[str, ...]


class ThingsMetadata(MetadataAdapter):
    """Lives on the event loop, as the registry does."""

    quick = True

    def __init__(self, twins: Twins, adapter: ThingsAdapter, admit: Admit) -> None:
        self._twins = twins
        self._adapter = adapter
        self._admit = admit
        self._stop: Callable[[], None] | None = None
        self._watchers: dict[tuple[str, int], _Watcher] = {}

    def start(self) -> None:
        self._stop = self._twins.listen(self._hear)

    def stop(self) -> None:
        if self._stop is not None:
            self._stop()
            self._stop = None

    async def authenticate(self, user: str | None, password: str | None, client: ClientFacts) -> Admission:
        return await self._admit(user, password, client)

    # -- subscriptions ---------------------------------------------------------------------------------------------

    def items(self, session: SessionFacts, data_adapter: str, group: str) -> Sequence[str]:
        things = [thing_named(name) for name in group.split()]
        for thing in things:
            if not readable(EntityGroup.THINGS, self._twins.rights(thing_key(thing), session.roles)).touches(()):
                # The same text as for one that does not exist, because that must not be revealed.
                raise Refusal(Reason.GROUP, f"{thing[:ITEM_SHOWN]} is not among the things of this user")
        return things

    def fields(self, session: SessionFacts, data_adapter: str, group: str, schema: str) -> Sequence[str]:
        fields = []
        for text in schema.split():
            field = field_of(text)
            if field is None:
                raise Refusal(Reason.SCHEMA, f"{text[:ITEM_SHOWN]} is not a JSON pointer")
            fields.append(field)
        things = [thing_named(name) for name in group.split()]
        if not self._may_read(session.roles, things, fields):
            raise Refusal(Reason.SCHEMA, "This user may not read all of these fields")
        return fields

    def _may_read(self, subjects: Subjects, things: Sequence[str], fields: Sequence[str]) -> bool:
        scopes = [readable(EntityGroup.THINGS, self._twins.rights(thing_key(thing), subjects)) for thing in things]
        return all(may_read(scope, field) for scope in scopes for field in fields)

    def allows_mode(self, session: SessionFacts, data_adapter: str, item: str, mode: Mode) -> bool:
        return mode is Mode.MERGE

    def subscribed(self, session: SessionFacts, subscription: SubscriptionFacts) -> None:
        fields = tuple([field for text in subscription.schema.split() if (field := field_of(text)) is not None])
        watcher = _Watcher(session.id, subscription.number, session.roles, subscription.items, fields)
        # One that could not begin is told to have ended only later.
        self._forget(session.id, subscription.number)
        self._watchers[session.id, subscription.number] = watcher
        for thing in watcher.things:
            self._adapter.watch(thing, watcher.fields)

    def unsubscribed(
        self, session: SessionFacts, subscription: SubscriptionFacts, statistics: Sequence[Statistics]
    ) -> None:
        self._forget(session.id, subscription.number)

    def resumed(self, session: SessionFacts, subscription: SubscriptionFacts) -> None:
        self.subscribed(session, subscription)
        watcher = self._watchers[session.id, subscription.number]
        # As in `_hear`: a thing that is gone has nothing to be seen.
        things = [thing for thing in watcher.things if self._twins.thing(thing) is not None]
        if not self._may_read(watcher.subjects, things, watcher.fields):
            raise Refusal(Reason.GROUP, "This user may no longer read all of these fields")

    def _forget(self, session: str, number: int) -> None:
        watcher = self._watchers.pop((session, number), None)
        if watcher is not None:
            for thing in watcher.things:
                self._adapter.unwatch(thing, watcher.fields)

    def register_device(self, session: SessionFacts, device: DeviceFacts) -> None:
        raise Refusal(Reason.APPLICATION, "Things have no push notifications, which would outlive the right to read")

    # -- rights that change ----------------------------------------------------------------------------------------

    def _hear(self, told: Told) -> None:
        """End what is no longer allowed. A thing that is gone has nothing to be seen, until somebody makes it again."""
        if told.key.group is EntityGroup.POLICIES:
            concerned = {told.key.id, *self._twins.dependents(told.key.id)}
            self._check(lambda thing: _policy_id(self._twins.thing(thing)) in concerned)
        elif _policy_id(told.before) != _policy_id(told.after) and told.after is not None:
            self._check(lambda thing: thing == told.key.id)

    def _check(self, is_concerned: Callable[[str], bool]) -> None:
        for watcher in list(self._watchers.values()):
            things = [thing for thing in watcher.things if is_concerned(thing)]
            if things and not self._may_read(watcher.subjects, things, watcher.fields):
                self.server.unsubscribe(watcher.session, watcher.number)


def _policy_id(twin: Twin | None) -> str | None:
    return None if twin is None else twin.document["policyId"]
