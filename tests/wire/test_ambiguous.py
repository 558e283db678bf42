from __future__ import annotations

import pytest

from tests.wire.ambiguous import CASES, HARMLESS, SMUGGLED, TARGET, Seen, post, read_with_h11
from tests.wire.reading import one_by_one, read_http


def read(data: bytes, sizes: list[int]) -> list[Seen]:
    return [Seen(request.method, request.target, request.body) for request in read_http(data, sizes).requests]


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 200


@pytest.mark.parametrize("data", CASES.values(), ids=CASES)
def test_no_request_is_seen_that_h11_does_not_see_in_the_same_bytes(data: bytes) -> None:
    expected, _ = read_with_h11(data)
    for sizes in ([], one_by_one(data)):
        found = read(data, sizes)
        assert found == expected[: len(found)]


@pytest.mark.parametrize("data", CASES.values(), ids=CASES)
def test_what_h11_refuses_is_refused(data: bytes) -> None:
    expected, is_refused = read_with_h11(data)
    found = read_http(data)
    if is_refused and len(found.requests) == len(expected):
        assert found.status is not None or found.in_request


@pytest.mark.parametrize("data", HARMLESS.values(), ids=HARMLESS)
def test_what_is_taken_more_leniently_than_h11_has_one_meaning(data: bytes) -> None:
    assert read_with_h11(data) == ([], True)
    (found,) = read(data, [])
    assert (found.method, found.target) == ("POST", TARGET)
    assert found.body in (b"", b"a")


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (post(f"Content-Length: {len(SMUGGLED)}", body=SMUGGLED), 1),
        (post("Content-Length: 0", body=SMUGGLED), 2),
        (post("Transfer-Encoding: chunked", body="0\r\n\r\n" + SMUGGLED), 2),
    ],
)
def test_what_is_clear_is_read_as_h11_reads_it(data: bytes, count: int) -> None:
    assert read(data, []) == read_with_h11(data)[0]
    assert len(read(data, [])) == count
