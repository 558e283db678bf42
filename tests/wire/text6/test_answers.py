from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.testing.text6_reader import Accepted, PushReader
from penstock.wire.text6 import answers

SESSION = "S9cb4758037a95c01T0439915"


def test_the_least_header_has_the_lines_that_are_not_optional_in_their_order() -> None:
    assert answers.header(SESSION, 5_000, None, True) == (
        b"OK\r\nSessionId:S9cb4758037a95c01T0439915\r\nKeepaliveMillis:5000\r\nMaxBandwidth:0\r\n\r\n"
    )


def test_a_full_header_has_all_lines_in_the_order_of_the_specification() -> None:
    block = answers.header(
        SESSION,
        30_000,
        40.5,
        True,
        control_address="push1.example.com:8080",
        request_limit=50_000,
        server_name="Field devices",
        preamble=1,
    )
    assert block == (
        b"OK\r\n"
        b"SessionId:S9cb4758037a95c01T0439915\r\n"
        b"ControlAddress:push1.example.com:8080\r\n"
        b"KeepaliveMillis:30000\r\n"
        b"MaxBandwidth:40.5\r\n"
        b"RequestLimit:50000\r\n"
        b"ServerName:Field devices\r\n"
        b"Preamble:sending placeholder data\r\n"
        b"\r\n"
    )


@pytest.mark.parametrize(
    ("limit", "manages", "text"),
    [
        (None, True, b"0"),
        (None, False, b"-1"),
        (40.0, True, b"40"),
        (0.5, True, b"0.5"),
        (1234567.25, True, b"1234567.25"),
        (40.0, False, b"40"),
    ],
)
def test_the_bandwidth_is_the_limit_of_the_server_zero_or_minus_one(
    limit: float | None, manages: bool, text: bytes
) -> None:
    assert b"\r\nMaxBandwidth:" + text + b"\r\n" in answers.header(SESSION, 5_000, limit, manages)


@pytest.mark.parametrize("size", [0, 1, 35, 36, 2_048])
def test_the_preamble_is_whole_lines_of_at_least_the_size_asked_for(size: int) -> None:
    plain = answers.header(SESSION, 5_000, None, True)
    padded = answers.header(SESSION, 5_000, None, True, preamble=size)
    filling = len(padded) - len(plain)
    assert size <= filling < size + len(answers.PREAMBLE)
    assert padded == plain[:-2] + answers.PREAMBLE * (filling // len(answers.PREAMBLE)) + b"\r\n"


@given(st.text(max_size=20), st.text(max_size=20))
def test_no_name_or_address_can_break_the_header(name: str, address: str) -> None:
    block = answers.header(SESSION, 1, None, True, control_address=address, server_name=name)
    (found,) = PushReader(stream=True).feed(block)
    assert isinstance(found, Accepted)
    names = [line for line, _ in found.header]
    between = ["ControlAddress"] if address else []
    assert names == ["SessionId", *between, "KeepaliveMillis", "MaxBandwidth", "ServerName"]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (answers.OK, b"OK\r\n"),
        (answers.SYNC_ERROR, b"SYNC ERROR\r\n"),
        (
            answers.error(2, "Requested Adapter Set not available"),
            b"ERROR\r\n2\r\nRequested Adapter Set not available\r\n",
        ),
        (answers.error(-3, ""), b"ERROR\r\n-3\r\n\r\n"),
        (answers.error(0, "no\r\nOK"), b"ERROR\r\n0\r\nno\\u000D\\u000AOK\r\n"),
        (answers.error(21, "é \ud800"), b"ERROR\r\n21\r\n\\u00E9 \\uD800\r\n"),
        (answers.ended(31), b"END\r\n31\r\n"),
        (answers.ended(-2), b"END\r\n-2\r\n"),
        (answers.ended(None), b"END\r\n"),
    ],
)
def test_answers_are_the_bytes_of_the_specification(answer: bytes, expected: bytes) -> None:
    assert answer == expected
