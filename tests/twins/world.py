"""What the tests of twins share: commands as clients write them, a registry on a real journal over a fake disk.

Results and refusals are looked at as a Ditto client is told of them, because status, code and text of each must stay.
Nothing here waits for a time: a command is answered when the journal's thread has spoken.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from msgspec import UNSET

from penstock.doors.ditto.answers import DittoAnswer, answer_of, error_of, event_of
from penstock.doors.ditto.change_log import JournalChangeLog
from penstock.doors.ditto.commands import things_asked_for, twin_command
from penstock.doors.ditto.saved_state import load_state, records_after, save_state
from penstock.journal.journal import Journal
from penstock.journal.reader import JournalReader
from penstock.testing.disk import FakeDisk, Operation
from penstock.twins.command import Caller, RetrieveThings, TwinCommand
from penstock.twins.decision import Result
from penstock.twins.names import EntityKey, TwinNames
from penstock.twins.reasons import TwinRefusal
from penstock.twins.record import Record, records_of
from penstock.twins.registry import RegistrySettings, Twins
from penstock.twins.told import Told
from penstock.wire.ditto.envelope import Envelope
from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.kinds import EntityGroup
from penstock.wire.ditto.topic import Criterion, parse_topic
from penstock.wire.ditto.twin import Command, RetrieveSeveral, TwinEvent, parse_command

NOON = 1_700_000_000_000_000
SECOND = 1_000_000
LONG = 30.0

OWNER = Caller(("nginx:owner",), "owner's connection")
READER = Caller(("nginx:reader",))
OUTSIDER = Caller(("nginx:outsider",))

THING = "ns:thing"
POLICY = "ns:policy"

ALL = {"grant": ["READ", "WRITE"], "revoke": []}
READ = {"grant": ["READ"], "revoke": []}


def entry(subject: str, **resources: Any) -> dict[str, Any]:
    return {"subjects": {subject: {"type": "test"}}, "resources": resources}


POLICY_DOCUMENT: dict[str, Any] = {
    "policyId": POLICY,
    "entries": {
        "OWNER": entry("nginx:owner", **{"thing:/": ALL, "policy:/": ALL}),
        "READER": entry("nginx:reader", **{"thing:/": READ, "policy:/": READ}),
    },
}


def command(
    action: str,
    path: str = "/",
    value: Any = UNSET,
    *,
    id: str = THING,
    group: str = "things",
    headers: dict[str, Any] | None = None,
    fields: str | None = None,
) -> Command:
    """As a door makes it of what a client sends."""
    namespace, _, name = id.partition(":")
    channel = "twin/" if group == "things" else ""
    topic = parse_topic(f"{namespace}/{name}/{group}/{channel}{Criterion.COMMANDS}/{action}")
    parsed = parse_command(Envelope(topic, path, headers or {}, value, fields))
    assert isinstance(parsed, Command)
    return parsed


def policy_command(action: str, path: str = "/", value: Any = UNSET, *, id: str = POLICY, **more: Any) -> Command:
    return command(action, path, value, id=id, group="policies", **more)


def asked(
    given: Command | RetrieveSeveral, caller: Caller = OWNER, kept: tuple[str, ...] = ()
) -> TwinCommand | RetrieveThings:
    """As the rules know it."""
    return things_asked_for(given) if isinstance(given, RetrieveSeveral) else twin_command(given, caller, kept)


def asked_of_one(action: str, path: str = "/", value: Any = UNSET, **more: Any) -> TwinCommand:
    return twin_command(command(action, path, value, **more), OWNER)


def event(told: Told) -> TwinEvent:
    return event_of(told, told.change)


def event_for(told: Told, caller: Caller) -> TwinEvent | None:
    """As far as this caller may know it."""
    change = told.change_for(caller.subjects)
    return None if change is None else event_of(told, change)


def answered(result: Result | TwinRefusal) -> DittoAnswer | DittoError:
    """As a client is told of it."""
    return error_of(result) if isinstance(result, TwinRefusal) else answer_of(result)


class Gate:
    """A disk whose syncs wait until it is opened."""

    def __init__(self, disk: FakeDisk) -> None:
        self._open = threading.Event()
        self._disk = disk
        self.fails = False
        disk.fault = self._fault

    def _fault(self, operation: Operation) -> int | None:
        if operation.kind == "sync" and not self._open.wait(LONG):
            raise TimeoutError("nobody opened the gate")
        return errno.EIO if self.fails else None

    def open(self, *, failing: bool = False) -> None:
        self.fails = failing
        self._open.set()

    def repair(self) -> None:
        self.fails = False


class World:
    """One registry; `restart` makes another from what the disk has."""

    def __init__(
        self, disk: FakeDisk | None = None, settings: RegistrySettings | None = None, kept: tuple[str, ...] = ()
    ) -> None:
        self.disk = disk or FakeDisk()
        self.settings = settings or RegistrySettings()
        # Headers that are journaled.
        self.kept = kept
        self.now = NOON
        self.told: list[Told] = []
        # Entities of which an answer, or a change, was not taken.
        self.faults: list[EntityKey] = []
        self._start()

    def _start(self) -> None:
        self.calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.journal = Journal(self.disk)
        change_log = JournalChangeLog(self.journal, self.calls.put)
        self.twins = Twins(change_log, lambda: self.now, self.faults.append, self.settings)
        state = load_state(self.disk)
        self.twins.restore(state, records_after(JournalReader(self.disk), self.settings.names, state.sequence))
        self.twins.listen(self.told.append)

    def restart(self, *, save: bool = False) -> None:
        if save:
            self.save()
        self.journal.close()
        self._start()

    def save(self) -> None:
        save_state(self.disk, self.twins.capture())

    def close(self) -> None:
        self.journal.close()

    def ask(self, given: Command | RetrieveSeveral, caller: Caller = OWNER) -> DittoAnswer:
        """The answer; raises the error."""
        answer = self.begin(given, caller)
        while not answer.results:
            self.turn()
        return answer.outcome

    def begin(self, given: Command | RetrieveSeveral, caller: Caller = OWNER) -> Answered:
        """What a client sends that does not wait for the answer. Each command comes a second after the one before."""
        self.now += SECOND
        answer = Answered()
        self.twins.submit(asked(given, caller, self.kept), caller, answer.take)
        return answer

    def turn(self) -> None:
        """Wait for the journal to speak, once."""
        self.calls.get(timeout=LONG)()

    def refused(self, given: Command | RetrieveSeveral, caller: Caller = OWNER) -> DittoError:
        try:
            outcome = self.ask(given, caller)
        except DittoError as error:
            return error
        raise AssertionError(f"it was not refused but {outcome}")

    def result(self, given: Command, caller: Caller = OWNER) -> tuple[int, str | None]:
        """Status and, of an error, its code."""
        try:
            return self.ask(given, caller).status, None
        except DittoError as error:
            return error.status, error.code

    def records(self) -> list[Record]:
        return list(records_of(JournalReader(self.disk).read()))

    def entity(self, id: str, group: EntityGroup = EntityGroup.THINGS) -> str:
        return TwinNames().entity(EntityKey(group, id))


class Answered:
    """Where the answer to a command goes, once."""

    def __init__(self) -> None:
        self.results: list[DittoAnswer | DittoError] = []

    def take(self, result: Result | TwinRefusal) -> None:
        self.results.append(answered(result))

    @property
    def outcome(self) -> DittoAnswer:
        assert len(self.results) == 1, self.results
        result = self.results[0]
        if isinstance(result, DittoError):
            raise result
        return result

    @property
    def status(self) -> int | None:
        if not self.results:
            return None
        assert len(self.results) == 1, self.results
        return self.results[0].status
