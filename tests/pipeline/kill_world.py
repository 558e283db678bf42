"""All that takes part when processes are killed: a server, a pipeline, somebody who feeds and somebody who looks on.

Server and pipeline are processes of their own. Read next: `test_end_to_end_kill`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import TracebackType

import pyarrow as pa

from penstock.client import Subscription, connect
from penstock.history import lake_sequence
from penstock.history.lake_root import LakeRoot
from penstock.history.lake_url import LakeUrl
from penstock.journal.reader import JournalReader
from penstock.pipeline.outlet import Outlet
from tests.pipeline.kill_driver import KEYS, wide
from tests.pipeline.sink_server import TOKEN
from tests.support.lake_store import LIMITS, options
from tests.support.object_store import BUCKET, ObjectStore
from tests.support.process import ServerProcess

ROOT = Path(__file__).parents[2]

# The feed's items: a number is in the one of its remainder.
ITEMS = 3
# Numbers in one request, and seconds between two: some 200 events a second, each journaled three times and counted.
ROWS = 10
PAUSE = 0.05
# Of what was copied, a new session asks for so many.
SNAPSHOT = 300

# Exit code of a pipeline that has given up.
FAILED = 1

# For anything to come back after a kill, on a busy machine.
PATIENCE = 240.0

ARCHIVES = "classes-*.jsa"

# Starting is most of what a JVM does here.
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m"

SETTINGS: dict[str, object] = {
    "demo.enabled": False,
    "adapters.SET.data.FEED.adapter": "ingest",
    "adapters.SET.data.FEED.parameters.tokens": [TOKEN],
    'adapters.SET.data.FEED.parameters.items."e.*"': "MERGE",
    "adapters.SET.data.FEED.journal.items": ["*"],
    "adapters.SET.data.FEED.journal.policy": "ack",
    "adapters.SET.data.OUT.adapter": "ingest",
    "adapters.SET.data.OUT.parameters.tokens": [TOKEN],
    'adapters.SET.data.OUT.parameters.items."d.*"': "DISTINCT",
    'adapters.SET.data.OUT.parameters.items."c.*"': "COMMAND",
    'adapters.SET.data.OUT.parameters.items."t.*"': "MERGE",
    "adapters.SET.data.OUT.journal.items": ["*"],
    "adapters.SET.data.OUT.journal.policy": "ack",
    "pipeline.master": "local[2,4]",
    "pipeline.token": TOKEN,
    "pipeline.status": "",
    'pipeline.spark."spark.driver.extraJavaOptions"': QUICK_JVM,
    # Small and frequent, so that there is always a commit or a compaction to be killed in.
    "pipeline.jobs.history.trigger": "500 milliseconds",
    "pipeline.jobs.history.max_small_files": 2,
    # What is fed, with types.
    "pipeline.tables.numbers.adapter": "SET/FEED",
    "pipeline.tables.numbers.item": "e.{part}",
    "pipeline.tables.numbers.fields.n": "bigint",
    "pipeline.tables.numbers.fields.part": "int",
    # Each number as a row of its own; how wide it is, each world adds.
    "pipeline.queries.copy.item": "d.all",
    "pipeline.queries.copy.mode": "DISTINCT",
    "pipeline.queries.copy.order_by": ["n"],
    "pipeline.queries.copy.output_mode": "append",
    # With a state: of each item how many numbers there were. Of one lost or doubled every later row would tell.
    "pipeline.queries.totals.sql": "SELECT part, max(n) AS n, count(*) AS count FROM set.numbers GROUP BY part",
    "pipeline.queries.totals.item": "t.{part}",
    "pipeline.queries.totals.watermark": "never",
}

# Where the lake is in an object store: the seam between journal and lake moves, and what is dropped is only there.
# Not less, because queries that publish read it as well, and may be behind for a minute after a kill.
SHORT_JOURNAL: dict[str, object] = {"journal.segment_bytes": 262_144, "journal.max_bytes": 6_000_000}


class Pipeline:
    """`penstock pipeline run history copy rows`, and `totals` if there are groups, to be killed and started again.

    One whose very first JVM is killed ends with an error, because that could be a mistake of its user. Whoever started
    it starts it again, as the demo and systemd do.
    """

    def __init__(self, directory: Path, api: str, groups: bool) -> None:
        self._directory = directory
        self._api = api
        self._names = ["history", "copy", "rows", *(["totals"] if groups else ())]
        self._process: subprocess.Popen[bytes] | None = None
        self._ending = False
        # Starts after an error.
        self.again = 0

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.pipeline.kill_driver", "run", *self._names]
        places = ["--config", str(self._directory / "penstock.toml"), "--data-dir", str(self._directory / "data")]
        with open(self._directory / "pipeline.log", "ab") as log:
            self._process = subprocess.Popen(
                [*command, *places, "--api", self._api],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        threading.Thread(target=self._attend, args=(self._process,), name="pipeline", daemon=True).start()

    def _attend(self, process: subprocess.Popen[bytes]) -> None:
        if process.wait() == FAILED and not self._ending:
            self.again += 1
            self.start()

    def kill_driver(self, chance: Random) -> bool:
        """Its two halves, the Python process and the JVM, one after the other; False: it is being started again."""
        virtual_machines = self._virtual_machines()
        process = self._process
        assert process is not None
        halves = [process.pid, *virtual_machines[: chance.randrange(2)]]
        chance.shuffle(halves)
        for pid in halves:
            if pid == process.pid:
                process.kill()
                continue
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        # A JVM that was left alive sees that its standard input has ended, and ends.
        return process.wait(PATIENCE) == -signal.SIGKILL

    def kill_virtual_machine(self) -> bool:
        """The JVM alone, which the Python process replaces; False: there is none just now."""
        for pid in self._virtual_machines():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return True
        return False

    def _virtual_machines(self) -> list[int]:
        assert self._process is not None
        return [each.pid for each in descendants(self._process.pid) if b"SparkSubmit" in each.command]

    def kill_worker(self, chance: Random) -> bool:
        """One of the Python processes that the JVM has started: a worker, what forks them, or a source's planner."""
        assert self._process is not None
        found = [each.pid for each in descendants(self._process.pid) if b"\0pyspark." in each.command]
        if not found:
            return False
        try:
            os.kill(chance.choice(found), signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def stop(self) -> int:
        """Orderly; the exit code."""
        self._ending = True
        assert self._process is not None
        self._process.terminate()
        try:
            return self._process.wait(PATIENCE)
        finally:
            self.close()

    def close(self) -> None:
        self._ending = True
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def log(self) -> str:
        """The end of what it said, for messages of tests."""
        return (self._directory / "pipeline.log").read_text(errors="replace")[-6_000:]


@dataclass(frozen=True)
class Descendant:
    """A process below another one."""

    pid: int
    parent: int
    command: bytes


def descendants(ancestor: int) -> list[Descendant]:
    """Every process below this one, by number."""
    found: dict[int, Descendant] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                status, command = (entry / "stat").read_text(), (entry / "cmdline").read_bytes()
            except OSError:
                continue
            parent = int(status.rpartition(")")[2].split()[1])
            found[int(entry.name)] = Descendant(int(entry.name), parent, command)

    def is_below(pid: int) -> bool:
        while pid in found and pid != ancestor:
            pid = found[pid].parent
        return pid == ancestor

    return sorted((each for each in found.values() if is_below(each.parent)), key=lambda each: each.pid)


class Feeder:
    """Publishes 1, 2, 3, … in numbered batches, one after the other, and repeats each until it is acknowledged."""

    def __init__(self, api: str) -> None:
        self.acknowledged = 0
        self._outlet = Outlet(api, "SET", "FEED", TOKEN, retry_timeout=PATIENCE)
        self._changed = threading.Condition()
        self._ending = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="feeder", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            batch = 0
            while not self._ending.wait(PAUSE):
                numbers = range(batch * ROWS + 1, (batch + 1) * ROWS + 1)
                items = [f"e.{number % ITEMS}" for number in numbers]
                self._outlet.put_batch("feeder", batch, pa.table({"item": items, "n": list(numbers)}), "MERGE")
                batch += 1
                with self._changed:
                    self.acknowledged = batch * ROWS
                    self._changed.notify_all()
        except BaseException as error:
            with self._changed:
                self._failure = error
                self._changed.notify_all()
        finally:
            self._outlet.close()

    def wait_for_more(self, batches: int) -> int:
        """Until so many more were acknowledged, which is also how a test waits for a moment; the last number."""
        goal = self.acknowledged + batches * ROWS
        with self._changed:
            done = self._changed.wait_for(lambda: self._failure or self.acknowledged >= goal, PATIENCE)
        assert self._failure is None, self._failure
        assert done, f"{self.acknowledged} of {goal}"
        return self.acknowledged

    def stop(self) -> int:
        """How many numbers there are."""
        self._ending.set()
        self._thread.join(PATIENCE)
        assert self._failure is None, self._failure
        return self.acknowledged


@dataclass(frozen=True)
class Sent:
    """Of an update: a row of the table has a `key`, a total has a `count`."""

    item: str
    number: int
    key: str | None
    count: int


def counted(number: int) -> int:
    """How many numbers the item of this one has had with it."""
    return len(range(number % ITEMS or ITEMS, number + 1, ITEMS))


@dataclass(frozen=True)
class Known:
    """The last number copied, that of each item of the feed, of each row of the table, of each total with its count."""

    copied: int
    fed: dict[str, int]
    kept: dict[str, int]
    totals: dict[str, tuple[int, int]]


def known_after(count: int, groups: bool) -> Known:
    latest = range(count - ITEMS + 1, count + 1)
    return Known(
        count,
        {f"e.{number % ITEMS}": number for number in latest},
        {str(number % KEYS): number for number in range(count - KEYS + 1, count + 1)},
        {f"t.{number % ITEMS}": (number, counted(number)) for number in latest} if groups else {},
    )


class Viewer:
    """A client that is subscribed to everything, in whatever session, until it is closed."""

    def __init__(self, url: str, groups: bool) -> None:
        # By kind of subscription, then by session.
        self.sent: dict[str, dict[int, list[Sent]]] = {"feed": {}, "copy": {}, "rows": {}, "totals": {}}
        self.lost = 0
        self._url = url
        self._groups = groups
        self._newest = {name: 0 for name in self.sent if groups or name != "totals"}
        self._changed = threading.Condition()
        self._failure: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="viewer", daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE)
        self._check()

    def wait_for(self, number: int) -> None:
        """Until everything that came of this number, or of a later one, has been sent."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure or min(self._newest.values()) >= number, PATIENCE)
        self._check()
        assert min(self._newest.values()) >= number, self._newest

    def wait_to_know(self, count: int) -> None:
        """Until it knows what there is to know after `count` numbers."""
        goal = known_after(count, self._groups)
        with self._changed:
            self._changed.wait_for(lambda: self._failure or self.known() == goal, PATIENCE)
            assert self.known() == goal
        self._check()

    def known(self) -> Known:
        """As a page would show it now: what the last session was sent."""
        copied, fed, kept, totals = (
            self.sent[name].get(max(self.sent[name], default=0), []) for name in ("copy", "feed", "rows", "totals")
        )
        return Known(
            copied[-1].number if copied else 0,
            {sent.item: sent.number for sent in fed},
            {sent.key: sent.number for sent in kept if sent.key is not None},
            {sent.item: (sent.number, sent.count) for sent in totals},
        )

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ending.set)
            self._thread.join(PATIENCE)
        self._check()

    def _check(self) -> None:
        assert self._failure is None, self._failure

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._look_on())
        except BaseException as error:
            with self._changed:
                self._failure = error
                self._changed.notify_all()
        self._ready.set()

    async def _look_on(self) -> None:
        async with connect(self._url, adapter_set="SET", proxy=None) as client:
            items, totals = ([f"{name}.{remainder}" for remainder in range(ITEMS)] for name in "et")
            subscriptions = {
                "feed": client.subscribe(items, ["n"], mode="MERGE", data_adapter="FEED"),
                "copy": client.subscribe("d.all", ["n"], mode="DISTINCT", data_adapter="OUT", snapshot=SNAPSHOT),
                "rows": client.subscribe("c.rows", ["key", "command", "n"], mode="COMMAND", data_adapter="OUT"),
                "totals": client.subscribe(totals, ["n", "count"], mode="MERGE", data_adapter="OUT"),
            }
            self._ready.set()
            async with asyncio.TaskGroup() as group:
                for name, subscription in subscriptions.items():
                    group.create_task(self._take(name, subscription))
                await self._ending.wait()
                for subscription in subscriptions.values():
                    subscription.close()

    async def _take(self, name: str, subscription: Subscription) -> None:
        async for update in subscription:
            if update.values.get("command") == "DELETE":
                raise AssertionError(f"nobody has deleted {update}")
            number, count = int(update.values["n"] or 0), int(update.values.get("count") or 0)
            with self._changed:
                session = self.sent[name].setdefault(subscription.restarts, [])
                session.append(Sent(update.item, number, update.values.get("key"), count))
                self._newest[name] = max(self._newest[name], number)
                self._changed.notify_all()
        self.lost += subscription.lost


class KillWorld:
    """`kill` one of them at a random moment, and start it again.

    With a `store` the lake is in it, and the journal keeps little of what the lake has. `classes` is a directory for
    the archive of Spark's classes, which one world makes and the next begin with: half of what a JVM costs. With
    `groups` there is a query that has them, which makes each start of Spark longer.
    """

    def __init__(
        self,
        directory: Path,
        seed: int,
        store: ObjectStore | None = None,
        classes: Path | None = None,
        groups: bool = True,
    ) -> None:
        self.data = directory / "data"
        self._cache, self._classes = self.data / "pipeline" / "cache", classes
        self.journal = self.data / "journal"
        self.lake: LakeRoot = self.data / "lake"
        self.chance = Random(seed)
        self.killed: list[str] = []
        self.groups = groups
        # When the last one died; of the object store, when it was back.
        self.died = 0.0
        self._store = store
        copied = f"SELECT n, repeat('x', {wide()}) AS wide FROM set.numbers"
        settings = {**SETTINGS, "pipeline.queries.copy.sql": copied}
        if store is not None:
            url, given = f"s3://{BUCKET}/kills-{seed}/lake", {**options(store), **LIMITS}
            self.lake = LakeUrl(url, given)
            named = {f"lake.options.{name}": value for name, value in given.items()}
            settings |= {**SHORT_JOURNAL, "lake.url": url, **named}
        self.server = ServerProcess(directory, settings)
        self.server.start()
        try:
            self.api = f"http://{self.server.host}:{self.server.api_port}"
            self.pipeline = Pipeline(directory, self.api, groups)
            self.viewer = self.another_viewer()
            self.feeder = Feeder(self.api)
            self._take_archive()
            # The pipeline waits for a journal; so it has one at once.
            self.feeder.wait_for_more(1)
            self.pipeline.start()
        except BaseException:
            self.server.stop()
            raise

    def _take_archive(self) -> None:
        for kept in self._classes.glob(ARCHIVES) if self._classes is not None else ():
            self._cache.mkdir(parents=True, exist_ok=True)
            (self._cache / kept.name).symlink_to(kept)

    def _keep_archive(self) -> None:
        for made in self._cache.glob(ARCHIVES) if self._classes is not None else ():
            if not made.is_symlink():
                assert self._classes is not None
                shutil.move(made, self._classes)

    def another_viewer(self) -> Viewer:
        return Viewer(self.server.url, self.groups)

    def settle(self) -> None:
        """Until what is fed from now on has gone all the way round."""
        self.viewer.wait_for(self.feeder.wait_for_more(1))

    def wait_for_lake(self, sequence: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while (reached := lake_sequence(self.lake)) != sequence:
            assert time.monotonic() < deadline, f"the lake ends at {reached}, not at {sequence}: {self.pipeline.log}"
            threading.Event().wait(0.1)

    def wait_for_seam(self) -> None:
        """Until the journal has dropped what only the lake has from then on."""
        deadline = time.monotonic() + PATIENCE
        while JournalReader(self.journal).earliest() == 1:
            assert time.monotonic() < deadline, f"nothing is dropped: {self.pipeline.log}"
            self.feeder.wait_for_more(1)

    def kill(self, victim: str) -> None:
        self.feeder.wait_for_more(self.chance.randrange(1, 40))
        if victim == "server":
            self.server.kill()
            self.died = time.monotonic()
            self.server.start()
        elif victim == "driver":
            while not self.pipeline.kill_driver(self.chance):
                self.feeder.wait_for_more(1)
            self.died = time.monotonic()
            self.pipeline.start()
        elif victim == "jvm":
            while not self.pipeline.kill_virtual_machine():
                self.feeder.wait_for_more(1)
            self.died = time.monotonic()
        elif victim == "store":
            assert self._store is not None
            self._store.kill()
            # Away for a moment, or for longer than requests are tried again.
            self.feeder.wait_for_more(self.chance.randrange(1, 100))
            self._store.start()
            self.died = time.monotonic()
        else:
            # There is none for a moment after the one before was killed.
            while not self.pipeline.kill_worker(self.chance):
                self.feeder.wait_for_more(1)
            self.died = time.monotonic()
        self.killed.append(victim)

    def __enter__(self) -> KillWorld:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.pipeline.close()
        self.server.__exit__(kind, error, trace)
        self._keep_archive()
