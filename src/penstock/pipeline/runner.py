"""One process, one Spark, one or several queries: each is watched, and started again when it fails.

A thread for each query; the thread that calls `run` only waits, so that signals are heard at any time. Nothing here
needs Spark: an `Engine` brings it along. Not here: files and figures (status, progress), options (commands).
Read next: engine.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from penstock.journal.damage import Damage
from penstock.log import get
from penstock.pipeline.errors import BadOption, PipelineError, explain
from penstock.pipeline.progress import QueryMeter, StatusPublisher
from penstock.pipeline.remote import RemoteJournalAddress
from penstock.pipeline.reports import told
from penstock.pipeline.status import QueryStatus, line, now, write

log = get(__name__)

# Exit codes.
DONE = 0
FAILED = 1
WRONG = 2
# Not an exit code: Spark's JVM is gone, and a new one needs a new process.
SPARK_GONE = -1

# What pyspark says of a JVM that ends before it can be spoken to.
_NEVER_CAME = "JAVA_GATEWAY_EXITED"

# Why no query runs yet; the demo's page has the same words (web/src/market/pipeline.ts).
SPARK_STARTS = "Spark is starting"


class RunningQuery(Protocol):
    """A running query, as both kinds of Spark have it."""

    @property
    def isActive(self) -> bool: ...  # noqa: N802
    @property
    def recentProgress(self) -> Sequence[Mapping[str, Any]]: ...  # noqa: N802
    def exception(self) -> Exception | None: ...
    def stop(self) -> None: ...


class Engine(Protocol):
    """What queries run on."""

    def open(self) -> None:
        """Takes its time. Raises what keeps it from starting."""

    def at_work(self) -> None:
        """Every query has done a batch."""

    def is_alive(self) -> bool: ...
    def close(self) -> None: ...
    def kill(self) -> None:
        """End it at once; for one that does not close."""


@dataclass(frozen=True)
class Task:
    """A job with its settings: `start` begins the query, `obstacle` says what it still has to wait for, if anything."""

    name: str
    start: Callable[[], RunningQuery]
    obstacle: Callable[[], str | None] = lambda: None


@dataclass(frozen=True)
class RunnerPace:
    """Seconds."""

    # Between two looks at a query, which are also two writes of its status.
    look: float = 1.0
    # Between two lines in the log about a query that is at work, for those who debug.
    log: float = 10.0
    # A query whose oldest event has waited so long is behind, which is told; half of it, and it has caught up.
    behind: float = 60.0
    # For the JVM to be seen as dead by the system when it does not answer any more.
    death: float = 5.0
    # Before a query is started again: the first time, and at most; it doubles in between.
    first_restart: float = 1.0
    last_restart: float = 60.0
    # A query that ran this long has recovered: its next restart is again the first.
    recovered: float = 60.0
    # Queries begin one after another: the next one when the one before has done a batch, or after this long. Each needs
    # Python processes of its own; if all came up at once, the first result would be as late as the last.
    turn: float = 60.0
    # From its first batch on a query still has the turn so long: what its clients wait for, such as what is closed by
    # what has gathered, comes with the batches after the first, and a young JVM needs all cores for them.
    head_start: float = 2.0
    # Between two looks whether Spark is still there: it is replaced at once.
    pulse: float = 0.1
    # For queries to stop, then for Spark; afterwards both are left.
    stop_queries: float = 4.0
    stop_engine: float = 4.0


USUAL = RunnerPace()


class Runner:
    """`run` until the queries end (`once`), one fails for good, or `stop` is called."""

    def __init__(
        self,
        engine: Engine,
        tasks: Sequence[Task],
        journal: Path | RemoteJournalAddress,
        status_dir: Path,
        *,
        restart: bool,
        once: bool = False,
        pid: int = 0,
        damage: Path | None = None,
        publisher: StatusPublisher | None = None,
        announce: Callable[[str], None] = lambda text: None,
        show: Callable[[str], None] = lambda text: None,
        details: Path | None = None,
        again: bool = False,
        pace: RunnerPace = USUAL,
    ) -> None:
        self._engine = engine
        # Spark has run here before, and has ended: one that does not come up has been killed, or has no memory now.
        self._again = again
        self._publisher = publisher
        self._announce = announce
        # One line for all queries, again and again: for a terminal.
        self._show = show
        # Where Spark's own words are, for those who want to know more.
        self.details = "" if details is None else str(details)
        self._pace = pace
        self._status_dir = status_dir
        # Where tasks leave notes about places of the journal that they cannot read, and those that were told.
        self._damage = damage
        self._told: set[Damage] = set()
        # Set to end everything, whatever the reason.
        self._ending = threading.Event()
        # Something for the waiting thread to look at.
        self._news = threading.Event()
        self._code = DONE
        # Why all of it has failed, if it has.
        self._reason: str | None = None
        self._saying = ""
        self._lock = threading.Lock()
        # Held by the query that is beginning.
        self._turn = threading.Lock()
        self._watches = [
            _Watch(
                self, task, QueryMeter(journal), QueryStatus(name=task.name, pid=pid), pace, restart and not once, once
            )
            for task in tasks
        ]

    def stop(self, saying: str = "") -> None:
        """End everything; may be called by a signal handler. People are told so in these words."""
        self._saying = saying
        self._ending.set()
        self._news.set()

    def run(self) -> int:
        """An exit code, or SPARK_GONE."""
        self._write()
        self._announce("starting Spark…")
        if not self._open():
            self._finish()
            return self._code
        for watch in self._watches:
            watch.thread.start()
            # The first of them has the first turn, unless it has to wait for something.
            self._watches[0].placed.wait(self._pace.turn)
        announced = False
        next_write = 0.0
        while not self._ending.is_set() and any(watch.thread.is_alive() for watch in self._watches):
            self._news.wait(min(self._pace.look, self._pace.pulse))
            self._news.clear()
            if time.monotonic() >= next_write:
                next_write = time.monotonic() + self._pace.look * 0.9
                self._write()
            if not announced and all(watch.status.state == "running" for watch in self._watches):
                announced = True
                self._announce("running")
                self._engine.at_work()
            if not self._engine.is_alive():
                break
        if not self._ending.is_set() and not self._engine.is_alive():
            # Whoever called tells it, and what becomes of it.
            self._fail(SPARK_GONE, "Spark has ended unexpectedly")
        self._ending.set()
        self._tell_stop()
        self._close()
        self._finish()
        return self._code

    # -- of the watches -------------------------------------------------------------------------------------------

    def failed(self, code: int) -> None:
        """A query has failed for good: the others end with it."""
        with self._lock:
            self._code = self._code or code
        self.stop()

    def changed(self) -> None:
        self._news.set()

    def wait(self, seconds: float) -> bool:
        """Whether everything ends meanwhile."""
        return self._ending.wait(seconds)

    def is_alive(self) -> bool:
        return self._engine.is_alive()

    def is_dying(self) -> bool:
        """Whether Spark, which does not answer, turns out to be gone: it closes its sockets before it has ended."""
        deadline = time.monotonic() + self._pace.death
        while self._engine.is_alive() and time.monotonic() < deadline:
            if self._ending.wait(0.05):
                break
        return not self._engine.is_alive()

    def take_turn(self) -> bool:
        """Wait until no other query is beginning; False if everything ends meanwhile."""
        while not self._turn.acquire(timeout=self._pace.look):
            if self._ending.is_set():
                return False
        return True

    def pass_turn(self) -> None:
        self._turn.release()

    # -- inside ---------------------------------------------------------------------------------------------------

    def _open(self) -> bool:
        """Start Spark while listening to signals; False if it is not there, with the code set."""
        problems: list[BaseException] = []

        def work() -> None:
            try:
                self._engine.open()
            except BaseException as error:
                problems.append(error)
            self._news.set()

        for watch in self._watches:
            watch.status.reason = SPARK_STARTS
        # Not in the main thread: there Spark takes SIGINT for itself.
        thread = threading.Thread(target=work, name="spark", daemon=True)
        thread.start()
        while thread.is_alive() and not self._ending.is_set():
            self._news.wait(self._pace.look)
            self._news.clear()
            self._write()
        for watch in self._watches:
            watch.status.reason = None
        if self._ending.is_set():
            self._tell_stop()
            if not self._did(self._engine.kill, 1.0):
                log.warning("exiting while Spark is still starting")
            return False
        if problems and self._is_gone(problems[0]):
            self._fail(SPARK_GONE, "Spark has ended unexpectedly")
            return False
        if problems:
            self._end(WRONG if _is_wrong(problems[0]) else FAILED, explain(problems[0]))
            return False
        return True

    def _is_gone(self, error: BaseException) -> bool:
        """Whether Spark's JVM has ended while it was starting, and is to be replaced as one that ends later."""
        return not self._engine.is_alive() or (self._again and _NEVER_CAME in str(error))

    def _tell_stop(self) -> None:
        if self._saying:
            self._announce(self._saying)

    def _end(self, code: int, reason: str) -> None:
        log.error("pipeline stopped", reason=reason, details=self.details)
        self._fail(code, reason)

    def _fail(self, code: int, reason: str) -> None:
        with self._lock:
            self._code = self._code or code
        self._reason = reason
        self._ending.set()

    def _close(self) -> None:
        deadline = time.monotonic() + self._pace.stop_queries
        for watch in self._watches:
            watch.thread.join(max(0.0, deadline - time.monotonic()))
        left = [watch.status.name for watch in self._watches if watch.thread.is_alive()]
        if left:
            # Harmless: a batch that was cut off is done again, and counted once.
            log.warning(
                "queries are stopped in the middle of a batch, which is repeated at the next start", queries=left
            )
        if left or not self._engine.is_alive() or not self._did(self._engine.close, self._pace.stop_engine):
            self._did(self._engine.kill, 1.0)

    def _did(self, action: Callable[[], None], seconds: float) -> bool:
        """Whether something was done in time; if not, it goes on without anybody waiting."""

        def work() -> None:
            # Spark complains in many ways when it is stopped; all of them are in its own log.
            with contextlib.suppress(Exception):
                action()

        thread = threading.Thread(target=work, name="spark stop", daemon=True)
        thread.start()
        thread.join(seconds)
        return not thread.is_alive()

    def _finish(self) -> None:
        for watch in self._watches:
            # Queries that were told to stop have stopped, but that is not why they are not there.
            if self._reason is not None:
                watch.status.state, watch.status.reason = "failed", self._reason
            elif watch.status.state != "failed":
                watch.status.state, watch.status.reason = "stopped", None
        self._write()
        if self._publisher is not None:
            self._publisher.close()

    def _look_for_damage(self) -> None:
        """Each place is told once, those from before as well: somebody has to do something about them."""
        if self._damage is None:
            return
        damaged = told(self._damage)
        for place in damaged:
            if place not in self._told:
                self._told.add(place)
                log.error("journal damaged", place=str(place), notes=str(self._damage))
        for watch in self._watches:
            watch.status.damaged = len(damaged)

    def _write(self) -> None:
        self._look_for_damage()
        for watch in self._watches:
            watch.status.updated = now()
            try:
                write(self._status_dir, watch.status)
            except OSError as error:
                log.warning("status not written", query=watch.status.name, reason=str(error))
        statuses = [watch.status for watch in self._watches]
        if not self._ending.is_set() and any(status.batch is not None for status in statuses):
            self._show(line(statuses))
        if self._publisher is not None:
            self._publisher.publish(statuses)


