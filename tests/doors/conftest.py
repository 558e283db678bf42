"""A server under attack: beside the `server` of the test there is a witness, and no error may be logged."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.support.background import BackgroundServer
from tests.support.witness import ErrorLog, Witness


@pytest.fixture
def errors() -> Iterator[ErrorLog]:
    """Fails the test for anything logged as an error, tasks and callbacks that died included."""
    handler = ErrorLog()
    loggers = [logging.getLogger(name) for name in ("penstock", "asyncio", "websockets")]
    for logger in loggers:
        logger.addHandler(handler)
    yield handler
    for logger in loggers:
        logger.removeHandler(handler)
    assert handler.records == []


@pytest.fixture
def witness(errors: ErrorLog, server: BackgroundServer) -> Iterator[Witness]:
    """Opened before the test; after it, only the witness may be left, still served."""
    with closing(Witness(server)) as found:
        yield found
        found.finds_nothing_left()
        found.finds_no_objects_left()
