"""All lines about a request have its number, wherever they are written, and no others have it."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from penstock import log
from penstock.log import RequestNumber, incident

LOG = log.get("penstock.doors.test")


@pytest.fixture(autouse=True)
def _restored(root_logger: logging.Logger) -> None:
    """Every test here configures the log."""


def numbers(captured: pytest.CaptureFixture[str]) -> dict[object, object]:
    """The number of each event, None for one that has none."""
    lines = [json.loads(line) for line in captured.readouterr().err.splitlines()]
    return {line["event"]: line.get("number") for line in lines}


def test_lines_of_one_request_share_a_number_and_others_have_none(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure("info", "json")
    LOG.info("before")
    with RequestNumber() as request:
        LOG.info("first")
        logging.getLogger("quotes").warning("of a library")
    LOG.info("between")
    with RequestNumber():
        LOG.info("second")
    found = numbers(capsys)
    assert found["before"] is found["between"] is None
    assert found["first"] == found["of a library"] == request.number
    assert found["second"] not in (None, request.number)


def test_a_client_is_told_the_number_that_the_lines_have(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure("info", "json")
    with RequestNumber():
        LOG.info("first")
        told = incident()
    assert numbers(capsys)["first"] == told
    assert incident() != incident()


def test_the_number_follows_a_request_into_tasks_and_threads_until_it_is_answered(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log.configure("info", "json")

    async def answer(request: RequestNumber, late: asyncio.Event) -> asyncio.Task[None]:
        with request:
            await asyncio.to_thread(LOG.info, "on a thread")
            follower = asyncio.get_running_loop().create_task(follow(late))
            await asyncio.sleep(0)
            return follower

    async def follow(late: asyncio.Event) -> None:
        LOG.info("in a task")
        await late.wait()
        LOG.info("in a task, too late")

    async def run() -> str:
        request, late = RequestNumber(), asyncio.Event()
        follower = await answer(request, late)
        late.set()
        await follower
        return request.number

    number = asyncio.run(run())
    found = numbers(capsys)
    assert found["on a thread"] == found["in a task"] == number
    assert found["in a task, too late"] is None


def test_requests_beside_one_another_keep_their_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure("info", "json")

    async def answer(name: str, turn: asyncio.Event, other: asyncio.Event) -> str:
        with RequestNumber() as request:
            await turn.wait()
            LOG.info(name)
            other.set()
            return request.number

    async def run() -> tuple[str, str]:
        one, two = asyncio.Event(), asyncio.Event()
        one.set()
        return await asyncio.gather(answer("first", one, two), answer("second", two, one))

    first, second = asyncio.run(run())
    assert numbers(capsys) == {"first": first, "second": second}
    assert first != second
