from __future__ import annotations

import pytest

from tests.doors.hostile import answer, statuses
from tests.doors.witness import Witness
from tests.support.background import BackgroundServer
from tests.wire.ambiguous import CASES, HARMLESS, post, read_with_h11


def test_no_ambiguous_request_is_answered_200_and_no_hidden_one_is_found(
    server: BackgroundServer, witness: Witness
) -> None:
    for name, data in CASES.items():
        expected, is_refused = read_with_h11(data)
        found = statuses(answer(server, data))
        allowed = len(expected)
        assert found.count(200) <= allowed, name
        # /smuggled does not exist: a 404 means that it was taken for a request.
        assert found.count(404) <= [request.target for request in expected].count("/smuggled"), name
        if is_refused and not expected:
            assert found in ([], [400], [413], [501]), name


def test_an_ambiguous_request_behind_a_good_one_ends_the_connection_after_the_good_answer(
    server: BackgroundServer, witness: Witness
) -> None:
    good = post("Content-Length: 0")
    for name, data in CASES.items():
        expected, is_refused = read_with_h11(data)
        if is_refused and not expected:
            assert statuses(answer(server, good + data)) in ([200], [200, 400], [200, 413], [200, 501]), name


@pytest.mark.parametrize("data", HARMLESS.values(), ids=HARMLESS)
def test_what_has_one_meaning_is_answered_once(server: BackgroundServer, witness: Witness, data: bytes) -> None:
    assert statuses(answer(server, data)) == [200]
