"""The process that starts a hub and edges, replaces those that die, writes the log of all, and stops them in order.

It has no event loop and no clients, so that nothing can take it along. What workers do is in `penstock.worker`, what is
said to them in `control`. Read next: docs/cluster.md.
"""

from __future__ import annotations

import contextlib
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType

from msgspec.structs import replace

from penstock.cluster.control import (
    HUB,
    LevelSet,
    ReloadDone,
    StopAsked,
    Word,
    Words,
    WorkerFailed,
    WorkerGivenUp,
    WorkerReady,
    WorkerTask,
    written,
)
from penstock.log import RelayedLines, get, reopen, write_relayed

log = get(__name__)

# Seconds before a worker that died is started again: at once the first time, then longer each time, up to the last. One
# that ran as long as WELL begins again with the first.
PAUSES: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0, 5.0, 10.0)
WELL = 60.0

# Starts in a row that came to nothing; then it is left at that.
MAX_STARTS = 5

# Seconds that edges, and then the hub, have to stop; then they are killed.
EDGE_GRACE = 20.0
HUB_GRACE = 60.0

# Bytes read at once.
PIECE = 1 << 16

# What starts a worker; its name and the two sockets follow.
COMMAND: tuple[str, ...] = (sys.executable, "-P", "-m", "penstock.worker")


