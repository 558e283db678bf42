"""Certificates that are replaced while the server runs: read again on a reload, and when their files have changed.

Nobody who is connected notices; each handshake takes what was read last. How that is done is in `certificates`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable, Sequence

from penstock.certificates import Certificate
from penstock.config import Config
from penstock.log import get
from penstock.services.service import Service, Shown

log = get(__name__)

# Seconds between two looks at the files.
EVERY = 2.0

# When a file was last changed, how long it is, and which one it is; None where there is none.
Trace = tuple[tuple[int, int, int] | None, ...]


class FileWatch:
    """Which certificates have new files. `look` now and then: what has changed is due when it has come to rest.

    A certificate and its key are two files: between two looks the one may be there without the other.
    """

    def __init__(self) -> None:
        # By certificate: what was there when it was last due, and at the last look.
        self._known: dict[Certificate, tuple[Trace, Trace]] = {}

    def look(self, certificates: Iterable[Certificate]) -> list[Certificate]:
        """Those whose files are others than when they were last due, and the same as at the last look."""
        before, self._known = self._known, {}
        due: list[Certificate] = []
        for certificate in certificates:
            now = _trace(certificate)
            settled, last = before.get(certificate, (now, now))
            if now != settled and now == last:
                due.append(certificate)
                settled = now
            self._known[certificate] = settled, now
        return due


def _trace(certificate: Certificate) -> Trace:
    files = certificate.files
    # A list first: whoever walks over all objects of the process can see a tuple half-made by a generator, and Python
    # refuses to finish it then.
    return tuple([_file_trace(name) for name in (files.certificate, files.private_key, files.authorities) if name])


def _file_trace(name: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(name)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


async def renew(found: Iterable[Shown]) -> None:
    """Read these again. One that is refused leaves the others alone: each listener has a right one, new or old."""
    for listener, certificate, files in found:
        try:
            is_new = await asyncio.to_thread(certificate.renew, files)
        except (OSError, ValueError) as error:
            # An error of TLS is an OSError, and adapters name a wrong parameter with a ValueError.
            log.error("certificate rejected, the old one stays", listener=listener, reason=str(error))
        else:
            if is_new:
                log.info("certificate read again", listener=listener, file=certificate.files.certificate)


class RenewalService(Service):
    """Looks at the files of all services' certificates while the server runs."""

    name = "renewal"

    def __init__(self, config: Config, others: Callable[[], Sequence[Service]]) -> None:
        self._config = config
        self._others = others
        self._watch = FileWatch()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        # Before anybody is told that the server is ready: what is replaced from then on is noticed.
        await self._look()
        self._task = asyncio.get_running_loop().create_task(self._look_often())

    async def drain(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _look_often(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            await self._look()

    async def _look(self) -> None:
        # The files may have other names since a reload: each certificate knows its own.
        shown = [each for service in self._others() for each in service.certificates(self._config)]
        if shown:
            due = await asyncio.to_thread(self._watch.look, [each.certificate for each in shown])
            await renew([Shown(each.listener, each.certificate, None) for each in shown if each.certificate in due])
