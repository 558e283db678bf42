"""The server as the MONITOR adapter sees it: its identity, its samples, and tables of what is in it.

How items are made of them is in `penstock.adapters.monitor`.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock import __version__
from penstock.adapters.monitor import MonitorAdapter
from penstock.config.checks import EVERY_INTERFACE
from penstock.log import LogLine, tap
from penstock.monitor.statistics import FIELDS, ServerStatistics

if TYPE_CHECKING:
    from penstock.adapters.api import DataAdapter
    from penstock.adapters.monitor.overview import Keyed, Row, Stop, Table
    from penstock.config import Config
    from penstock.monitor.sampler import Sampler
    from penstock.services.service import Listening

# What people may connect with, by code and name: fields of monitor_details are called after the code.
LIBRARIES = {
    "NODEJS": "Node.js Client API",
    "ANDROID": "Android Client API",
    "IOS": "iOS Client API",
    "OSX": "macOS Client API",
    "TVOS": "tvOS Client API",
    "WATCHOS": "watchOS Client API",
    "VISIONOS": "visionOS Client API",
    "FLASH": "Flash Client API",
    "FLEX": "Flex Client API",
    "SL": "Silverlight Client API",
    "JSE": "Java SE Client API",
    "DOTNETSTD": ".NET Standard Client API",
    "PCL": ".NET PCL Client API",
    "DOTNET": "Unity Client API",
    "BB": "BlackBerry Client API",
    "JME": "Java ME Client API",
    "GEN": "Generic Client API",
}

# Licences that a row of monitor_client_libs has a field for; of ours, "free", the field is empty: all versions.
LICENCES = ("free", "demo", "eval", "startup", "noprod-lim", "noprod-full", "prod", "standby")


class ServerOverview:
    """The port `Overview` of one server."""

    def __init__(
        self,
        config: Config,
        sampler: Sampler,
        tables: Mapping[str, Callable[[], Table]],
        listeners: Callable[[], Iterable[Listening]],
    ) -> None:
        """`tables` are by name, each made anew for whoever wants to walk over it."""
        self._config = config
        self._sampler = sampler
        self._tables = tables
        self._listeners = listeners
        self._started = int(time.time() * 1000)

    def introduce(self, adapter: DataAdapter) -> None:
        """A MONITOR adapter gets to know the server."""
        if isinstance(adapter, MonitorAdapter):
            adapter.overview = self

    # -- samples --------------------------------------------------------------------------------------------------

    def statistics(self) -> Row:
        return _row(self._sampler.latest)

    def history(self) -> Sequence[Row]:
        return [_row(sample) for sample in self._sampler.history]

    def each_sample(self, told: Callable[[], None]) -> Stop:
        return self._sampler.listen(lambda sample: told())

    def each_point(self, told: Callable[[Row], None]) -> Stop:
        history = self._sampler.history
        last = history[-1] if history else None

        def look(sample: ServerStatistics) -> None:
            nonlocal last
            if history and history[-1] is not last:
                last = history[-1]
                told(_row(last))

        return self._sampler.listen(look)

    def each_log_line(self, told: Callable[[LogLine], None]) -> Stop:
        return tap(told).close

    # -- what it is -----------------------------------------------------------------------------------------------

    def identification(self) -> Row:
        host = socket.gethostname()
        return {
            "EDITION": "Penstock",
            "VERSION": __version__,
            "LICENSE_TYPE": "FREE",
            "CLIENT_ID": "-",
            "LOCAL_IP": _address_of(host),
            "LOCAL_HOST": host,
            "STARTUP_TIME": str(self._started),
        }

    def details(self) -> Row:
        limit = self._config.limits.max_sessions
        return {
            "MAX_SSNS": str(limit) if limit else "unlimited",
            "IS_MPN": str(self._config.push.enabled).lower(),
            "EXP_DATE": None,
            "MAX_RATE": "unlimited",
            "BAND": "true",
            "TLS": "true",
            "JMX": "false",
            "VAL_TYPE": "None",
            **{f"MAX_{code}API": "" for code in LIBRARIES},
        }

    def libraries(self) -> Iterable[Keyed]:
        for ordinal, (code, name) in enumerate(LIBRARIES.items(), start=1):
            yield (
                code.lower(),
                {
                    "lib_ext": name,
                    **dict.fromkeys(LICENCES),
                    "free": "",
                    "ordinal": str(ordinal),
                },
            )

    def socket(self, name: str) -> Row | None:
        for listener in self._listeners():
            if listener.name == name:
                return {
                    "SERVER_NAME": listener.name,
                    "LOCAL_PORT": str(listener.port),
                    "LOCAL_INTERFACE": None if listener.host in EVERY_INTERFACE else listener.host,
                    "IS_SSL": str(listener.tls).lower(),
                }
        return None

    def table(self, name: str) -> Table | None:
        make = self._tables.get(name)
        return None if make is None else make()


def _address_of(host: str) -> str | None:
    """Of this machine; None if its own name leads nowhere."""
    try:
        return socket.gethostbyname(host)
    except OSError:
        return None


def _row(sample: ServerStatistics) -> Row:
    return {name: str(getattr(sample, attribute)) for name, attribute in FIELDS.items()}
