"""Which part of a file a request asks for: conditions and ranges of RFC 9110, against a naive model."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.http_file import file_part, http_date

ETAG = '"a-1"'
MODIFIED = 1_700_000_000
SIZE = 1000
SAME, EARLIER, LATER = (formatdate(MODIFIED + step, usegmt=True) for step in (0, -1, 1))


def asked(**headers: str) -> tuple[int, int, int]:
    part = file_part({name.replace("_", "-"): value for name, value in headers.items()}, ETAG, MODIFIED, SIZE)
    return part.status, part.start, part.length


WHOLE = (200, 0, SIZE)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, WHOLE),
        ({"if_none_match": ETAG}, (304, 0, 0)),
        ({"if_none_match": f'"x", W/{ETAG}'}, (304, 0, 0)),
        ({"if_none_match": "*"}, (304, 0, 0)),
        ({"if_none_match": '"x"'}, WHOLE),
        ({"if_none_match": "a-1"}, WHOLE),
        # The tag decides where there is one.
        ({"if_none_match": '"x"', "if_modified_since": SAME}, WHOLE),
        ({"if_modified_since": SAME}, (304, 0, 0)),
        ({"if_modified_since": LATER}, (304, 0, 0)),
        ({"if_modified_since": EARLIER}, WHOLE),
        ({"if_modified_since": "yesterday"}, WHOLE),
        ({"if_match": ETAG}, WHOLE),
        ({"if_match": "*"}, WHOLE),
        ({"if_match": f"W/{ETAG}"}, (412, 0, 0)),
        ({"if_match": '"x"'}, (412, 0, 0)),
        ({"if_unmodified_since": EARLIER}, (412, 0, 0)),
        ({"if_unmodified_since": SAME}, WHOLE),
        ({"if_match": ETAG, "if_unmodified_since": EARLIER}, WHOLE),
        ({"range": "bytes=0-0"}, (206, 0, 1)),
        ({"range": "bytes=10-19"}, (206, 10, 10)),
        ({"range": "bytes=990-"}, (206, 990, 10)),
        ({"range": "bytes=990-5000"}, (206, 990, 10)),
        ({"range": "bytes=-10"}, (206, 990, 10)),
        ({"range": "bytes=-5000"}, (206, 0, 1000)),
        ({"range": "BYTES = 1-1"}, (206, 1, 1)),
        ({"range": "bytes=1000-"}, (416, 0, 0)),
        ({"range": "bytes=-0"}, (416, 0, 0)),
        ({"range": "bytes=9-8"}, WHOLE),
        ({"range": "bytes=-"}, WHOLE),
        ({"range": "bytes=a-b"}, WHOLE),
        ({"range": "items=0-1"}, WHOLE),
        ({"range": "bytes=0-1,5-6"}, WHOLE),
        ({"range": "bytes=" + "9" * 5000 + "-"}, WHOLE),
        ({"range": "bytes=\u0661-\u0662"}, WHOLE),
        ({"range": "bytes=0-9", "if_range": ETAG}, (206, 0, 10)),
        ({"range": "bytes=0-9", "if_range": SAME}, (206, 0, 10)),
        ({"range": "bytes=0-9", "if_range": f"W/{ETAG}"}, WHOLE),
        ({"range": "bytes=0-9", "if_range": '"x"'}, WHOLE),
        ({"range": "bytes=0-9", "if_range": LATER}, WHOLE),
        ({"range": "bytes=0-9", "if_none_match": ETAG}, (304, 0, 0)),
        ({"range": "bytes=5000-", "if_match": '"x"'}, (412, 0, 0)),
    ],
)
def test_conditions_and_ranges(headers: dict[str, str], expected: tuple[int, int, int]) -> None:
    assert asked(**headers) == expected


@given(st.integers(0, 60), st.none() | st.integers(0, 70), st.none() | st.integers(0, 70))
def test_a_range_is_what_a_slice_says(size: int, first: int | None, last: int | None) -> None:
    content = bytes(range(size))
    text = f"bytes={'' if first is None else first}-{'' if last is None else last}"
    part = file_part({"range": text}, ETAG, MODIFIED, size)
    if (first is None and last is None) or (first is not None and last is not None and last < first):
        assert (part.status, part.length) == (200, size)
        return
    if first is None:
        assert last is not None
        wanted = content[max(0, size - last) :]
    else:
        wanted = content[first:] if last is None else content[first : last + 1]
    if wanted:
        assert part.status == 206
        assert content[part.start : part.start + part.length] == wanted
    else:
        assert part.status == 416


@given(st.integers(0, 253_402_300_799))
def test_a_date_is_read_back(moment: int) -> None:
    assert http_date(formatdate(moment, usegmt=True)) == moment


@pytest.mark.parametrize(
    "text", ["", "Mon, 32 Jan 2026 00:00:00 GMT", "Mon, 01 Foo 2026 00:00:00 GMT", "0", "x" * 9000]
)
def test_what_is_no_date_means_nothing(text: str) -> None:
    assert http_date(text) is None
    assert http_date(None) is None


def test_no_header_takes_long() -> None:
    begin = time.process_time()
    for part in ('"', 'W/"', ",", "1", " ", "bytes=", "-"):
        value = part * (16_000 // len(part))
        for name in ("if_match", "if_none_match", "if_modified_since", "if_range", "range"):
            asked(**{name: value}, **({} if name == "range" else {"range": "bytes=0-1"}))
    assert time.process_time() - begin < 1.0
