"""What `penstock serve` makes at its start, made for `penstock config check`, which refuses what a start would refuse.

No port is opened, nothing is written and no adapter is started; the data directory may be in use by a server. The words
of each refusal come from where a start finds them. Read next: server.py, docs/configuration.md.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from penstock.adapters.authority import SetAuthority
from penstock.adapters.loading import Loader, Plan
from penstock.adapters.running import StartFailure
from penstock.adapters.tlex import Board, introduced
from penstock.adapters.trial import try_set
from penstock.config import Config, Loaded
from penstock.config.checks import serves_ditto
from penstock.server import Server, StartError, check_data_directory


def rehearse(loaded: Loaded) -> list[str]:
    """What is wrong with optional adapters; raises ConfigError, or StartError, with the reason."""
    return asyncio.run(_rehearse(loaded))


async def _rehearse(loaded: Loaded) -> list[str]:
    config = loaded.config
    data_dir = Path(config.server.data_dir)
    check_data_directory(data_dir)
    # Kernel and doors as they are made before anything opens.
    Server(config, [])
    loader = Loader(loaded.directory, loaded.place)
    board = Board(config.tlex.enabled)
    try:
        plans = [introduced(loader.load(name, table), board) for name, table in config.adapters.items()]
        complaints = [complaint for plan in plans for complaint in await try_set(plan)]
    except StartFailure as failure:
        raise StartError(str(failure)) from failure
    _check_ditto(config, plans)
    _check_tlex(config, data_dir)
    return complaints


def _check_ditto(config: Config, plans: list[Plan]) -> None:
    if not serves_ditto(config):
        return
    from penstock.doors.ditto.door import DoorError, check_users  # takes its time to load, and not all want it

    judges = {plan.adapter_set.name: SetAuthority(plan.adapter_set) for plan in plans}
    try:
        check_users(config.ditto.adapter_set, judges.get)
    except DoorError as error:
        raise StartError(str(error)) from error


def _check_tlex(config: Config, data_dir: Path) -> None:
    if not config.tlex.enabled:
        return
    from penstock.doors.tlex.door import DoorError, check_store  # takes its time to load, and not all want it

    try:
        check_store(config, data_dir)
    except DoorError as error:
        raise StartError(str(error)) from error
