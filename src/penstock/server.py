"""The one place that wires everything: configuration to kernel, adapters, doors and the event loop, and the way down
again.

No rules of streaming and no protocol here.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import functools
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Set
from dataclasses import fields
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, Protocol

from penstock import BUILD, __version__
from penstock.adapters.api import AdapterSet, DataAdapter
from penstock.adapters.authority import SetAuthority, forget_names
from penstock.adapters.demo import demo_sets
from penstock.adapters.demo.token import kept_token
from penstock.adapters.ingest import ingest_routes
from penstock.adapters.loading import Loader, Plan
from penstock.adapters.outlive import run_to_end
from penstock.adapters.roster import Roster
from penstock.adapters.running import RunningSet, StartFailure
from penstock.adapters.tlex import Board, introduced
from penstock.adapters.watchdog import Watchdog
from penstock.certificates import Certificate, CertificateFiles
from penstock.collector import give_back, settle
from penstock.config import Config, ConfigError, Loaded
from penstock.config.checks import DEMO_SETS, EVERY_INTERFACE, serves_ditto
from penstock.config.keys import all_keys, value_of
from penstock.doors.reception import OpenSet, Reception
from penstock.doors.stream.door import StreamDoor
from penstock.doors.stream.door import certificate_files as stream_files
from penstock.doors.stream.turns import Turns
from penstock.doors.text6.door import Text6Door
from penstock.doors.tlcp.door import TlcpDoor
from penstock.durable import OWNER_FILE, is_open_to_others, keep_to_owner, make_directory
from penstock.kernel.identity import SessionIds
from penstock.kernel.kernel import Kernel
from penstock.kernel.limits import SessionLimits
from penstock.log import configure, get
from penstock.loop import new_loop
from penstock.monitor.api import build_api
from penstock.monitor.health import Answer, answer
from penstock.transport.asgi import AsgiPort
from penstock.transport.descriptors import Shares, limit, raise_limit
from penstock.transport.listener import ListenError

if TYPE_CHECKING:
    from penstock.doors.ditto.door import DittoDoor
    from penstock.doors.tlex.door import TlexDoor
    from penstock.journal.journal import Journal
    from penstock.journal.recorder import Recording

log = get(__name__)

# Seconds that threads of adapters have to end after everything else.
LAST_THREADS = 1.0

# Seconds that requests at the API port have to end when the server stops; a stream may have a reader who reads nothing.
LAST_REQUESTS = 3.0

# Seconds for which events gather that nobody waits for, before they go to the journal.
GATHERING = 0.005

# Seconds between two times that memory which clients have left behind is given back.
TIDY_PAUSE = 60.0

# Seconds between two looks for files of the journal that are past retention.
RETENTION_PAUSE = 60.0


# Names of files that a reload reads again, under another name as well; whether there are any stays as it was.
RENEWED = frozenset(
    {
        "stream.tls.certificate",
        "stream.tls.private_key",
        "stream.tls.client_ca",
        "tlex.certificate",
        "tlex.private_key",
    }
)


class StartError(Exception):
    """The server cannot start; the text is for the person who started it."""


class Beside(Protocol):
    """What runs along with a server: started when that is ready, stopped before it stops."""

    def start(self, api: str) -> None: ...
    def stop(self) -> None: ...


def run(loaded: Loaded, beside: Beside | None = None, *, names_page: bool = False) -> int:
    """Serve until told to stop; returns the exit code of the process. With `names_page` people are told of the page."""
    config = loaded.config
    configure(config.log.level, config.log.format, config.log.max_repeats)
    # Also for what libraries make, such as the database, and for what adapters keep.
    keep_to_owner()
    try:
        raise_limit()
        with data_directory(Path(config.server.data_dir)):
            roster = Roster()
            run_to_end(_serve(loaded, beside, names_page, roster), roster, new_loop)
    except StartError as error:
        log.error("cannot start", reason=str(error))
        return _left(1)
    return _left(0)


def _left(code: int) -> int:
    """The exit code; if adapters keep threads busy, the process ends here, for Python would wait for them for ever."""
    deadline = time.monotonic() + LAST_THREADS
    busy = [thread for thread in threading.enumerate() if not thread.daemon and thread is not threading.main_thread()]
    for thread in busy:
        thread.join(max(0.0, deadline - time.monotonic()))
    if left := [thread.name for thread in busy if thread.is_alive()]:
        log.warning("threads are still busy and left behind", threads=left)
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


async def _serve(loaded: Loaded, beside: Beside | None, names_page: bool, roster: Roster) -> None:
    stopped = asyncio.Event()
    reload_asked = asyncio.Event()
    loop = asyncio.get_running_loop()
    _handle_signals(loop, stopped, reload_asked)
    data_dir = Path(loaded.config.server.data_dir)
    server = Server(loaded.config, [], Loader(loaded.directory, loaded.place), data_dir, roster)
    if not await _start_unless(server, stopped):
        log.info("stopped before it was ready")
        return
    reloads = loop.create_task(_reload_when_asked(server, loaded, reload_asked))
    settle()
    log.info("started", version=__version__, build=str(BUILD))
    if names_page:
        print(server.page_line(), flush=True)
    print(server.ready_line(), flush=True)
    if beside is not None:
        beside.start(server.api_address)
    await stopped.wait()
    if beside is not None:
        await asyncio.to_thread(beside.stop)
    reloads.cancel()
    await asyncio.wait([reloads])
    log.info("stopping", sessions=len(server.kernel.sessions))
    await server.stop()
    log.info("stopped")


def _handle_signals(loop: asyncio.AbstractEventLoop, stopped: asyncio.Event, reload_asked: asyncio.Event) -> None:
    """SIGTERM and SIGINT stop the server, a second one at once; SIGHUP reads the configuration again.

    Not by `loop.add_signal_handler`: that waits for the loop's next turn, which may never come when an adapter blocks
    it, and loses signals in the moment after an adapter has stopped the loop (adapters/outlive.py).
    """
    signals = 0

    def tell(event: asyncio.Event) -> None:
        # On the way down the loop may be closed.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(event.set)

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal signals
        signals += 1
        if signals > 1:
            # The log may be in the middle of a line: then it is not entered again.
            with contextlib.suppress(RuntimeError):
                log.warning("stopped at once")
            os._exit(1)
        tell(stopped)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    signal.signal(signal.SIGHUP, lambda number, frame: tell(reload_asked))


async def _start_unless(server: Server, stopped: asyncio.Event) -> bool:
    """Start the server; False if it is told to stop before that is done: adapters may take their time to start."""
    loop = asyncio.get_running_loop()
    start, stop = loop.create_task(server.start()), loop.create_task(stopped.wait())
    await asyncio.wait([start, stop], return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    if not start.done():
        start.cancel()
        await asyncio.wait([start])
        return False
    await start
    return True


async def _reload_when_asked(server: Server, loaded: Loaded, asked: asyncio.Event) -> None:
    while True:
        await asked.wait()
        asked.clear()
        try:
            found = await asyncio.to_thread(loaded.again)
            await server.reload(found.config)
        except ConfigError as error:
            log.error("configuration refused, everything stays as it is", reason=str(error))
        except Exception:
            log.exception("reload failed")


class Server:
    """A whole server inside a running event loop; tests start it without a process."""

    def __init__(
        self,
        config: Config,
        sets: list[AdapterSet],
        loader: Loader | None = None,
        data_dir: Path | None = None,
        roster: Roster | None = None,
    ) -> None:
        """`sets` are there for good; with a loader those of the configuration are served as well.

        Without a data directory nothing is journaled or kept, whatever the configuration says. Whoever wants to know of
        adapters what the server knows gives a `roster`.
        """
        self.config = config
        # What goes into the journal goes through here; None until it is open, and without one.
        self.recording: Recording | None = None
        self._data_dir = data_dir
        self._roster = roster or Roster()
        self._watchdog: Watchdog | None = None
        self._retention: asyncio.Task[None] | None = None
        self._tidying: asyncio.Task[None] | None = None
        self.turns = Turns(asyncio.get_running_loop())
        ids = SessionIds(config.server.node, os.urandom)
        self.kernel = Kernel(time.monotonic, self.turns, ids, session_limits(config))
        self.turns.run_kernel(self.kernel)
        self._given = sets
        self._loader = loader
        self._running: dict[str, RunningSet] = {}
        # What each set of the configuration was made from, and those that a reload is about to start.
        self._tables: dict[str, object] = {}
        self._coming: dict[str, asyncio.Task[None]] = {}
        # Sets that a reload could not start.
        self._broken: set[str] = set()
        # The doors see what is in here, and nothing that is not.
        self._open_sets: dict[str, OpenSet] = {}
        reception = Reception(config, self.kernel, self._open_sets)
        self.tlcp = TlcpDoor(reception)
        self._shares = Shares.of(config, limit())
        self.stream = StreamDoor(config, self.turns, self.tlcp, Text6Door(reception), self.health, self._shares.stream)
        # Open while the server runs, if it is enabled; adapters see it on the board.
        self.tlex: TlexDoor | None = None
        self._tlex_board = Board(config.tlex.enabled)
        # Open while the server runs, if the configuration says so and there is a journal.
        self.ditto: DittoDoor | None = None
        # Open while the server runs.
        self.api: AsgiPort | None = None
        self._ready = False

    def is_ready(self) -> bool:
        return self._ready and not self.stream.stopping

    def health(self) -> Answer:
        """What /health answers; reasons stay in the log, for anybody may ask."""
        failed, degraded = [], [f"adapter set {name}" for name in sorted(self._broken)]
        if self.recording is not None and self.recording.journal.trouble is not None:
            failed.append("journal")
        for member in self._roster.members():
            kind = "data adapter" if "/" in member.label else "metadata adapter"
            if member.has_failed and not member.optional:
                failed.append(f"{kind} {member.label}")
            elif member.trouble is not None:
                degraded.append(f"{kind} {member.label}")
        if self.tlex is not None and self.tlex.is_database_away:
            degraded.append("tlex database")
        degraded += [f"data adapter {label}" for label in sorted(self._roster.awaited)]
        return answer(self.is_ready(), failed, list(dict.fromkeys(degraded)))

    async def start(self) -> None:
        """Start the adapters, then open the ports; raises StartError with the reason."""
        try:
            await self._open_journal()
            await self._open_ditto()
            self._watch()
            await self._start_sets()
            await self._open_tlex()
            await self.stream.listen()
            await self._start_api()
        except BaseException as error:
            self._stop_watching()
            if self.tlex is not None:
                await self.tlex.stop()
            await self._stop_sets()
            await self._close_ditto()
            await self._close_journal()
            if isinstance(error, ConfigError | StartFailure | ListenError):
                raise StartError(str(error)) from error
            raise
        self._ready = True
        self._tidying = asyncio.get_running_loop().create_task(_tidy())

    def _watch(self) -> None:
        if self.config.server.stall_millis:
            self._watchdog = Watchdog(self._roster, self.config.server.stall_millis / 1000)
            self._watchdog.start()

    def _stop_watching(self) -> None:
        if self._watchdog is not None:
            self._watchdog.stop()
            self._watchdog = None

    # -- the journal ----------------------------------------------------------------------------------------------

    async def _open_journal(self) -> None:
        """Before the adapters, on a thread: recovery may take its time."""
        if self._data_dir is None or not self.config.journal.enabled:
            return
        loop = asyncio.get_running_loop()
        opening = loop.run_in_executor(None, open_journal, self._data_dir / "journal", self.config)
        try:
            journal = await asyncio.shield(opening)
        except asyncio.CancelledError:
            await asyncio.to_thread((await opening).close)
            raise
        from penstock.journal.recorder import Recording  # loaded with the journal, on its thread

        later = functools.partial(loop.call_later, GATHERING)
        self.recording = Recording(journal, loop.call_soon, lambda: time.time_ns() // 1000, later)
        self._retention = loop.create_task(self._retain(journal, self._data_dir / "lake"))

    async def _retain(self, journal: Journal, lake: Path) -> None:
        while True:
            await asyncio.sleep(RETENTION_PAUSE)
            try:
                if self.ditto is not None:
                    # Its state is to be newer than all that is dropped.
                    await self.ditto.save()
                dropped = await asyncio.to_thread(drop_expired, journal, lake, self.config)
            except Exception:
                # Whatever is wrong with the lake or the disk: everything is kept until it is right again.
                log.exception("journal retention failed, everything is kept")
            else:
                if dropped:
                    log.info("journal dropped segments past retention", segments=len(dropped))

    async def _close_journal(self) -> None:
        if self._retention is not None:
            self._retention.cancel()
            await asyncio.wait([self._retention])
            self._retention = None
        if self.recording is not None:
            self.recording.flush()
            await asyncio.to_thread(self.recording.journal.close)
            self.recording = None

    async def _open_tlex(self) -> None:
        if not self.config.tlex.enabled:
            return
        from penstock.doors.tlex.door import DoorError, TlexDoor  # takes its time to load, and not all want it

        try:
            self.tlex = await TlexDoor.open(
                self.config,
                self._data_dir,
                self._tlex_board,
                self.recording,
                self._shares.tlex_strangers,
                self.kernel.ledger,
            )
        except DoorError as error:
            raise StartError(str(error)) from error

    async def _open_ditto(self) -> None:
        if self.recording is None or self._data_dir is None or not serves_ditto(self.config):
            return
        from penstock.doors.ditto.door import AdapterSets, DittoDoor, DoorError  # loaded with the journal
        from penstock.history.reader import History

        history = History(self._data_dir / "journal", self._data_dir / "lake")
        sets = AdapterSets(self._judge_of, self._has_adapter)
        self.ditto = DittoDoor(
            self.config,
            self.recording,
            history,
            sets,
            lambda: (*self.stream_ports, self.api_port),
            self.kernel.ledger,
        )
        try:
            await self.ditto.open()
        except DoorError as error:
            raise StartError(str(error)) from error

    def _judge_of(self, adapter_set: str) -> SetAuthority | None:
        running = self._running.get(adapter_set)
        return None if running is None else running.authority

    def _has_adapter(self, adapter_set: str, name: str) -> bool:
        """Whether there is such a data adapter, or will be: one that is optional may not be up yet."""
        table = self.config.adapters.get(adapter_set)
        return (table is not None and name in table.data) or self._data_adapter(adapter_set, name) is not None

    async def _close_ditto(self) -> None:
        if self.ditto is not None:
            await self.ditto.close()
            self.ditto = None

    # -- adapter sets ---------------------------------------------------------------------------------------------

    async def _start_sets(self) -> None:
        for adapter_set in self._given:
            await self._open_set(Plan(adapter_set))
        tables = self._configured(self.config)
        for plan in await self._plans(self.config, tables.keys()):
            await self._open_set(plan)
        self._tables = tables
        if self.ditto is not None:
            from penstock.adapters.things import things_set
            from penstock.doors.ditto.door import DoorError

            try:
                self.ditto.check()
            except DoorError as error:
                raise StartError(str(error)) from error
            await self._open_set(Plan(things_set(self.ditto.twins, self.ditto.identity.admission)))

    def _configured(self, config: Config) -> dict[str, object]:
        """The sets of a configuration by name, each with that which it is made from."""
        if self._loader is None:
            return {}
        tables: dict[str, object] = dict(config.adapters)
        if config.demo.enabled:
            tables |= dict.fromkeys(DEMO_SETS, config.demo)
        return tables

    async def _plans(self, config: Config, names: Set[str]) -> list[Plan]:
        """Make the adapters of some sets of a configuration; raises ConfigError."""
        plans = []
        for name, table in config.adapters.items():
            if name in names and self._loader is not None:
                # Imports and constructors take their time, which is not to be that of the sessions.
                plans.append(await asyncio.to_thread(self._loader.load, name, table))
        if config.demo.enabled and not names.isdisjoint(DEMO_SETS):
            token = None if self._data_dir is None else _demo_token(self._data_dir)
            plans += [Plan(one) for one in demo_sets(config.demo.pace, token=token) if one.name in names]
        return plans

    async def _open_set(self, plan: Plan) -> None:
        directory = None if self._data_dir is None else self._data_dir / "items"
        plan = introduced(plan, self._tlex_board)
        running = RunningSet(self.kernel, plan.adapter_set, plan.optional, self.recording, directory, self._roster)
        await running.start()
        self._running[running.name] = running
        self._open_sets[running.name] = OpenSet(running.name, running.authority, running.authority)

    async def _close_set(self, name: str, message: str) -> None:
        """End the sessions of a set and stop its adapters; one that is still starting is given up."""
        del self._tables[name]
        self._broken.discard(name)
        coming = self._coming.pop(name, None)
        if coming is not None:
            coming.cancel()
            await asyncio.wait([coming])
        running = self._running.pop(name, None)
        if running is not None:
            running.retire(message)
            del self._open_sets[name]
            await running.stop()

    async def _stop_sets(self) -> None:
        for running in self._running.values():
            await running.stop()
        self._running.clear()

    async def reload(self, config: Config) -> None:
        """Serve the adapter sets of another configuration; sets that it has as they were go on undisturbed.

        Raises ConfigError before anything has changed. New sets are let in when their adapters have started, which is
        not waited for. TLS listeners show what is in the files of their certificates now. Everything else in the
        configuration needs a restart.
        """
        tables = self._configured(config)
        new = {name: table for name, table in tables.items() if self._tables.get(name) != table}
        plans = await self._plans(config, new.keys())
        gone = [name for name in self._tables if name not in tables]
        self._broken.clear()
        changed = [name for name in self._tables if name in new]
        for name in gone:
            await self._close_set(name, f"The adapter set {name} has been removed")
        for name in changed:
            await self._close_set(name, f"The adapter set {name} has been changed")
        await self._renew_certificates(config)
        for plan in plans:
            name = plan.adapter_set.name
            self._tables[name] = tables[name]
            self._coming[name] = asyncio.get_running_loop().create_task(self._come(plan))
        log.info("configuration reloaded", new=sorted(new.keys() - set(changed)), changed=changed, gone=gone)
        if needs_restart := _fixed_changes(self.config, config):
            log.warning("changes need a restart", keys=needs_restart)

    async def _renew_certificates(self, config: Config) -> None:
        """One that is refused leaves the others alone: each listener has a right certificate, new or old."""
        found: list[tuple[str, Certificate, CertificateFiles | None]] = []
        if self.stream.certificate is not None and config.stream.tls.enabled:
            found.append(("stream.tls", self.stream.certificate, stream_files(config.stream.tls)))
        if self.tlex is not None and self.tlex.certificate is not None and config.tlex.certificate:
            from penstock.doors.tlex.door import certificate_files  # loaded by the door already

            found.append(("tlex", self.tlex.certificate, certificate_files(config.tlex)))
        for running in self._running.values():
            found += [(listener, certificate, None) for listener, certificate in running.certificates()]
        for listener, certificate, files in found:
            try:
                is_new = await asyncio.to_thread(certificate.renew, files)
            except (OSError, ValueError) as error:
                # An error of TLS is an OSError, and adapters name a wrong parameter with a ValueError.
                log.error("certificate refused, the old one stays", listener=listener, reason=str(error))
            else:
                if is_new:
                    log.info("certificate read again", listener=listener, file=certificate.files.certificate)

    async def _come(self, plan: Plan) -> None:
        name = plan.adapter_set.name
        try:
            await self._open_set(plan)
        except StartFailure as failure:
            # Forgotten, so that the next reload tries it again.
            self._tables.pop(name, None)
            self._broken.add(name)
            log.error("adapter set does not start", adapter_set=name, reason=str(failure))
        else:
            log.info("adapter set started", adapter_set=name)
        self._coming.pop(name, None)

    # -- the API port ---------------------------------------------------------------------------------------------

    async def _start_api(self) -> None:
        application = build_api(self.health, [ingest_routes(self._data_adapter, self.is_ready)])
        if self.ditto is not None:
            application.include_router(self.ditto.routes())
        if self.tlex is not None:
            from penstock.doors.tlex.rest import below  # loaded by the door already

            application.router.routes.append(below("/api/v1", self.tlex.rest))
        take_over = None if self.ditto is None else self.ditto.take_over
        self.api = AsgiPort(self.config, application, self._shares.api, self.kernel.ledger, take_over)
        await self.api.listen()

    def _data_adapter(self, adapter_set: str, name: str) -> DataAdapter | None:
        """One of those that are running; for routes of the API port."""
        running = self._running.get(adapter_set)
        return None if running is None else running.data_adapter(name)

    @property
    def stream_ports(self) -> list[int]:
        return self.stream.ports

    @property
    def api_port(self) -> int:
        return 0 if self.api is None else self.api.ports[0]

    @property
    def api_address(self) -> str:
        return f"http://{_address(self.config.api.host, self.api_port)}"

    def page_line(self) -> str:
        """What a person can open in a browser: an address that means "every interface" is none of these."""
        host = "localhost" if self.config.stream.host in EVERY_INTERFACE else self.config.stream.host
        return f"penstock: the page is at http://{_address(host, self.stream_ports[0])}/"

    def ready_line(self) -> str:
        """What tells people and scripts where the server is."""
        stream = [f"stream=http://{_address(self.config.stream.host, self.stream_ports[0])}"]
        if len(self.stream_ports) > 1:
            stream.append(f"tls=https://{_address(self.config.stream.host, self.stream_ports[1])}")
        others = [] if self.tlex is None else [f"tlex={_address(self.config.tlex.host, self.tlex.port)}"]
        return "  ".join(["penstock: ready", *stream, f"api={self.api_address}", *others])

    async def stop(self) -> None:
        """Ask every client to bind again, close the ports, stop the adapters."""
        if self._tidying is not None:
            self._tidying.cancel()
        tlex = asyncio.sleep(0) if self.tlex is None else self.tlex.stop()
        await asyncio.gather(self.stream.stop(self.kernel.stop), tlex)
        self.turns.stop()
        for name in list(self._coming):
            await self._close_set(name, "")
        await self._stop_sets()
        if self.ditto is not None:
            self.ditto.retire()
        if self.api is not None:
            await self.api.stop(LAST_REQUESTS)
        await self._close_ditto()
        await self._close_journal()
        self._stop_watching()


async def _tidy() -> None:
    """Clients come and go, some with very many items: what they leave behind is given back now and then."""
    while True:
        await asyncio.sleep(TIDY_PAUSE)
        forget_names()
        if not await asyncio.to_thread(give_back):
            return


def session_limits(config: Config) -> SessionLimits:
    """The kernel's limits carry the names of the configuration's keys."""
    known = {field.name for field in fields(SessionLimits)}
    found = {}
    for section in (config.session, config.limits):
        found.update({name: getattr(section, name) for name in section.__struct_fields__ if name in known})
    return SessionLimits(**found)


def _fixed_changes(old: Config, new: Config) -> list[str]:
    """Keys of other values than before that only a restart brings to bear."""
    return [
        key
        for key in all_keys()
        if not key.startswith("demo.")
        and value_of(old, key) != value_of(new, key)
        and not (key in RENEWED and value_of(old, key) and value_of(new, key))
    ]


@contextlib.contextmanager
def data_directory(path: Path) -> Iterator[IO[str]]:
    """Make the data directory and hold it: a second process on the same one does not start."""
    try:
        make_directory(path)
        lock = os.fdopen(os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, OWNER_FILE), "r+")
        if is_open_to_others(path):
            log.warning("others may look into the data directory; if they need not: chmod 700", data_dir=str(path))
    except OSError as error:
        raise StartError(f"the data directory {path} cannot be used: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StartError(f"the data directory {path} is in use by another penstock process") from None
        yield lock


def check_data_directory(path: Path) -> None:
    """Raise StartError if it could not be made or written in. That another process holds it is no fault of it."""
    found = path
    while not found.exists() and found != found.parent:
        found = found.parent
    problem = None
    if not found.is_dir():
        problem = errno.EEXIST if found == path else errno.ENOTDIR
    elif not os.access(found, os.W_OK | os.X_OK):
        problem = errno.EACCES
    if problem is not None:
        raise StartError(f"the data directory {path} cannot be used: {os.strerror(problem)}")


def open_journal(path: Path, config: Config) -> Journal:
    """Recover and begin; raises StartError. Blocks: not for a loop."""
    from penstock.journal.errors import DirectoryInUse, JournalError  # takes its time to load, and not all want it
    from penstock.journal.journal import Journal, Settings

    journal = config.journal
    settings = Settings(
        segment_bytes=journal.segment_bytes,
        segment_seconds=journal.segment_seconds,
        interval_millis=journal.interval_millis,
        queue_bytes=journal.queue_bytes,
    )
    try:
        return Journal(path, settings)
    except DirectoryInUse:
        raise StartError(
            f"the journal {path} is being written by another process; stop that, or take another data_dir"
        ) from None
    except JournalError as error:
        raise StartError(f"the journal {path} cannot be opened: {error}") from error
    except OSError as error:
        raise StartError(f"the journal {path} cannot be opened: {error.strerror or error}") from error


def drop_expired(journal: Journal, lake: Path, config: Config) -> list[int]:
    """Drop files of the journal that are past retention and that the lake has. Blocks: not for a loop."""
    from penstock.history import lake_sequence  # takes its time to load, and not all have a lake
    from penstock.journal.retention import Retention

    hours, size = config.journal.max_age_hours, config.journal.max_bytes
    if not hours and not size:
        return []
    return journal.retain(Retention(hours * 3600 if hours else None, size or None), lake_sequence(lake))


def _demo_token(data_dir: Path) -> str:
    path = data_dir / "pipeline" / "token"
    try:
        return kept_token(path)
    except OSError as error:
        raise StartError(f"the pipeline's token {path} cannot be kept: {error.strerror}") from error


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