class Worker:
    """One of the processes, and those that took its place."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_hub = name == HUB
        self.process: subprocess.Popen[bytes] | None = None
        self.control: socket.socket | None = None
        self.lines: socket.socket | None = None
        self.ready: WorkerReady | None = None
        # Why it has said that it cannot start.
        self.reason: str | None = None
        self.started = 0.0
        # How often it has died soon, and how often it has not become ready, without interruption.
        self.deaths = 0
        self.failures = 0
        self.reload_due = False
        # When it is to be started again, on the monotonic clock; None: it runs, or is given up.
        self.due: float | None = None
        self.words = Words()
        self.relayed = RelayedLines({"worker": name})

    @property
    def runs(self) -> bool:
        return self.process is not None


class Supervisor:
    """`run` once, on the main thread."""

    def __init__(
        self,
        edges: int,
        task_of: Callable[[str, dict[str, int]], WorkerTask],
        reloaded: Callable[[], None],
        all_ready: Callable[[Sequence[WorkerReady]], None],
        before_stop: Callable[[], None],
    ) -> None:
        """`task_of` makes the task of a worker, given the ports that the hub has taken; `reloaded` is called when the
        hub has taken over another configuration; `all_ready` once, with what the workers say, the hub's first. If that
        was called, `before_stop` is called, on a thread of its own because it may take its time, and waited for.
        """
        self._hub = Worker(HUB)
        self._edges = [Worker(f"w{number}") for number in range(1, edges + 1)]
        self._task_of = task_of
        self._reloaded = reloaded
        self._all_ready = all_ready
        self._before_stop = before_stop
        self._selector = selectors.DefaultSelector()
        # Signals that have come, and whatever else wakes this thread.
        self._bell, self._rung = socket.socketpair()
        self._signals: list[int] = []
        self._stops_asked = 0
        self._said_ready = False
        # Those that the first hub has taken; the next ones take the same.
        self._hub_ports: dict[str, int] = {}
        # Nobody is replaced any more; what follows is the exit code.
        self._code: int | None = None
        # What comes before the end of the workers.
        self._first: threading.Thread | None = None
        # When those that were told to stop are killed.
        self._deadlines: dict[str, float] = {}
        # Levels of the log that were set while the server ran.
        self._levels: dict[str, str] = {}
        # For every hub, those that come later as well.
        self._given_up: list[WorkerGivenUp] = []

    @property
    def _workers(self) -> list[Worker]:
        return [self._hub, *self._edges]

    # -- its life -------------------------------------------------------------------------------------------------

    def run(self) -> int:
        """Until it is told to stop, or the hub cannot be had; the exit code of the server."""
        self._bell.setblocking(False)
        self._rung.setblocking(False)
        self._selector.register(self._rung, selectors.EVENT_READ, self._woken)
        signal.set_wakeup_fd(self._bell.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, self._signalled)
        try:
            self._start(self._hub)
            while not self._is_over():
                self._step()
        finally:
            self._kill_all()
            signal.set_wakeup_fd(-1)
            self._selector.close()
            self._bell.close()
            self._rung.close()
        if self._code == 0:
            log.info("stopped")
        return self._code or 0

    def _step(self) -> None:
        for key, _ in self._selector.select(self._patience()):
            key.data()
        for worker in self._workers:
            if worker.process is not None and worker.process.poll() is not None:
                self._ended(worker)
        while self._signals:
            self._obey(self._signals.pop(0))
        if self._code is None:
            self._go_on()
        else:
            self._wind_down()

    def _patience(self) -> float | None:
        """Seconds until something is due."""
        times = [worker.due for worker in self._workers if worker.due is not None]
        times += self._deadlines.values()
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _go_on(self) -> None:
        now = time.monotonic()
        for worker in self._workers:
            if worker.due is not None and worker.due <= now:
                self._start(worker)
        if self._hub.ready is not None:
            for edge in self._edges:
                if not edge.runs and not edge.started:
                    self._start(edge)
        if not self._said_ready and all(worker.ready is not None for worker in self._workers):
            self._said_ready = True
            self._all_ready([worker.ready for worker in self._workers if worker.ready is not None])

    # -- signals --------------------------------------------------------------------------------------------------

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self._signals.append(number)

    def _woken(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._rung.recv(PIECE)

    def _obey(self, number: int) -> None:
        if number == signal.SIGHUP:
            reopen()
            # Edges follow when the hub has accepted it.
            self._reload(self._hub)
        elif number in (signal.SIGTERM, signal.SIGINT):
            self._stops_asked += 1
            if self._stops_asked > 1:
                log.warning("stopped immediately")
                self._code = 1
                self._first = None
                self._kill_all()
            else:
                self._stop(0)

    def _reload(self, worker: Worker) -> None:
        """Now, or when it is ready: one that is starting would be ended by the signal."""
        worker.reload_due = worker.ready is None
        if worker.ready is not None:
            self._send_signal(worker, signal.SIGHUP)

    @staticmethod
    def _send_signal(worker: Worker, number: int) -> None:
        if worker.process is not None:
            worker.process.send_signal(number)

    # -- workers --------------------------------------------------------------------------------------------------

    def _start(self, worker: Worker) -> None:
        """Never by a fork alone: the child has nothing of this process but the two sockets."""
        worker.due = None
        worker.started = time.monotonic()
        worker.ready = worker.reason = None
        worker.words = Words()
        worker.relayed = RelayedLines({"worker": worker.name})
        control, theirs = socket.socketpair()
        lines, out = socket.socketpair()
        with theirs, out:
            try:
                worker.process = subprocess.Popen(
                    [*COMMAND, worker.name, str(theirs.fileno()), str(out.fileno())],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno(), out.fileno()],
                    # So that Ctrl-C reaches them through us, in order.
                    start_new_session=True,
                )
            except OSError as error:
                control.close()
                lines.close()
                self._bury(worker, {"reason": f"no process for it: {error.strerror}"})
                return
        worker.control, worker.lines = control, lines
        self._tell(worker, self._complete(self._task_of(worker.name, self._hub_ports)))
        for each, read in ((control, self._hear), (lines, self._write_lines)):
            each.setblocking(False)
            self._selector.register(each, selectors.EVENT_READ, partial(read, worker))

    def _complete(self, task: WorkerTask) -> WorkerTask:
        """With what has happened while the server ran."""
        return replace(task, levels=self._levels, given_up=self._given_up)

    def _tell(self, worker: Worker, word: Word) -> None:
        # One that has just died cannot be told.
        if worker.control is not None:
            with contextlib.suppress(OSError):
                worker.control.sendall(written(word))

    def _hear(self, worker: Worker) -> None:
        assert worker.control is not None
        data = _read(worker.control)
        if data is None:
            return
        if not data:
            self._selector.unregister(worker.control)
            worker.control.close()
            worker.control = None
            return
        for word in worker.words.feed(data):
            self._take(worker, word)

    def _take(self, worker: Worker, word: Word) -> None:
        match word:
            case WorkerReady():
                worker.ready = word
                worker.failures = 0
                if worker.is_hub:
                    self._hub_ports = word.ports
                if worker.reload_due:
                    self._reload(worker)
                if self._said_ready:
                    log.info("worker replaced", worker=worker.name, pid=_pid(worker))
            case WorkerFailed():
                worker.reason = word.reason
            case ReloadDone():
                self._reloaded()
                for edge in self._edges:
                    self._reload(edge)
            case LevelSet(category, level):
                self._levels.pop(category, None)
                if level is not None:
                    self._levels[category] = level
                for other in self._workers:
                    if other is not worker:
                        self._tell(other, word)
            case StopAsked():
                self._stop(0)

    def _write_lines(self, worker: Worker) -> None:
        assert worker.lines is not None
        data = _read(worker.lines)
        if data is None:
            return
        if not data:
            self._selector.unregister(worker.lines)
            worker.lines.close()
            worker.lines = None
            return
        write_relayed(worker.relayed.feed(data))

    def _ended(self, worker: Worker) -> None:
        assert worker.process is not None
        code = worker.process.returncode
        self._read_to_end(worker)
        worker.process = None
        self._deadlines.pop(worker.name, None)
        if self._code is not None:
            return
        if worker.reason is not None and not self._said_ready:
            # What keeps a server of one process from starting keeps this one as well.
            log.error("cannot start", reason=worker.reason)
            self._stop(1)
            return
        self._bury(worker, {"reason": worker.reason} if worker.reason is not None else {"ended": _ended(code)})

    def _bury(self, worker: Worker, why: dict[str, str]) -> None:
        """It has died, or did not come to life: start it again, or give it up."""
        if time.monotonic() - worker.started >= WELL:
            worker.deaths = 0
        if worker.ready is None:
            worker.failures += 1
        if worker.failures >= MAX_STARTS:
            log.error(
                "worker cannot be started, no further attempts", worker=worker.name, starts=worker.failures, **why
            )
            if worker.is_hub or not self._said_ready:
                self._stop(1)
                return
            given_up = WorkerGivenUp(worker.name, time.time())
            self._given_up.append(given_up)
            self._tell(self._hub, given_up)
            return
        pause = PAUSES[min(worker.deaths, len(PAUSES) - 1)]
        worker.deaths += 1
        worker.due = time.monotonic() + pause
        log.error("worker ended and is replaced", worker=worker.name, **why, next_start_seconds=pause)

    def _read_to_end(self, worker: Worker) -> None:
        """What it has said before it ended; its children may keep the sockets open."""
        for found, read in ((worker.control, self._hear), (worker.lines, self._write_lines)):
            if found is None:
                continue
            while found.fileno() >= 0 and _has_more(found):
                read(worker)
            if found.fileno() >= 0:
                self._selector.unregister(found)
                found.close()
        worker.control = worker.lines = None

    # -- the end --------------------------------------------------------------------------------------------------

    def _stop(self, code: int) -> None:
        if self._code is not None:
            return
        self._code = code
        for worker in self._workers:
            worker.due = None
        if self._said_ready:
            self._first = threading.Thread(target=self._do_before_stop, name="before stop", daemon=True)
            self._first.start()

    def _do_before_stop(self) -> None:
        try:
            self._before_stop()
        finally:
            with contextlib.suppress(OSError):
                self._bell.send(b"!")

    def _wind_down(self) -> None:
        """Edges first, because what their clients still do needs the hub."""
        if self._first is not None:
            # It rings when it is done.
            self._first.join(0.01)
            if self._first.is_alive():
                return
            self._first = None
        waiting = [edge for edge in self._edges if edge.runs]
        grace = EDGE_GRACE
        if not waiting:
            waiting, grace = [self._hub] if self._hub.runs else [], HUB_GRACE
        now = time.monotonic()
        for worker in waiting:
            if worker.name not in self._deadlines:
                self._send_signal(worker, signal.SIGTERM)
                self._deadlines[worker.name] = now + grace
            elif self._deadlines[worker.name] <= now:
                log.error("worker did not stop in time, killed", worker=worker.name, seconds=grace)
                self._send_signal(worker, signal.SIGKILL)
                self._deadlines[worker.name] = now + grace

    def _is_over(self) -> bool:
        return self._code is not None and self._first is None and not any(each.runs for each in self._workers)

    def _kill_all(self) -> None:
        for worker in self._workers:
            if worker.process is not None:
                worker.process.kill()
                worker.process.wait()
                self._read_to_end(worker)
                worker.process = None


def _read(found: socket.socket) -> bytes | None:
    """None: there is nothing now; empty: there will be no more."""
    try:
        return found.recv(PIECE)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _has_more(found: socket.socket) -> bool:
    try:
        return bool(found.recv(1, socket.MSG_PEEK))
    except OSError:
        return False


def _pid(worker: Worker) -> int:
    assert worker.process is not None
    return worker.process.pid


def _ended(code: int) -> str:
    """In plain words."""
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"
