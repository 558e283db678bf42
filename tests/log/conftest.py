from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from penstock import log


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
