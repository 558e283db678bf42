from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus

import pytest

from penstock.wire.http1 import LAST_CHUNK, REASONS, HttpRequest, RequestParser, chunk, response_head
from tests.wire.reading import BODY_LIMIT, HEADER_LIMIT, HttpReading, one_by_one, read_http


@dataclass
class Case:
    """Bytes, and the request they are or the status they are refused with."""

    name: str
    data: bytes
    method: str = "GET"
    target: str = "/"
    body: bytes = b""
    version: str = "1.1"
    headers: dict[str, str] = field(default_factory=dict)
    keep_alive: bool = True
    upgrade: bool = False
    status: int | None = None


def head(*lines: str, start: str = "GET / HTTP/1.1", host: bool = True) -> bytes:
    every = [start, *(["Host: h"] if host else []), *lines, "", ""]
    return "\r\n".join(every).encode("latin-1")


POST = "POST / HTTP/1.1"
CHUNKED = head("Transfer-Encoding: chunked", start=POST)
SOCKET = head("Connection: Upgrade", "Upgrade: websocket")

GOOD = [
    Case("the shortest", head(), headers={"host": "h"}),
    Case("no header at all", head(start="GET / HTTP/1.0", host=False), version="1.0", keep_alive=False),
    Case("an empty host", b"GET / HTTP/1.1\r\nHost:\r\n\r\n", headers={"host": ""}),
    Case("a host with port", head("Host: example.com:8080", host=False), headers={"host": "example.com:8080"}),
    Case("an IPv6 host", head("Host: [::1%25lo]:8080", host=False), headers={"host": "[::1%25lo]:8080"}),
    Case("no space after the colon", head("X:y"), headers={"host": "h", "x": "y"}),
    Case("spaces and tabs around a value", head("X: \t y z \t"), headers={"host": "h", "x": "y z"}),
    Case("an empty value", head("X:"), headers={"host": "h", "x": ""}),
    Case("a value beyond ASCII", head("X: \xe9\xff"), headers={"host": "h", "x": "\xe9\xff"}),
    Case("names in any case", head("x-OtHer: Y"), headers={"host": "h", "x-other": "Y"}),
    Case("a repeated header", head("X: 1", "x: 2", "X: 3"), headers={"host": "h", "x": "1, 2, 3"}),
    Case("every kind of name", head("!#$%&'*+-.^_`|~09Az: 1"), headers={"host": "h", "!#$%&'*+-.^_`|~09az": "1"}),
    Case("a query", head(start="GET /a?b=c&d HTTP/1.1"), target="/a?b=c&d"),
    Case("an absolute target", head(start="GET http://h/a?b HTTP/1.1"), target="http://h/a?b"),
    Case("every server", head(start="OPTIONS * HTTP/1.1"), method="OPTIONS", target="*"),
    Case("another method", head(start="PROPFIND / HTTP/1.1"), method="PROPFIND"),
    Case("empty lines before it", b"\r\n\r\n" + head()),
    Case("to be closed", head("Connection: close"), keep_alive=False),
    Case("1.0 to be kept", head("Connection: keep-alive", start="GET / HTTP/1.0"), version="1.0"),
    Case("1.0 to be closed", head(start="GET / HTTP/1.0"), version="1.0", keep_alive=False),
    Case("a body", head("Content-Length: 5", start=POST) + b"hello", method="POST", body=b"hello"),
    Case(
        "a body with anything",
        head("Content-Length: 5", start=POST) + b"\0\r\n\xff ",
        method="POST",
        body=b"\0\r\n\xff ",
    ),
    Case("no body", head("Content-Length: 0", start=POST), method="POST"),
    Case("no length", head(start=POST), method="POST"),
    Case("a length with zeros", head("Content-Length: 0005", start=POST) + b"hello", method="POST", body=b"hello"),
    Case("GET with a body", head("Content-Length: 2") + b"ab", body=b"ab"),
    Case(
        "1.0 with a body",
        head("Content-Length: 2", start="POST / HTTP/1.0") + b"ab",
        "POST",
        body=b"ab",
        version="1.0",
        keep_alive=False,
    ),
    Case(
        "the longest body",
        head(f"Content-Length: {BODY_LIMIT}", start=POST) + b"x" * BODY_LIMIT,
        "POST",
        body=b"x" * BODY_LIMIT,
    ),
    Case("no chunks", CHUNKED + b"0\r\n\r\n", "POST"),
    Case("one chunk", CHUNKED + b"5\r\nhello\r\n0\r\n\r\n", "POST", body=b"hello"),
    Case("several chunks", CHUNKED + b"1\r\nh\r\n3\r\nell\r\n1\r\no\r\n0\r\n\r\n", "POST", body=b"hello"),
    Case(
        "hexadecimal sizes",
        CHUNKED + b"A\r\n0123456789\r\n0b\r\n0123456789a\r\n0\r\n\r\n",
        "POST",
        body=b"01234567890123456789a",
    ),
    Case("a chunk that looks like the end", CHUNKED + b"5\r\n0\r\n\r\n\r\n0\r\n\r\n", "POST", body=b"0\r\n\r\n"),
    Case("chunk extensions", CHUNKED + b'5;a=b;c="d"\r\nhello\r\n0;e\r\n\r\n', "POST", body=b"hello"),
    Case(
        "trailers",
        CHUNKED + b"0\r\nX: y\r\nOrigin: z\r\n\r\n",
        "POST",
        headers={"host": "h", "transfer-encoding": "chunked"},
    ),
    Case("the coding in capitals", head("TRANSFER-ENCODING: CHUNKED", start=POST) + b"0\r\n\r\n", "POST"),
    Case(
        "the longest chunked body, byte by byte",
        CHUNKED + b"1\r\nx\r\n" * BODY_LIMIT + b"0\r\n\r\n",
        "POST",
        body=b"x" * BODY_LIMIT,
    ),
    Case("an expectation", head("Expect: 100-continue", "Content-Length: 2", start=POST) + b"ab", "POST", body=b"ab"),
    Case("another expectation", head("Expect: the-best", "Content-Length: 2", start=POST) + b"ab", "POST", body=b"ab"),
    Case(
        "an upgrade to something else",
        head(
            "Connection: Upgrade, HTTP2-Settings",
            "Upgrade: h2c",
            "HTTP2-Settings: AAM",
            "Content-Length: 5",
            start=POST,
        )
        + b"hello",
        "POST",
        body=b"hello",
        headers={"host": "h", "connection": "Upgrade, HTTP2-Settings", "http2-settings": "AAM", "content-length": "5"},
    ),
    Case(
        "an upgrade to something else, in chunks",
        head("Connection: upgrade", "Upgrade: h2c", "Transfer-Encoding: chunked", start=POST) + b"2\r\nab\r\n0\r\n\r\n",
        "POST",
        body=b"ab",
    ),
    Case(
        "1.0 with an upgrade",
        head("Connection: Upgrade", "Upgrade: websocket", start="GET / HTTP/1.0"),
        version="1.0",
        keep_alive=False,
    ),
    Case("an upgrade without Connection", head("Upgrade: websocket"), headers={"host": "h", "upgrade": "websocket"}),
]

