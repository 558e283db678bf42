"""Requests that two readers could understand differently, at both ports that speak HTTP."""

from __future__ import annotations

import pytest

from tests.support.background import BackgroundServer
from tests.support.hostile import answer, statuses
from tests.support.witness import Witness
from tests.wire.ambiguous import CASES, HARMLESS, TARGET, post, read_with_h11

# What a request is sent to at each port, and what one that was read is answered with: at the API port the path is only
# to be read, so that nothing is done.
PORTS = {"stream": (TARGET, 200), "api": ("/health", 405)}

# Bodies that have one meaning and never end here: at the API port a request is answered before its body is there, and
# the connection closed behind it.
ENDLESS = ("chunk size wraps around 32 bits",)

# What h11 reads and a proxy of HTTP/1.0 would take for something else: RFC 9112, section 6.1, calls it faulty.
STRICTER = ("coding in HTTP/1.0",)


@pytest.fixture(params=PORTS)
def port(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def ask(server: BackgroundServer, port: str, data: bytes) -> list[int]:
    target, _ = PORTS[port]
    # Those that are about the target itself have no such target in them.
    sent = data.replace(TARGET.encode(), target.encode())
    return statuses(answer(server, sent, server.port if port == "stream" else server.api_port))


def test_no_ambiguous_request_is_answered_and_no_hidden_one_is_found(
    server: BackgroundServer, witness: Witness, port: str
) -> None:
    for name, data in CASES.items():
        expected, is_refused = read_with_h11(data)
        found = ask(server, port, data)
        if name in STRICTER:
            expected, is_refused = [], True
        allowed = 1 if port == "api" and name in ENDLESS else len(expected)
        assert found.count(PORTS[port][1]) <= allowed, name
        # /smuggled does not exist: a 404 means that it was taken for a request.
        assert found.count(404) <= [request.target for request in expected].count("/smuggled"), name
        if is_refused and not allowed:
            assert found in ([], [400], [413], [501]), name


def test_an_ambiguous_request_behind_a_good_one_ends_the_connection_after_the_good_answer(
    server: BackgroundServer, witness: Witness, port: str
) -> None:
    good, answered = post("Content-Length: 0"), PORTS[port][1]
    for name, data in CASES.items():
        expected, is_refused = read_with_h11(data)
        if is_refused and not expected and name not in ENDLESS:
            found = ask(server, port, good + data)
            assert found in ([answered], [answered, 400], [answered, 413], [answered, 501]), name


@pytest.mark.parametrize("data", HARMLESS.values(), ids=HARMLESS)
def test_what_has_one_meaning_is_answered_once(
    server: BackgroundServer, witness: Witness, port: str, data: bytes
) -> None:
    assert ask(server, port, data) == [PORTS[port][1]]
