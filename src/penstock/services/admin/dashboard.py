"""The adapter set of the dashboard: the MONITOR items, for administrators and viewers only.

Who they are is in `logins`, what the items show in `penstock.adapters.monitor`. The page is in `page`.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.adapters.api import AdapterSet, MetadataAdapter
from penstock.adapters.monitor import MonitorAdapter
from penstock.config.checks import DASHBOARD_SET
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.ports import Admission, ClientFacts, DeviceFacts, SessionFacts
from penstock.monitor.sampler import MAX_POINTS
from penstock.services.admin.logins import Logins
from penstock.services.admin.problems import AdminProblem

DATA_ADAPTER = "MONITOR"

PREFIX = "monitor_"
HISTORY = "monitor_history"


class DashboardAccess(MetadataAdapter):
    """Lets in whoever may look at the server; the same wrong logins slow down the page and `/api/admin`."""

    def __init__(self, logins: Callable[[], Logins]) -> None:
        """`logins` are there when the first client comes."""
        self._logins = logins

    async def authenticate(self, user: str | None, password: str | None, client: ClientFacts) -> Admission | None:
        try:
            await self._logins().by_password(user or "", password or "", client.address)
        except AdminProblem as problem:
            raise Refusal(Reason.CREDENTIALS, str(problem)) from None
        return None

    async def items(self, session: SessionFacts, data_adapter: str, group: str) -> list[str]:
        names = group.split()
        for name in names:
            if not name.startswith(PREFIX):
                raise Refusal(
                    Reason.GROUP, f"{name[:60]} is not an item of this adapter set; their names begin with {PREFIX}"
                )
        return names

    async def snapshot_length(self, data_adapter: str, item: str) -> int:
        return MAX_POINTS if item == HISTORY else 10

    async def register_device(self, session: SessionFacts, device: DeviceFacts) -> None:
        raise Refusal(Reason.APPLICATION, "The dashboard has no push notifications, which would outlive the login")


def dashboard_set(logins: Callable[[], Logins]) -> AdapterSet:
    return AdapterSet(DASHBOARD_SET, DashboardAccess(logins), {DATA_ADAPTER: MonitorAdapter()})
