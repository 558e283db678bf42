"""A PostgreSQL of one's own: real, in a directory of its own, reached by a socket file, so that no port is needed.

Nothing is kept: it need not survive a crash of the machine, and is the faster for it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

# Where Debian has what is not on everybody's path.
DEBIAN = Path("/usr/lib/postgresql")

# Seconds. It starts in less than one.
PATIENCE = 60.0

SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "off",
    "shared_buffers": "16MB",
    "max_connections": "30",
}


class Postgres:
    """A context manager. `stop` and `start` are a restart of the database under a server that goes on."""

    def __init__(self) -> None:
        # Not below pytest's own directories: the path of a socket file may have 107 bytes.
        self._directory = Path(tempfile.mkdtemp(prefix="pg-"))
        self._user = _other_user()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Of a database that is always there."""
        return f"postgresql+psycopg://penstock@/postgres?host={quote(str(self._directory))}"

    def other(self, name: str) -> str:
        """The URL of a new database beside it."""
        import psycopg

        with psycopg.connect(host=str(self._directory), user="penstock", dbname="postgres", autocommit=True) as made:
            made.execute(f'CREATE DATABASE "{name}"'.encode())
        return self.url.replace("/postgres?", f"/{name}?")

    def __enter__(self) -> Postgres:
        if self._user is not None:
            os.chown(self._directory, pwd.getpwnam(self._user).pw_uid, -1)
        self._run("initdb", "--username=penstock", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync")
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self._directory)

    def start(self) -> None:
        """Until it answers."""
        settings = [f"-c{name}={value}" for name, value in SETTINGS.items()]
        command = [_program("postgres"), "-D", str(self._data), "-k", str(self._directory), *settings]
        with open(self._directory / "log", "ab") as log:
            self._process = subprocess.Popen(command, user=self._user, cwd=self._directory, stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            assert self._process.poll() is None, self._log()
            assert time.monotonic() < deadline, self._log()

    def stop(self) -> None:
        """At once: clients are cut off."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(PATIENCE)
            self._process = None

    def kill(self) -> None:
        """As in a crash: it recovers from its log at the next start."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(PATIENCE)
            self._process = None

    def freeze(self) -> None:
        """All of its processes: the first makes no more of them."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        assert self._process is not None
        pid = self._process.pid
        self._process.send_signal(number)
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(child), number)

    @property
    def _data(self) -> Path:
        return self._directory / "data"

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(host=str(self._directory), user="penstock", dbname="postgres").close()
        except psycopg.OperationalError:
            return False
        return True

    def _run(self, program: str, *options: str) -> None:
        command = [_program(program), "-D", str(self._data), *options]
        done = subprocess.run(command, user=self._user, cwd=self._directory, capture_output=True, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()

    def _log(self) -> str:
        return (self._directory / "log").read_text("utf-8", "replace")


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        versions = sorted(DEBIAN.glob(f"*/bin/{name}"), key=lambda each: float(each.parts[-3]))
        assert versions, f"{name} of PostgreSQL is needed for this test (make system-setup)"
        found = str(versions[-1])
    return found


def _other_user() -> str | None:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    names = {each.pw_name for each in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
