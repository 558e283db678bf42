"""A server made as by `penstock serve` but not opened: `penstock config check` refuses what a start would refuse.

No port is opened, nothing is written and no adapter is started; the data directory may be in use by a server. It is the
same list of services, each of which is checked instead of opened. Read next: server.py, docs/configuration.md.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from penstock.adapters.loading import Loader
from penstock.cluster.nats_link import check_access
from penstock.config import Config, Loaded
from penstock.server import Server
from penstock.services.data_directory import check_data_directory
from penstock.services.errors import StartError
from penstock.services.journal import check_extras


def rehearse(loaded: Loaded) -> list[str]:
    """What is wrong with optional adapters; raises ConfigError, or StartError, with the reason."""
    return [*asyncio.run(_rehearse(loaded)), *_check_pipeline(loaded)]


async def _rehearse(loaded: Loaded) -> list[str]:
    data_dir = Path(loaded.config.server.data_dir)
    check_data_directory(data_dir)
    check_extras(loaded)
    found = await Server(loaded.config, [], Loader(loaded.directory, loaded.place), data_dir).check()
    return [*found, *_check_cluster(loaded.config)]


def _check_pipeline(loaded: Loaded) -> list[str]:
    """Tables and queries: a server does not look at them, but whoever checks its file wants to know."""
    pipeline = loaded.config.pipeline
    if not pipeline.tables and not pipeline.queries:
        return []
    # Imported here: it stands on pyarrow, which only those who have tables wait for.
    from penstock.pipeline.checking import check_pipeline
    from penstock.pipeline.errors import BadOption

    path = Path(loaded.place)
    try:
        return check_pipeline(loaded.config, path if path.is_file() else None)
    except BadOption as error:
        raise StartError(str(error)) from None


def _check_cluster(config: Config) -> list[str]:
    """Whether its files are good; not whether NATS and the database are there, because they may come later."""
    if config.cluster.role == "none":
        return []
    try:
        check_access(config.cluster)
    except OSError as error:
        raise StartError(str(error)) from None
    if config.cluster.role != "edge" and not config.cluster.store:
        return ["this hub has no standby, because cluster.store names no PostgreSQL database"]
    return []
