"""A server process with adapter sets of a configuration file, which a test may change and have read again.

The adapters are in a file next to the configuration, as users have them.
"""

from __future__ import annotations

import signal
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.command import PORTS
from tests.support.forge import Forked
from tests.support.process import READY
from tests.support.raw import TIMEOUT, Exchange

FEED = '''
import asyncio
import socket
import threading
from pathlib import Path

from penstock.adapters import DataAdapter, MetadataAdapter


class Echo(DataAdapter):
    """Every item has the same text."""

    def __init__(self, text: str, stopped: Path | None = None) -> None:
        self.text = text
        self.stopped = stopped

    def subscribe(self, item: str) -> None:
        self.update(item, {"text": f"{self.text} {item}"}, snapshot=True)

    def unsubscribe(self, item: str) -> None:
        if self.stopped:
            with self.stopped.open("a") as file:
                file.write(f"{item} ")

    def stop(self) -> None:
        if self.stopped:
            with self.stopped.open("a") as file:
                file.write("stopped")


class Remote(Echo):
    """Needs somebody who listens on a port."""

    def __init__(self, port: int) -> None:
        super().__init__("remote")
        self.port = port

    def start(self) -> None:
        self.connection = socket.create_connection(("127.0.0.1", self.port))


class Refusing(DataAdapter):
    def start(self) -> None:
        raise OSError("the feed is away")


class Unmakable(DataAdapter):
    def __init__(self) -> None:
        raise ValueError("no such market")


class Patient(DataAdapter):
    async def start(self) -> None:
        await asyncio.Event().wait()


class Stuck(Echo):
    """Never comes back from one of its methods."""

    def __init__(self, call: str) -> None:
        super().__init__("stuck")
        self.call = call

    def subscribe(self, item: str) -> None:
        super().subscribe(item)
        self.wait("subscribe")

    def stop(self) -> None:
        self.wait("stop")

    def wait(self, call: str) -> None:
        if call == self.call:
            threading.Event().wait()


class Closed(MetadataAdapter):
    def start(self) -> None:
        raise OSError("no users")


class Witness(MetadataAdapter):
    """Writes down whose sessions end."""

    def __init__(self, file: Path, version: int = 1) -> None:
        self.file = file

    def session_closed(self, session) -> None:
        with self.file.open("a") as file:
            file.write(f"{session.user} has gone\\n")

    def stop(self) -> None:
        with self.file.open("a") as file:
            file.write("stopped\\n")


class Slow(MetadataAdapter):
    """Lets nobody in before the other end of a connection has closed."""

    def __init__(self, port: int, version: int = 1) -> None:
        self.port = port

    async def authenticate(self, user, password, client) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        await reader.read()
        writer.close()
'''

ECHO = '[adapters.{name}.data.DEFAULT]\nadapter = "feed:Echo"\nparameters = {{ text = "{text}" }}\n'


def echo(name: str, text: str) -> str:
    return ECHO.format(name=name, text=text)


class Process:
    """`penstock serve` started elsewhere than where its configuration is; its log is read line by line."""

    def __init__(self, directory: Path, content: str, *options: str) -> None:
        self.configuration = directory / "conf" / "penstock.toml"
        self.configuration.parent.mkdir(exist_ok=True)
        (self.configuration.parent / "feed.py").write_text(FEED)
        self.configuration.write_text(content)
        self._process = Forked(["serve", "--config", str(self.configuration), *PORTS, *options], directory)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()

    def ready(self) -> Exchange:
        match = READY.match(self._process.stdout.readline())
        assert match is not None, self.errors()
        return Exchange(match[1], int(match[2]))

    def log_until(self, text: str) -> str:
        """The next line of the log with this text."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if text in line:
                return line
        raise AssertionError(f"the log has ended without {text!r}")

    def reload(self, content: str) -> None:
        self.configuration.write_text(content)
        self._process.send_signal(signal.SIGHUP)

    def errors(self) -> str:
        return self._process.communicate(timeout=TIMEOUT)[1]

    def stop(self) -> tuple[int, str]:
        """Exit code, and what is left of the log."""
        self._process.send_signal(signal.SIGTERM)
        errors = self.errors()
        return self._process.wait(), errors
