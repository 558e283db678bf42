"""What is passed on of a connection reads at its other end as it would have been read here."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.http1 import HttpRequest, RequestParser
from penstock.wire.resending import Beginning, request_bytes
from penstock.wire.websocket import FrameReader, client_message
from tests.wire.frames import CONTINUATION, TEXT, frame

LIMIT = 10_000

BODIES = st.binary(max_size=40)
NAMES = st.sampled_from(["Cookie", "X-Some", "Accept", "Expect"])
HEADERS = st.lists(st.tuples(NAMES, st.text("abcé;=", min_size=1, max_size=8)), max_size=4)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """A request in one of the forms that a client may choose."""
    lines = [f"{draw(st.sampled_from(['GET', 'POST']))} /a%20b?x={draw(st.integers(0, 9))} HTTP/1.1", "Host: h"]
    lines += [f"{name}: {value}" for name, value in draw(HEADERS)]
    body = draw(BODIES)
    match draw(st.sampled_from(["length", "chunked", "none"])):
        case "length":
            lines.append(f"Content-Length: {len(body)}")
        case "chunked":
            cut = draw(st.integers(0, len(body)))
            lines.append("Transfer-Encoding: chunked")
            body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:cut], body[cut:]) if part)
            body += b"0\r\nTrailer: t\r\n\r\n"
        case _:
            body = b""
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def meaning(request: HttpRequest) -> tuple[object, ...]:
    framing = ("content-length", "transfer-encoding", "expect")
    headers = {name: value for name, value in request.headers.items() if name not in framing}
    return request.method, request.target, request.version, headers, request.keep_alive, request.body


def read(data: bytes) -> list[HttpRequest]:
    return RequestParser(LIMIT, LIMIT).feed(data)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(places)]


CUTS = st.lists(st.integers(0, 10_000), max_size=6)


@given(st.lists(requests(), min_size=1, max_size=4), CUTS, st.integers(0, 10_000))
def test_complete_requests_and_the_beginning_of_another_can_be_read_again(
    sent: list[bytes], cuts: list[int], end: int
) -> None:
    everything = b"".join(sent)
    arrived = everything[: end % (len(everything) + 1)]
    parser, beginning, complete = RequestParser(LIMIT, LIMIT), Beginning(), list[HttpRequest]()
    for piece in pieces(arrived, cuts):
        found = parser.feed(piece)
        beginning.add(piece, len(found), parser.in_request)
        complete += found
    passed_on = b"".join(map(request_bytes, complete)) + beginning.so_far()
    again = read(passed_on + everything[len(arrived) :])
    assert list(map(meaning, again)) == list(map(meaning, read(everything)))


def test_bytes_that_are_not_a_request_are_passed_on_as_they_are() -> None:
    parser, beginning = RequestParser(LIMIT, LIMIT), Beginning()
    data = b"GET / HTTP/1.1\r\nHost: h\r\n\r\nnonsense\r\n\r\n"
    complete = parser.feed(data)
    assert parser.error is not None
    beginning.add(data, len(complete), True)
    again = RequestParser(LIMIT, LIMIT)
    assert len(again.feed(request_bytes(complete[0]) + beginning.so_far())) == 1
    assert again.error is not None
    assert again.error.message == parser.error.message


@given(st.lists(st.text(max_size=200), min_size=1, max_size=4), st.lists(st.integers(0, 200), max_size=4), st.data())
def test_what_has_been_read_of_a_message_can_be_read_again(
    sent: list[str], cuts: list[int], data: st.DataObject
) -> None:
    frames = b""
    for message in sent:
        parts = pieces(message.encode(), cuts) or [b""]
        for number, part in enumerate(parts):
            frames += frame(CONTINUATION if number else TEXT, part, final=number == len(parts) - 1)
    end = data.draw(st.integers(0, len(frames)))
    here, there = FrameReader(LIMIT), FrameReader(LIMIT)
    messages = here.feed(frames[:end])
    passed_on = b"".join(client_message(message.encode()) for message in messages) + here.unfinished()
    assert there.feed(passed_on + frames[end:]) == sent
