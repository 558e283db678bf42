from __future__ import annotations

import gzip
import zlib

import pytest

from tests.conformance.phrases import HEAD, add, answer, batch, create, heard, row
from tests.support.background import BackgroundServer
from tests.support.raw import Exchange, Http, params, tags

QUERY = "LS_protocol=TLCP-2.4.0"

IGNORED = {
    "Cache-Control": "max-age=1000",
    "Keep-Alive": "timeout=5",
    "Date": "Tue, 15 Nov 1994 08:12:31 GMT",
    "Pragma": "cache",
    "Trailer": "Expires",
    "Via": "1.0 fred",
    "Warning": '112 - "cache down"',
    "Accept": "image/png",
    "Accept-Charset": "utf-16",
    "Accept-Language": "da",
    "From": "webmaster@example.org",
    "If-Match": '"xyzzy"',
    "If-None-Match": '"xyzzy"',
    "If-Range": '"xyzzy"',
    "If-Unmodified-Since": "Sat, 29 Oct 1994 19:43:31 GMT",
    "Range": "bytes=0-1",
    "TE": "deflate",
    "Content-Base": "http://example.org/",
    "Content-Language": "mi, en",
    "Content-Location": "/index.html",
    "Content-MD5": "Q2hlY2sgSW50ZWdyaXR5IQ==",
    "Expires": "Thu, 01 Dec 1994 16:00:00 GMT",
    "Last-Modified": "Tue, 15 Nov 1994 12:45:26 GMT",
    "X-Extension": "anything",
}
UNUSED = (
    "trailer", "warning", "accept-ranges", "age", "etag", "location", "proxy-authenticate", "public", "retry-after",
    "vary", "allow", "content-base", "content-language", "content-location", "content-md5", "content-range",
)  # fmt: skip


def message(http: Http, session: str, body: bytes, **headers: str) -> list[str]:
    """Send a message whose text tells how the body was understood."""
    http.post(
        "msg", body, f"{QUERY}&LS_session={session}", headers={k.replace("_", "-"): v for k, v in headers.items()}
    )
    return answer(http)


# -- request headers ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [row(f"http.request.{name}", name) for name in IGNORED])
def test_a_request_header_is_ignored(exchange: Exchange, name: str) -> None:
    with exchange.http() as http:
        http.post("create_session", create(polling=True), headers={name: IGNORED[name]})
        assert tags(answer(http)) == [*HEAD, "LOOP"]
        assert http.status == 200


