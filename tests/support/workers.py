"""Servers of one process that hand connections over to one another, each on a thread with a loop of its own.

As far as clients can tell they are workers of one server; a test chooses by the port which one accepts a connection.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from penstock.adapters import AdapterSet
from penstock.adapters.demo import demo_sets
from penstock.server import Server
from penstock.transport.neighbours import Neighbours
from tests.support.background import BackgroundServer
from tests.support.raw import Exchange
from tests.support.tls import trusting_context


class Worker(BackgroundServer):
    """One of them. Half of them run on asyncio's own loop, half on uvloop."""

    def __init__(self, name: str, directory: Path, overrides: Mapping[str, object], file: Path | None = None) -> None:
        super().__init__({"server.node": name, **overrides}, file)
        self.name = name
        self._directory = directory

    def make(self) -> Server:
        sets = [AdapterSet("TEST", self.metadata, self.adapters()), *demo_sets(seed=7)]
        return Server(self.config, sets, hand_directory=self._directory)

    def _run(self) -> None:
        if self.name.endswith("a"):
            try:
                asyncio.run(self._serve())
            except BaseException as failure:
                self._failure = failure
                self._started.set()
        else:
            super()._run()

    @property
    def neighbours(self) -> Neighbours:
        found = self.server.stream.neighbours
        assert found is not None
        return found

    @property
    def exchange(self) -> Exchange:
        return Exchange(self.host, self.port)

    @property
    def secure_exchange(self) -> Exchange:
        return Exchange(self.host, self.tls_port, trusting_context())


class Workers:
    """Used as a context manager; `names` are those of the workers."""

    def __init__(
        self,
        names: tuple[str, ...] = ("w1", "w2a"),
        overrides: Mapping[str, object] | None = None,
        file: Path | None = None,
    ) -> None:
        self._stack = ExitStack()
        # Not pytest's folder: paths of Unix sockets are short.
        self.directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="hand-")))
        self.all = [Worker(name, self.directory, overrides or {}, file) for name in names]

    def __enter__(self) -> Self:
        for worker in self.all:
            self._stack.enter_context(worker)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


def open_descriptors() -> int:
    """Of this process."""
    return len(os.listdir("/proc/self/fd"))
