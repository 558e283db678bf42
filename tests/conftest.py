"""What every test can ask for: a server in a process of its own, a server on a thread with adapters the test drives."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from xdist.scheduler import LoadFileScheduling

from penstock import BUILD, log
from tests.support.background import BackgroundServer
from tests.support.process import ServerProcess

settings.register_profile("ci", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fast", settings.get_profile("ci"), max_examples=10)
settings.register_profile("unshrunk", settings.get_profile("ci"), phases=[Phase.explicit, Phase.generate])
settings.register_profile("long", max_examples=2_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("PENSTOCK_PROFILE", "ci"))

# The JVMs of Spark live for a minute here: with their second compiler they would compile for as long as they run.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")


def pytest_report_header() -> str:
    """Every run says which build it tests."""
    return f"penstock: {BUILD}"


class OneWorkerForSpark(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """A file stays on one worker, and so does the whole room that starts JVMs: two cores cannot feed two."""

    def _split_scope(self, nodeid: str) -> str:
        return "tests/pipeline" if nodeid.startswith("tests/pipeline/") else str(super()._split_scope(nodeid))


# What takes longest begins first, so that both workers end at about the same time (`--no-loadscope-reorder`).
LONGEST = ("tests/pipeline/", "tests/e2e/", "tests/doors/", "tests/interop/")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not hasattr(config, "workerinput"):
        # One process: then files run as they are named.
        return

    def place(item: pytest.Item) -> int:
        return next((rank for rank, room in enumerate(LONGEST) if item.nodeid.startswith(room)), len(LONGEST))

    items.sort(key=place)


def pytest_collection_finish() -> None:
    # Thousands of tests and all that they import stay to the end: whoever looks for garbage, or for what a server has
    # left behind, need not look through them each time.
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    # Not by marks and `--dist loadgroup`: that finds no group at all with pytest 9.2 and xdist 3.8.
    return OneWorkerForSpark(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture
def server(request: pytest.FixtureRequest) -> Iterator[BackgroundServer]:
    """A server on a thread; `@pytest.mark.config({"session.session_timeout_millis": 200})` changes its settings."""
    marker = request.node.get_closest_marker("config")
    with BackgroundServer(marker.args[0] if marker else {}) as running:
        yield running


@pytest.fixture
def process(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerProcess]:
    """A server process with the demo adapter sets, configured by the same mark."""
    marker = request.node.get_closest_marker("config")
    with ServerProcess(tmp_path, marker.args[0] if marker else {}) as running:
        yield running


@pytest.fixture
def root_logger() -> Iterator[logging.Logger]:
    """The root logger, which is afterwards what it was; so are the levels of all others."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    levels = {name: logging.getLogger(name).level for name in list(root.manager.loggerDict)}
    yield root
    for handler in [found for found in root.handlers if found not in handlers]:
        handler.close()
    root.handlers[:] = handlers
    log.configure_levels("info", {})
    root.setLevel(level)
    for name in list(root.manager.loggerDict):
        logging.getLogger(name).setLevel(levels.get(name, logging.NOTSET))


@pytest.fixture
def caplog(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What is logged, from warnings on: whatever a server that ran in this process before has set."""
    logging.getLogger().setLevel(logging.WARNING)
    logging.getLogger("penstock").setLevel(logging.NOTSET)
    return caplog
