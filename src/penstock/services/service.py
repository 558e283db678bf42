"""A service: a part of the server that is opened, drained and closed. Doors, adapter sets and the journal are services.

A service may also take part in what the server does as a whole: it has a default for all of that. Who calls these
methods, and in which order, is in `stack`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from penstock.config.address import address_of

if TYPE_CHECKING:
    from fastapi import FastAPI

    from penstock.certificates import Certificate, CertificateFiles
    from penstock.config import Config
    from penstock.monitor.figures import Family
    from penstock.transport.http import HttpConnection
    from penstock.wire.http1 import HttpRequest

# Makes a WebSocket of a connection to the API port; raises HttpError if the request is for none that is here.
TakeOver: TypeAlias = "Callable[[HttpConnection, HttpRequest], None]"


class Shown(NamedTuple):
    """A certificate that a listener presents, and the files to read it from; None: the same as before."""

    listener: str
    certificate: Certificate
    files: CertificateFiles | None


class Listening(NamedTuple):
    """A listener for HTTP that is open: the name of its table in the configuration, and where it is."""

    name: str
    host: str
    port: int
    tls: bool

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{address_of(self.host, self.port)}"


class Service:
    """Everything has a default: a service overrides what it needs."""

    # Names the service where it fails.
    name: str

    # Keys of the configuration that name files of certificates: a reload reads these again, under another name as well.
    # Whether there are any stays as it was at the start.
    renewed: frozenset[str] = frozenset()

    # -- its life cycle -------------------------------------------------------------------------------------------

    async def check(self) -> list[str]:
        """Raise what `open` would raise, if that can be known without side effects; for `penstock config check`.

        Returns what is wrong and would not keep the server from starting.
        """
        return []

    async def open(self) -> None:
        """Begin. Raises StartError, or what `start_errors` makes one of; in either case nothing is left open."""

    async def drain(self) -> None:
        """Accept nothing new, and finish pending work. All that was opened before this is still there."""

    async def close(self) -> None:
        """Release everything; called after `drain`, and after everything that was opened later has been closed."""

    # -- its part in the server -----------------------------------------------------------------------------------

    def failures(self) -> list[str]:
        """What the server needs and does not have; /ready answers 503 with these names."""
        return []

    def degradations(self) -> list[str]:
        """What is wrong while the server does its work; /ready names it."""
        return []

    def figures(self) -> Iterable[Family]:
        """What it counts and measures, for /metrics and whoever else looks into the server; quick, and at any time."""
        return ()

    def addresses(self) -> list[str]:
        """Where it can be reached, each as `name=address`, for the line that says that the server is ready."""
        return []

    def listeners(self) -> list[Listening]:
        """Those for HTTP that it has opened."""
        return []

    def certificates(self, config: Config) -> list[Shown]:
        """Those that its listeners show, to be read again from where this configuration says."""
        return []

    def mount(self, application: FastAPI) -> None:
        """Add its routes to the application of the API port."""

    def take_over(self) -> TakeOver | None:
        """What makes its WebSockets at the API port, if it has any there."""
        return None