@pytest.mark.conformance("http.request.Transfer-Encoding")
def test_a_request_body_may_come_in_chunks(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.http() as http:
        head = f"POST /lightstreamer/msg.txt?{QUERY}&LS_session={stream.session} HTTP/1.1\r\nHost: localhost\r\n"
        http.send(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        for part in (b"LS_reqId=1&LS_mess", b"age=caf\xc3", b"\xa9&LS_outcome=false"):
            http.send(b"%x;name=value\r\n%s\r\n" % (len(part), part))
        http.send(b"0\r\nX-Trailer: ignored\r\n\r\n")
        assert answer(http) == ["REQOK,1"]
        assert heard(server) == ["café"]
        http.post("heartbeat")
        assert answer(http) == ["REQOK"]


@pytest.mark.conformance("http.request.Accept-Encoding")
def test_a_long_answer_is_compressed_for_those_who_accept_gzip(exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.http() as http:
        body = "\r\n".join(params(reqId=f"request{number:05}", op="constrain") for number in range(200))
        for accepted in ("gzip", "deflate, gzip;q=0.5", "GZIP"):
            headers = {"Accept-Encoding": accepted}
            http.post("control", body, f"{QUERY}&LS_session={stream.session}", headers=headers)
            http.read_head()
            assert http.headers["content-encoding"] == "gzip"
            compressed = http.read_body()
            assert len(compressed) == int(http.headers["content-length"]) < 2000
            assert gzip.decompress(compressed).decode().split("\r\n")[199] == "REQOK,request00199"


@pytest.mark.conformance("http.request.Accept-Encoding.none")
def test_an_answer_is_not_compressed_when_short_or_not_asked_for(exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.http() as http:
        body = "\r\n".join(params(reqId=f"request{number:05}", op="constrain") for number in range(200))
        for accepted in ("", "identity", "deflate, br", "gzip;q=0", "gzip; q=0.0"):
            headers = {"Accept-Encoding": accepted}
            http.post("control", body, f"{QUERY}&LS_session={stream.session}", headers=headers)
            assert len(answer(http)) == 200
            assert "content-encoding" not in http.headers
        http.post("heartbeat", headers={"Accept-Encoding": "gzip"})
        assert answer(http) == ["REQOK"]
        assert "content-encoding" not in http.headers


@pytest.mark.conformance("http.response.Content-Encoding.stream")
@pytest.mark.config({"session.use_compression": "always"})
def test_a_stream_is_compressed_and_flushed_line_by_line_when_configured(
    server: BackgroundServer, exchange: Exchange
) -> None:
    with exchange.http() as http:
        http.post("create_session", f"{create()}&{add()}", headers={"Accept-Encoding": "gzip"})
        http.read_head()
        assert http.headers["content-encoding"] == "gzip"
        decompressor = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        text = b""
        while b"CONF,1" not in text:
            text += decompressor.decompress(http.read_some())
        server.update("a", x="1")
        assert decompressor.decompress(http.read_some()) == b"U,1,1,1\r\n"


@pytest.mark.parametrize(
    ("coding", "compress"),
    [
        row("http.request.Content-Encoding", "gzip", gzip.compress),
        row("http.request.Content-Encoding.deflate", "deflate", zlib.compress),
        row("http.request.Content-Encoding.identity", "identity", bytes),
    ],
)
def test_a_request_body_may_be_encoded(
    server: BackgroundServer, exchange: Exchange, coding: str, compress: type[bytes]
) -> None:
    with exchange.stream() as stream, exchange.http() as http:
        body = compress("LS_reqId=1&LS_outcome=false&LS_message=café".encode())
        assert message(http, stream.session, body, Content_Encoding=coding) == ["REQOK,1"]
        assert heard(server) == ["café"]


@pytest.mark.conformance("http.request.Content-Encoding.unknown")
def test_an_encoding_that_is_not_known_or_broken_is_error_67_naming_it(exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.http() as http:
        (line,) = message(http, stream.session, b"x", Content_Encoding="br")
        assert line.startswith("ERROR,67,Content-Encoding 'br' is not supported")
        (line,) = message(http, stream.session, b"LS_reqId=1", Content_Encoding="gzip")
        assert line.startswith("ERROR,67,The request body is not valid gzip")
        (line,) = message(http, stream.session, gzip.compress(b"LS_reqId=1&LS_op=add")[:-9], Content_Encoding="gzip")
        assert line.startswith("ERROR,67,")


@pytest.mark.conformance("http.request.Content-Range")
def test_a_request_with_content_range_is_refused_naming_it(exchange: Exchange) -> None:
    with exchange.http() as http:
        http.post("create_session", create(), headers={"Content-Range": "bytes 0-1/2"})
        assert http.read_head() == 400
        assert "Content-Range" in http.read_body().decode()


@pytest.mark.conformance("http.request.Content-Type")
def test_a_request_is_processed_whatever_its_content_type(exchange: Exchange) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/json", "image/png", "nonsense", ""):
        with exchange.http() as http:
            http.post("create_session", create(polling=True), headers={"Content-Type": kind})
            assert tags(answer(http)) == [*HEAD, "LOOP"]


@pytest.mark.parametrize(
    ("charset", "encoding"),
    [
        row("http.request.charset", "utf-8", "utf-8"),
        row("http.request.charset.latin", "ISO-8859-1", "latin-1"),
        row("http.request.charset.windows", '"windows-1252"', "cp1252"),
        row("http.request.charset.utf-16", "utf-16", "utf-16"),
    ],
)
def test_the_charset_of_a_request_body_is_obeyed_but_percent_encoding_is_always_utf_8(
    server: BackgroundServer, exchange: Exchange, charset: str, encoding: str
) -> None:
    with exchange.stream() as stream, exchange.http() as http:
        body = "LS_reqId=1&LS_outcome=false&LS_message=café %C3%A9".encode(encoding)
        kind = f"text/plain; charset={charset}"
        assert message(http, stream.session, body, Content_Type=kind) == ["REQOK,1"]
        assert heard(server) == ["café é"]


@pytest.mark.conformance("http.request.charset.unknown")
def test_a_charset_that_is_not_known_or_not_obeyed_is_error_67_naming_it(exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.http() as http:
        for charset in ("klingon", "base64", "zip"):
            (line,) = message(http, stream.session, b"LS_reqId=1", Content_Type=f"text/plain; charset={charset}")
            assert line.startswith(f"ERROR,67,Content-Type charset '{charset}'")
        (line,) = message(http, stream.session, b"LS_reqId=1&LS_message=caf\xe9", Content_Type="text/plain")
        assert line.startswith("ERROR,67,The request body is not valid utf-8 at byte 25")


@pytest.mark.conformance("http.request.headers-to-adapter")
def test_the_metadata_adapter_sees_the_headers_of_the_creation(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.http() as http:
        headers = {"Cookie": "a=1", "X-Token": "t"}
        http.post("create_session", create(polling=True), headers=headers)
        answer(http)
        (client,) = server.metadata.clients
        assert client.headers["cookie"] == "a=1"
        assert client.headers["x-token"] == "t"
        assert client.address == "127.0.0.1"
        assert not client.secure


# -- response headers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        row("http.response.Cache-Control", "cache-control", ["no-store", "no-transform", "no-cache"]),
        row("http.response.Pragma", "pragma", ["no-cache"]),
        row("http.response.Expires", "expires", ["Thu, 1 Jan 1970 00:00:00 GMT"]),
        row("http.response.Content-Type", "content-type", ["text/plain; charset=utf-8"]),
    ],
)
def test_a_response_header_is_on_every_answer(exchange: Exchange, name: str, expected: list[str]) -> None:
    with exchange.stream() as stream, exchange.http() as http:
        assert all(part in stream.http.headers[name] for part in expected)
        for request, body in (("heartbeat", ""), ("create_session", create(user="nobody")), ("control", "nonsense")):
            http.post(request, body)
            answer(http)
            assert all(part in http.headers[name] for part in expected)


@pytest.mark.conformance("http.response.Transfer-Encoding")
def test_a_stream_is_chunked_and_an_answer_has_a_length(exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.http() as http:
        assert stream.http.headers["transfer-encoding"] == "chunked"
        assert "content-length" not in stream.http.headers
        http.post("create_session", create(user="nobody"))
        body = answer(http)
        assert "transfer-encoding" not in http.headers
        assert int(http.headers["content-length"]) == len(body[0]) + 2


@pytest.mark.conformance("http.response.unused")
def test_headers_that_are_not_used_are_never_sent(exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.http() as http:
        batch(exchange, stream.session, add())
        http.post("heartbeat")
        answer(http)
        for name in UNUSED:
            assert name not in http.headers
            assert name not in stream.http.headers


@pytest.mark.conformance("http.response.Server")
@pytest.mark.config({"server.name": "Weir", "server.server_tokens": "minimal"})
def test_an_answer_names_the_server_and_its_time(exchange: Exchange) -> None:
    with exchange.http() as http:
        http.post("heartbeat")
        answer(http)
        assert http.headers["server"] == "Weir"
        assert http.headers["date"].endswith("GMT")


# -- cross-origin requests ---------------------------------------------------------------------------------------------

PAGE = "https://page.example.com"
ALLOWED = {"cors.allow_origins": ("https://page.example.com",)}


@pytest.mark.conformance("cors.answer")
def test_every_answer_to_a_page_of_another_origin_allows_it_with_credentials(exchange: Exchange) -> None:
    with exchange.http() as http:
        for request, body in (
            ("heartbeat", ""),
            ("create_session", create(user="nobody")),
            ("unknown", ""),
            ("create_session", create()),
        ):
            http.post(request, body, headers={"Origin": PAGE})
            assert http.read_head() == 200
            assert http.headers["access-control-allow-origin"] == PAGE
            assert http.headers["access-control-allow-credentials"] == "true"
            if "content-length" in http.headers:
                http.read_body()


@pytest.mark.conformance("cors.no-origin")
def test_an_answer_to_a_request_without_origin_has_no_cross_origin_headers(exchange: Exchange) -> None:
    with exchange.http() as http:
        http.post("heartbeat")
        answer(http)
        assert not [name for name in http.headers if name.startswith("access-control")]


@pytest.mark.conformance("cors.credentials")
@pytest.mark.config({"cors.accept_credentials": False})
def test_credentials_are_not_allowed_when_configured_so(exchange: Exchange) -> None:
    with exchange.http() as http:
        http.post("heartbeat", headers={"Origin": PAGE})
        answer(http)
        assert http.headers["access-control-allow-origin"] == PAGE
        assert "access-control-allow-credentials" not in http.headers


@pytest.mark.conformance("cors.preflight")
@pytest.mark.config({"cors.accept_extra_headers": ("X-Token",), "cors.options_max_age": 77})
def test_a_preflight_request_is_answered_with_what_is_allowed(exchange: Exchange) -> None:
    with exchange.http() as http:
        asked = {
            "Origin": PAGE,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "x-token, content-type",
        }
        http.get("/lightstreamer/create_session.txt?" + QUERY, headers=asked, method="OPTIONS")
        assert http.read_head() == 204
        # Twice the same would be joined by a comma, and no browser takes that.
        assert http.headers["access-control-allow-origin"] == PAGE
        assert http.headers["access-control-allow-credentials"] == "true"
        assert {"GET", "POST"} <= set(http.headers["access-control-allow-methods"].split(", "))
        assert {"X-Token", "Content-Type"} <= set(http.headers["access-control-allow-headers"].split(", "))
        assert http.headers["access-control-max-age"] == "77"
        http.post("heartbeat")
        assert answer(http) == ["REQOK"]


@pytest.mark.conformance("cors.disallowed")
@pytest.mark.config(ALLOWED)
def test_a_page_of_an_origin_that_is_not_allowed_gets_403_and_has_no_effect(
    server: BackgroundServer, exchange: Exchange
) -> None:
    with exchange.http() as http:
        for origin in ("https://evil.example.com", "http://page.example.com", "https://page.example.com.evil", "null"):
            http.post("create_session", create(polling=True), headers={"Origin": origin})
            assert http.read_head() == 403
            assert origin in http.read_body().decode()
            assert "access-control-allow-origin" not in http.headers
        assert server.metadata.clients == []
        http.post("create_session", create(polling=True), headers={"Origin": PAGE})
        assert answer(http)[0].startswith("CONOK,")
        assert http.headers["access-control-allow-origin"] == PAGE


@pytest.mark.conformance("cors.disallowed.preflight")
@pytest.mark.config(ALLOWED)
def test_a_preflight_of_an_origin_that_is_not_allowed_allows_nothing(exchange: Exchange) -> None:
    with exchange.http() as http:
        headers = {"Origin": "https://evil.example.com", "Access-Control-Request-Method": "POST"}
        http.get("/lightstreamer/control.txt", headers=headers, method="OPTIONS")
        http.read_head()
        assert "access-control-allow-origin" not in http.headers
