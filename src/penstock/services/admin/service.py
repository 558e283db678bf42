"""Administration as a service: routes at the API port, behind a login. It opens no port of its own.

Who may is in `logins`, what can be done in `steering`. Read next: docs/administration.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.adapters.access.settings import AccessError
from penstock.adapters.api import AdapterSet
from penstock.adapters.roster import Roster
from penstock.config import Config
from penstock.doors.gate import Gate
from penstock.kernel.kernel import Kernel
from penstock.services.admin.audit import Audit
from penstock.services.admin.dashboard import dashboard_set
from penstock.services.admin.logins import Logins
from penstock.services.admin.steering import Steering
from penstock.services.errors import StartError
from penstock.services.journal import JournalService
from penstock.services.service import Service

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.routing import BaseRoute, Router

    from penstock.adapters.access.users import UserFile
    from penstock.doors.tlex.door import TlexDoor
    from penstock.services.admin.models import ClusterInfo, StreamInfo
    from penstock.services.push.engine import PushEngine
    from penstock.services.service import Listening

SECONDS_PER_MINUTE = 60


class AdminService(Service):
    """Opened before the doors: the API port serves its routes, and clients of the dashboard log in by its users."""

    name = "admin"

    def __init__(
        self,
        config: Config,
        kernel: Kernel,
        gate: Gate,
        roster: Roster,
        journal: JournalService,
        tlex: Callable[[], TlexDoor | None],
        push: Callable[[], PushEngine | None],
        listeners: Callable[[], Sequence[Listening]],
        status: Callable[[], ClusterInfo],
        users: Path | None = None,
    ) -> None:
        """`status` says which processes the server has. `users` is a file of users in place of the one that the
        configuration may name.
        """
        self._config = config
        self._users = users or (Path(config.admin.users) if config.admin.users else None)
        self._listeners = listeners
        self._status = status
        # There once it is open.
        self._logins: Logins | None = None
        # All of it, for other ports than that of the API; there once that one is open.
        self.site: Router | None = None
        self._audit = Audit(lambda: journal.gatherer)
        self.steering = Steering(kernel, gate, roster, tlex, push, self._audit, config.server.node)

    @property
    def has_users(self) -> bool:
        return self._users is not None

    @property
    def logins(self) -> Logins | None:
        """Once it is open; None if nobody could log in."""
        return self._logins if self.has_users else None

    def sets(self) -> list[AdapterSet]:
        """That of the dashboard, if there is anybody who may look at it."""
        return [dashboard_set(self._open_logins)] if self.has_users else []

    async def check(self) -> list[str]:
        self._user_file()
        return []

    async def open(self) -> None:
        self._logins = Logins(self._user_file(), self._config.admin.login_minutes * SECONDS_PER_MINUTE)

    def _open_logins(self) -> Logins:
        assert self._logins is not None
        return self._logins

    async def drain(self) -> None:
        # A stop ends all sessions by itself.
        self.steering.drain.cancel()

    def mount(self, application: FastAPI) -> None:
        # Here and not at the top: whoever only looks at the list of services need not wait for these.
        from starlette.routing import Router

        from penstock.services.admin.guard import PREFIX, Guard
        from penstock.services.admin.page import page_routes
        from penstock.services.deferred import DeferredApplication
        from penstock.services.mounting import below

        logins = self._open_logins()
        routes = DeferredApplication(lambda: self._routes(logins))
        guarded = Guard(routes, logins, self._config.api.cors.allow_origins)
        own: list[BaseRoute] = [below(PREFIX, guarded)]
        if self.has_users:
            own.extend(page_routes(self._stream))
        application.router.routes.extend(own)
        self.site = Router(own)

    def _routes(self, logins: Logins) -> FastAPI:
        from penstock.services.admin.routes import build

        return build(self.steering, logins, self._audit, self._stream, self._status)

    def _stream(self) -> StreamInfo:
        from penstock.services.admin.models import StreamInfo

        ports = {listener.name: listener.port for listener in self._listeners()}
        return StreamInfo(
            address=self._config.admin.stream_address, port=ports["stream"], tls_port=ports.get("stream.tls")
        )

    def _user_file(self) -> UserFile | None:
        """Raises StartError if the file cannot be used."""
        if self._users is None:
            return None
        from penstock.adapters.access.users import UserFile  # takes its time to load, and not all need it

        file = UserFile(str(self._users))
        try:
            file.load()
        except AccessError as error:
            raise StartError(f"admin.users: {error}") from error
        return file