class _Watch:
    """One query, in its own thread: start it, look at it, start it again."""

    def __init__(
        self,
        runner: Runner,
        task: Task,
        meter: QueryMeter,
        status: QueryStatus,
        pace: RunnerPace,
        restart: bool,
        once: bool,
    ) -> None:
        self.status = status
        self.thread = threading.Thread(target=self._run, name=f"query {task.name}", daemon=True)
        self._runner = runner
        self._task = task
        self._meter = meter
        self._pace = pace
        self._restart = restart
        self._once = once
        self._log_at = 0.0
        self._logged_batch: int | None = None
        self._is_behind = False
        # Set when it has had its turn, or cannot take it.
        self.placed = threading.Event()
        # When the turn to begin is passed on at the latest; None: this query does not have it.
        self._turn_ends: float | None = None
        # It has done a batch since it has the turn.
        self._has_begun = False

    def _run(self) -> None:
        try:
            self._run_again()
        finally:
            self.placed.set()

    def _run_again(self) -> None:
        pause = self._pace.first_restart
        while self._unobstructed() and self._runner.take_turn():
            self.placed.set()
            begun = time.monotonic()
            self._turn_ends, self._has_begun = begun + self._pace.turn, False
            self.status.started = now()
            try:
                error = self._attend(self._task.start())
            except Exception as problem:
                error = problem
            self._pass_turn()
            if error is None or self._runner.wait(0):
                return
            if _is_cut_off(error) and self._runner.is_dying():
                # Whoever runs the queries sees it, too; there is nothing to start one on.
                return
            reason = explain(error)
            self._set("failed", reason)
            if _is_wrong(error) or not self._restart:
                log.error("query failed", query=self.status.name, reason=reason, details=self._runner.details)
                self._runner.failed(WRONG if _is_wrong(error) else FAILED)
                return
            if not self._runner.is_alive():
                return
            if time.monotonic() - begun >= self._pace.recovered:
                pause = self._pace.first_restart
            log.error(
                "query failed, started again",
                query=self.status.name,
                seconds=pause,
                reason=reason,
                details=self._runner.details,
            )
            if self._runner.wait(pause):
                return
            pause = min(pause * 2, self._pace.last_restart)
            self.status.restarts += 1
            self._meter.restarted()
            self._set("starting", None)

    def _unobstructed(self) -> bool:
        """Wait for what is missing; False if everything ends instead."""
        told: str | None = None
        while (obstacle := self._task.obstacle()) is not None:
            if self._once:
                self._set("failed", obstacle)
                log.error("query cannot start", query=self.status.name, reason=obstacle)
                self._runner.failed(FAILED)
                return False
            if told is None:
                log.warning("query waits for the journal or the token", query=self.status.name, reason=obstacle)
            told = obstacle
            self.placed.set()
            self._set("starting", obstacle)
            if self._runner.wait(self._pace.look):
                return False
        if told is not None:
            self._set("starting", None)
        return not self._runner.wait(0)

    def _attend(self, query: RunningQuery) -> Exception | None:
        """Until it ends: why, or None if it is at its end or was told to stop."""
        while not self._runner.wait(self._pace.look):
            active = query.isActive
            recent = query.recentProgress
            self._share_turn(bool(recent))
            if recent and self.status.state != "running":
                self._set("running", None)
                log.info("query runs", query=self.status.name, restarts=self.status.restarts)
            try:
                self._meter.take(self.status, recent)
            except Exception:
                # Figures are not worth a query.
                log.exception("figures of a query cannot be read", query=self.status.name)
            self._log()
            if not active:
                error = query.exception()
                if error is None and not self._once:
                    return PipelineError("the query ended unexpectedly")
                if error is None:
                    self._set("stopped", None)
                return error
        query.stop()
        self._set("stopped", None)
        return None

    def _share_turn(self, has_begun: bool) -> None:
        """Give the turn away when its time has come."""
        if self._turn_ends is None:
            return
        if has_begun and not self._has_begun:
            self._has_begun = True
            self._turn_ends = min(self._turn_ends, time.monotonic() + self._pace.head_start)
        if time.monotonic() >= self._turn_ends:
            self._pass_turn()

    def _pass_turn(self) -> None:
        if self._turn_ends is not None:
            self._turn_ends = None
            self._runner.pass_turn()

    def _log(self) -> None:
        """What has changed; how a query that runs is doing is shown on terminals and in its status."""
        status = self.status
        waited = status.lag_seconds or 0.0
        if not self._is_behind and waited >= self._pace.behind:
            self._is_behind = True
            log.warning("query is behind", query=status.name, seconds=waited, events=status.lag_events)
        elif self._is_behind and waited <= self._pace.behind / 2:
            self._is_behind = False
            log.info("query has caught up", query=status.name)
        if time.monotonic() < self._log_at or status.batch is None or status.batch == self._logged_batch:
            return
        self._log_at = time.monotonic() + self._pace.log
        self._logged_batch = status.batch
        log.debug(
            "query running",
            query=status.name,
            rows_per_second=status.rows_per_second,
            lag_events=status.lag_events,
            lag_seconds=status.lag_seconds,
            batch=status.batch,
            batch_millis=status.batch_millis,
            state_rows=status.state_rows,
            late_rows=status.late_rows,
        )

    def _set(self, state: Any, reason: str | None) -> None:
        self.status.state = state
        self.status.reason = reason
        self._runner.changed()


def _is_wrong(error: BaseException) -> bool:
    """Whether trying again cannot help: something that was written is not allowed."""
    return isinstance(error, BadOption) or "penstock.pipeline.errors.BadOption" in str(error)


def _is_cut_off(error: BaseException) -> bool:
    """Whether Spark did not answer; py4j has a class of its own for it, which is not imported here."""
    return isinstance(error, ConnectionError) or any(
        kind.__name__ == "Py4JNetworkError" for kind in type(error).__mro__
    )
