"""`penstock bench`: what it counts is what was sent, and mistakes are one line."""

from __future__ import annotations

import json
import signal
import time

import pytest

from tests.support.background import BackgroundServer
from tests.support.forge import Forked
from tests.support.waiting import wait_until

FIELDS = ("--fields", "x y")
PATIENCE = 45.0


def bench(*arguments: str) -> tuple[int, str, str]:
    process = Forked(["bench", *arguments])
    stdout, stderr = process.communicate(timeout=PATIENCE)
    return process.wait(PATIENCE), stdout, stderr


def test_every_update_of_every_session_is_counted(server: BackgroundServer) -> None:
    options = ["--mode", "RAW", "--sessions", "5", "--seconds", "3", "--time-field", "x", "--url", server.url]
    process = Forked(["bench", "TEST", "a", *FIELDS, *options])
    assert process.stderr is not None
    for line in process.stderr:
        if "measuring" in line:
            break
    sent = 0
    # Some may be before the beginning and behind the end; the figures say how many were within.
    while process.poll() is None and sent < 40:
        server.update("a", x=str(int(time.time() * 1_000)), y=str(sent))
        sent += 1
    stdout, _ = process.communicate(timeout=PATIENCE)
    assert process.wait(PATIENCE) == 0
    rows = dict(line.rsplit(maxsplit=1) for line in stdout.splitlines()[:7])
    assert rows["sessions"] == "5"
    assert rows["sessions lost"] == "0"
    assert rows["updates lost"] == "0"
    rate = float(rows["updates/s"].replace(",", ""))
    assert 0 < rate * 3 <= 5 * sent + 1
    for title in ("opening a session, ms", "answer to a request, ms", "age of an update, ms"):
        assert title in stdout


def test_ctrl_c_shows_what_was_measured_until_then(server: BackgroundServer) -> None:
    process = Forked(["bench", "TEST", "a", *FIELDS, "--sessions", "2", "--seconds", "600", "--url", server.url])
    assert process.stderr is not None
    for line in process.stderr:
        if "measuring" in line:
            break
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=PATIENCE)
    assert process.wait(PATIENCE) == 0
    assert "Traceback" not in stderr
    rows = dict(line.rsplit(maxsplit=1) for line in stdout.splitlines()[:7])
    assert (rows["sessions"], rows["sessions lost"], rows["updates/s"]) == ("2", "0", "0.0")


def test_scripts_get_json(server: BackgroundServer) -> None:
    arguments = ["TEST", "a", "b", *FIELDS, "--sessions", "3", "--seconds", "1.2", "--json", "--url", server.url]
    code, stdout, stderr = bench(*arguments)
    assert (code, stderr) == (0, "")
    found = json.loads(stdout)
    assert (found["sessions"], found["subscribed_items"], found["sessions_lost"]) == (3, 6, 0)
    assert found["opening_millis"]["p50"] <= found["opening_millis"]["p99"] <= found["opening_millis"]["max"]
    # Each session has asked at least once.
    assert found["answer_millis"]["p50"] > 0
    assert found["age_millis"] is None
    wait_until(lambda: not server.adapter.subscribed, "no session is left")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["TEST", "a", *FIELDS, "--sessions", "0"], 2, "--sessions is 0; expected 1 to 10000"),
        (["TEST", "a", *FIELDS, "--seconds", "0"], 2, "--seconds is 0; expected a number above 0"),
        (["TEST", "a", *FIELDS, "--time-field", "z"], 2, "--time-field is 'z'; expected one of the fields x, y"),
        (["NOWHERE", "a", *FIELDS], 1, "NOWHERE/DEFAULT: Requested Adapter Set not available (code 2)"),
        (["TEST", "a", *FIELDS, "--adapter", "NOPE"], 1, "TEST/NOPE: Data Adapter not found (code 17)"),
    ],
    ids=["sessions", "seconds", "time", "set", "adapter"],
)
def test_what_cannot_be_measured_is_told_in_one_line(
    server: BackgroundServer, arguments: list[str], code: int, words: str
) -> None:
    found, stdout, stderr = bench(*arguments, "--json", "--url", server.url)
    assert (found, stdout) == (code, "")
    assert words in stderr
    assert stderr.count("\n") == 1


def test_a_server_that_is_not_there_is_told_in_one_line() -> None:
    code, stdout, stderr = bench("TEST", "a", *FIELDS, "--json", "--url", "http://127.0.0.1:1")
    assert (code, stdout) == (3, "")
    assert stderr == "penstock: http://127.0.0.1:1: nothing listens there (connection refused)\n"