BAD = [
    Case("nothing but noise", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", status=400),
    Case("a method that is none", head(start="FOO / HTTP/1.1"), status=400),
    Case("a method in small letters", head(start="get / HTTP/1.1"), status=400),
    Case("no target", head(start="GET HTTP/1.1"), status=400),
    Case("a target with a space", head(start="GET /a b HTTP/1.1"), status=400),
    Case("a target with a control character", head(start="GET /a\x01 HTTP/1.1"), status=400),
    Case("a target beyond ASCII", head(start="GET /\xe9 HTTP/1.1"), status=400),
    Case("no version", b"GET /\r\n\r\n", status=400),
    Case("version 0.9", head(start="GET / HTTP/0.9"), status=400),
    Case("version 2.0", head(start="GET / HTTP/2.0"), status=400),
    Case("version 1.2", head(start="GET / HTTP/1.2"), status=400),
    Case("a version that is none", head(start="GET / HTTP/x"), status=400),
    Case("the start of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", status=400),
    Case("1.1 without host", head(host=False), status=400),
    Case("two hosts", head("Host: h"), status=400),
    Case("hosts in one header", head("Host: a, b", host=False), status=400),
    Case("a host with a path", head("Host: a/b", host=False), status=400),
    Case("a host with a user", head("Host: a@b", host=False), status=400),
    Case("a host with a space", head("Host: a b", host=False), status=400),
    Case("a header without colon", head("nothing"), status=400),
    Case("a header without name", head(": x"), status=400),
    Case("a space before the colon", head("X : y"), status=400),
    Case("a space before the name", head(" X: y"), status=400),
    Case("a folded header", head("X: y", " z"), status=400),
    Case("a name with a bracket", head("X(y): z"), status=400),
    Case("a name beyond ASCII", head("\xe9: z"), status=400),
    Case("a null byte in a value", head("X: a\0b"), status=400),
    Case("a control character in a value", head("X: a\x1bb"), status=400),
    Case("a lone CR", head("X: a\rY: b"), status=400),
    Case("a lone LF", head("X: a\nY: b"), status=400),
    Case("nothing but LF", head().replace(b"\r\n", b"\n"), status=400),
    Case("two lengths", head("Content-Length: 1", "Content-Length: 2", start=POST), status=400),
    Case("the same length twice", head("Content-Length: 1", "Content-Length: 1", start=POST), status=400),
    Case("a list of lengths", head("Content-Length: 1, 1", start=POST), status=400),
    Case("a negative length", head("Content-Length: -1", start=POST), status=400),
    Case("a length that is no number", head("Content-Length: x", start=POST), status=400),
    Case("an empty length", head("Content-Length:", start=POST), status=400),
    Case("a length beyond any number", head("Content-Length: " + "9" * 30, start=POST), status=400),
    Case("length and coding", head("Content-Length: 5", "Transfer-Encoding: chunked", start=POST), status=400),
    Case("coding and length", head("Transfer-Encoding: chunked", "Content-Length: 5", start=POST), status=400),
    Case("1.0 with a coding", head("Transfer-Encoding: chunked", start="POST / HTTP/1.0"), status=400),
    Case("compressed chunks", head("Transfer-Encoding: gzip, chunked", start=POST), status=501),
    Case("two codings", head("Transfer-Encoding: identity", "Transfer-Encoding: chunked", start=POST), status=501),
    Case("chunks inside something", head("Transfer-Encoding: chunked, identity", start=POST), status=400),
    Case("a chunk size that is none", CHUNKED + b"g\r\n", status=400),
    Case("an empty chunk size", CHUNKED + b"\r\n", status=400),
    Case("a negative chunk size", CHUNKED + b"-1\r\n", status=400),
    Case("a chunk size beyond any number", CHUNKED + b"f" * 17 + b"\r\n", status=400),
    Case("a chunk longer than its size", CHUNKED + b"1\r\nab\r\n0\r\n\r\n", status=400),
    Case("a chunk that ends in LF", CHUNKED + b"1\r\na\n0\r\n\r\n", status=400),
    Case("a trailer without colon", CHUNKED + b"0\r\nnothing\r\n\r\n", status=400),
    Case("a body that is announced too long", head(f"Content-Length: {BODY_LIMIT + 1}", start=POST), status=413),
    Case(
        "a chunked body that is too long", CHUNKED + b"%x\r\n" % (BODY_LIMIT + 1) + b"x" * (BODY_LIMIT + 1), status=413
    ),
    Case(
        "a body in chunks that is too long",
        CHUNKED + b"100\r\n%s\r\n" % (b"x" * 256) * (BODY_LIMIT // 256 + 1),
        status=413,
    ),
    Case("a target that is too long", head(start="GET /" + "a" * HEADER_LIMIT + " HTTP/1.1"), status=431),
    Case("a value that is too long", head("X: " + "a" * HEADER_LIMIT), status=431),
    Case("a name that is too long", head("a" * HEADER_LIMIT + ": x"), status=431),
    Case("too many headers", head(*(f"X{number}: y" for number in range(HEADER_LIMIT // 5))), status=431),
    Case("a repeated header that is too long", head(*["X: y"] * (HEADER_LIMIT // 4)), status=431),
    Case(
        "a WebSocket with a body",
        head("Connection: Upgrade", "Upgrade: websocket", "Content-Length: 1") + b"a",
        status=400,
    ),
    Case(
        "a WebSocket with chunks",
        head("Connection: Upgrade", "Upgrade: websocket", "Transfer-Encoding: chunked"),
        status=400,
    ),
]


def names(case: Case) -> str:
    return case.name


def check(case: Case, reading: HttpReading) -> None:
    assert reading.status is None, reading.message
    request = reading.requests[0]
    assert (request.method, request.target, request.version) == (case.method, case.target, case.version)
    assert request.body == case.body
    assert (request.keep_alive, request.upgrade) == (case.keep_alive, case.upgrade)
    if case.headers:
        assert request.headers == case.headers


@pytest.mark.parametrize("case", GOOD, ids=names)
def test_a_request_is_read_whole(case: Case) -> None:
    reading = read_http(case.data)
    check(case, reading)
    assert len(reading.requests) == 1
    assert not reading.in_request


@pytest.mark.parametrize("case", GOOD, ids=names)
def test_a_request_is_read_byte_by_byte(case: Case) -> None:
    reading = read_http(case.data, one_by_one(case.data))
    check(case, reading)
    assert len(reading.requests) == 1
    assert not reading.in_request


@pytest.mark.parametrize("case", GOOD, ids=names)
def test_no_byte_of_a_request_can_be_missing(case: Case) -> None:
    for length in range(1, len(case.data), max(1, len(case.data) // 200)):
        reading = read_http(case.data[:length])
        assert reading.requests == []
        assert reading.status is None
        assert reading.in_request


@pytest.mark.parametrize("case", [case for case in GOOD if case.keep_alive], ids=names)
def test_the_start_of_the_next_request_may_follow(case: Case) -> None:
    for sizes in ([], one_by_one(case.data + b"GE")):
        reading = read_http(case.data + b"GE", sizes)
        check(case, reading)
        assert len(reading.requests) == 1
        assert reading.in_request


@pytest.mark.parametrize("case", [case for case in GOOD if case.keep_alive], ids=names)
def test_complete_requests_may_follow(case: Case) -> None:
    data = (
        case.data + head("Content-Length: 2", start="POST /second HTTP/1.1") + b"ok" + head(start="GET /third HTTP/1.1")
    )
    for sizes in ([], one_by_one(data), [len(case.data) - 1], [len(case.data) + 1], [7] * len(data)):
        reading = read_http(data, sizes)
        check(case, reading)
        assert [(request.target, request.body) for request in reading.requests[1:]] == [
            ("/second", b"ok"),
            ("/third", b""),
        ]


@pytest.mark.parametrize("case", GOOD, ids=names)
def test_a_request_before_nonsense_is_not_lost(case: Case) -> None:
    data = case.data + b"\x00nonsense"
    for sizes in ([], one_by_one(data)):
        reading = read_http(data, sizes)
        assert reading.status == 400
        reading.status = None
        check(case, reading)
        assert len(reading.requests) == 1


@pytest.mark.parametrize("case", BAD, ids=names)
def test_what_is_no_request_is_refused_with_its_status(case: Case) -> None:
    for sizes in ([], one_by_one(case.data)):
        reading = read_http(case.data, sizes)
        assert (reading.requests, reading.status) == ([], case.status)
        assert reading.message


@pytest.mark.parametrize("case", BAD, ids=names)
def test_nothing_is_read_after_what_is_no_request(case: Case) -> None:
    parser = RequestParser(HEADER_LIMIT, BODY_LIMIT)
    assert parser.feed(case.data) == []
    assert parser.error is not None
    assert parser.feed(head()) == []
    assert parser.error.status == case.status
    assert str(parser.error) == parser.error.message


# -- limits ------------------------------------------------------------------------------------------------------------


def test_a_head_of_exactly_the_limit_is_read_however_it_is_cut() -> None:
    data = head("X: " + "a" * (HEADER_LIMIT - len(head("X: "))))
    assert len(data) == HEADER_LIMIT
    for sizes in ([], one_by_one(data), [HEADER_LIMIT - 1], [1]):
        assert len(read_http(data, sizes).requests) == 1


def test_a_long_body_before_it_does_not_count_as_part_of_the_next_head() -> None:
    first = head(f"Content-Length: {BODY_LIMIT}", start=POST) + b"x" * BODY_LIMIT
    second = head("X: " + "a" * (HEADER_LIMIT - 100))
    data = first * 3 + second
    for cut in (len(first) * 3 + 1, len(first) * 3 + 500, len(data) - 1):
        reading = read_http(data, [cut])
        assert (len(reading.requests), reading.status) == (4, None)


@pytest.mark.parametrize(
    ("start", "repeated", "status"),
    [
        (b"", b"\r\n", 431),
        (b"GET /", b"a", 431),
        (b"GET / HTTP/1.1\r\n", b"a", 431),
        (b"GET / HTTP/1.1\r\nX:", b" ", 431),
        (b"GET / HTTP/1.1\r\nX: ", b"a", 431),
        (b"GET / HTTP/1.1\r\n", b"X: y\r\n", 431),
        (CHUNKED, b"0", 413),
        (CHUNKED + b"1;", b"a", 413),
        (CHUNKED + b"1;a=", b"a", 413),
        (CHUNKED + b"1;", b"a=b;", 413),
        (CHUNKED + b"0\r\n", b"X: y\r\n", 413),
        (CHUNKED + b"0\r\nX:", b" ", 413),
        (CHUNKED + b"0\r\nX: ", b"a", 413),
        (CHUNKED, b"1;" + b"a" * 100 + b"\r\nx\r\n", 413),
    ],
)
@pytest.mark.parametrize("size", [1, 17, 1000])
def test_no_part_of_a_request_can_be_endless(start: bytes, repeated: bytes, status: int, size: int) -> None:
    parser = RequestParser(HEADER_LIMIT, BODY_LIMIT)
    parser.feed(start)
    block = repeated * -(-size // len(repeated))
    sent = 0
    while parser.error is None:
        parser.feed(block)
        sent += len(block)
        assert sent <= 20 * (HEADER_LIMIT + BODY_LIMIT)
    assert parser.error.status == status


def test_trailers_do_not_become_headers() -> None:
    reading = read_http(CHUNKED + b"0\r\nContent-Type: text/plain\r\nOrigin: evil\r\n\r\n")
    assert set(reading.requests[0].headers) == {"host", "transfer-encoding"}


# -- the connection ----------------------------------------------------------------------------------------------------


def test_a_client_that_waits_for_a_go_ahead_is_noticed_until_its_body_is_there() -> None:
    parser = RequestParser(HEADER_LIMIT, BODY_LIMIT)
    parser.feed(head("Expect: 100-Continue", "Content-Length: 2", start=POST))
    assert parser.expects_continue
    assert len(parser.feed(b"ab")) == 1
    assert not parser.expects_continue


def test_http_1_0_knows_no_go_ahead() -> None:
    parser = RequestParser(HEADER_LIMIT, BODY_LIMIT)
    parser.feed(head("Expect: 100-continue", "Content-Length: 2", start="POST / HTTP/1.0"))
    assert not parser.expects_continue


@pytest.mark.parametrize("rest", [b"", b"\x81\x84abcd", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x00" * 5000])
def test_what_follows_a_request_for_a_websocket_is_left_over_untouched(rest: bytes) -> None:
    data = SOCKET + rest
    for sizes in ([], one_by_one(data), [len(SOCKET)], [len(SOCKET) + 1]):
        reading = read_http(data, sizes)
        assert [(request.method, request.upgrade) for request in reading.requests] == [("GET", True)]
        assert reading.leftover == rest
        assert reading.status is None


def test_a_request_for_a_websocket_may_say_that_it_has_no_body() -> None:
    reading = read_http(head("Connection: Upgrade", "Upgrade: websocket", "Content-Length: 0") + b"ab")
    assert [request.upgrade for request in reading.requests] == [True]
    assert (reading.leftover, reading.status) == (b"ab", None)


def test_requests_before_one_for_a_websocket_come_first() -> None:
    data = head(start="GET /first HTTP/1.1") + SOCKET + b"frames"
    for sizes in ([], one_by_one(data)):
        reading = read_http(data, sizes)
        assert [(request.target, request.upgrade) for request in reading.requests] == [("/first", False), ("/", True)]
        assert reading.leftover == b"frames"


def test_many_ignored_upgrades_in_one_piece_are_all_read() -> None:
    data = head("Connection: upgrade", "Upgrade: h2c", "Content-Length: 2", start=POST) + b"ab"
    reading = read_http(data * 3000)
    assert len(reading.requests) == 3000
    assert {request.body for request in reading.requests} == {b"ab"}


def test_a_tunnel_takes_over_the_connection() -> None:
    reading = read_http(head(start="CONNECT h:80 HTTP/1.1") + b"secret")
    assert [(request.method, request.upgrade) for request in reading.requests] == [("CONNECT", True)]
    assert reading.leftover == b"secret"


# -- paths -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("/", "/", ""),
        ("/a/b", "/a/b", ""),
        ("/a?b=c", "/a", "b=c"),
        ("/a?b?c", "/a", "b?c"),
        ("/a%20b?c%20d", "/a b", "c%20d"),
        ("/%C3%A9", "/é", ""),
        ("/%FF", "/\ufffd", ""),
        ("/%", "/%", ""),
        ("/a%3Fb", "/a?b", ""),
        ("/..%2Fetc", "/../etc", ""),
        ("//a", "//a", ""),
        ("*", "*", ""),
        ("http://h", "/", ""),
        ("http://h?q", "/", "q"),
        ("http://h:80/a/b?q", "/a/b", "q"),
        ("HTTPS://u@h/a", "/a", ""),
        ("/http://h/a", "/http://h/a", ""),
    ],
)
def test_the_target_is_split_into_path_and_query(target: str, path: str, query: str) -> None:
    request = HttpRequest("GET", target, "1.1", {}, keep_alive=True, upgrade=False)
    assert (request.path, request.query) == (path, query)


# -- requests that are handed out early --------------------------------------------------------------------------------


def test_a_request_can_be_had_before_its_body_which_is_taken_as_it_comes() -> None:
    parser = RequestParser(HEADER_LIMIT, BODY_LIMIT, hands_out_early=True)
    (request,) = parser.feed(head("Content-Length: 6", start=POST) + b"a")
    assert (request.method, request.body, request.is_complete, parser.untaken) == ("POST", b"a", False, 1)
    assert parser.feed(b"bc") == []
    assert (request.body, request.is_complete, parser.untaken) == (b"abc", False, 3)
    assert parser.take_body(request) == b"abc"
    assert (request.body, parser.untaken) == (b"", 0)
    begun = parser.in_request
    (following,) = parser.feed(b"def" + head())
    assert (request.body, request.is_complete, parser.untaken) == (b"def", True, 3)
    assert (following.body, following.is_complete) == (b"", True)
    assert (begun, parser.in_request) == (True, False)
    assert parser.take_body(request) == b"def"
    assert parser.take_body(request) == b""
    assert parser.untaken == 0


def test_a_request_in_chunks_that_is_had_early_has_its_body_however_it_is_cut() -> None:
    data = CHUNKED + b"1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"
    for size in (1, 7, len(data)):
        parser = RequestParser(HEADER_LIMIT, BODY_LIMIT, hands_out_early=True)
        pieces = [data[start : start + size] for start in range(0, len(data), size)]
        (request,) = [each for piece in pieces for each in parser.feed(piece)]
        assert (request.body, request.is_complete, parser.untaken) == (b"abc", True, 3)


def test_a_body_that_becomes_too_long_after_its_request_was_had_is_an_error() -> None:
    parser = RequestParser(HEADER_LIMIT, BODY_LIMIT, hands_out_early=True)
    (request,) = parser.feed(CHUNKED)
    parser.feed(b"%x\r\n" % (BODY_LIMIT + 1) + b"x" * (BODY_LIMIT + 1))
    assert parser.error is not None
    assert parser.error.status == 413
    assert not request.is_complete


# -- responses ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", REASONS)
def test_a_response_head_is_status_line_headers_and_an_empty_line(status: int) -> None:
    expected = f"HTTP/1.1 {status} {REASONS[status]}\r\nA: 1\r\nB: 2\r\n\r\n"
    assert response_head(status, [("A", "1"), ("B", "2")]) == expected.encode()


# HTTP itself has other names for these than older releases of Python: RFC 9110, section 15.5.
RENAMED = {413: "Content Too Large", 414: "URI Too Long", 416: "Range Not Satisfiable", 422: "Unprocessable Content"}


def test_each_status_has_the_reason_of_the_specification() -> None:
    statuses = [100, 101, 200, 201, 202, 204, 206, 301, 302, 303, 304, 307, 308, *range(400, 407), *range(408, 417)]
    statuses += [422, 424, 426, 428, 429, 431, 500, 501, 502, 503, 504, 507]
    statuses.remove(402)
    assert {status: RENAMED.get(status, HTTPStatus(status).phrase) for status in statuses} == REASONS
    assert response_head(299, []) == b"HTTP/1.1 299 \r\n\r\n"


def test_a_name_that_is_no_name_of_a_header_is_refused() -> None:
    with pytest.raises(ValueError, match="'a: b' is not a header name"):
        response_head(200, [("a: b", "c")])


def test_a_header_value_cannot_add_a_header_or_end_the_head() -> None:
    found = response_head(200, [("Origin", "x\r\nSet-Cookie: a\r\n\r\n<html>"), ("B", "\u20ac\xe9")])
    assert found == b"HTTP/1.1 200 OK\r\nOrigin: xSet-Cookie: a<html>\r\nB: ?\xe9\r\n\r\n"


@pytest.mark.parametrize(("data", "text"), [(b"a", b"1\r\na\r\n"), (b"x" * 255, b"ff\r\n" + b"x" * 255 + b"\r\n")])
def test_a_chunk_carries_its_size_in_hexadecimal(data: bytes, text: bytes) -> None:
    assert chunk(data) == text
    assert LAST_CHUNK == b"0\r\n\r\n"
