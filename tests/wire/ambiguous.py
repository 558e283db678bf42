"""Requests that two readers could understand differently, and what h11 reads in the same bytes.

Most hide a second request, GET /smuggled, where a reader that measures the first one differently would find it.
"""

from __future__ import annotations

from typing import NamedTuple

import h11

TARGET = "/lightstreamer/heartbeat.txt?LS_protocol=TLCP-2.4.0"
SMUGGLED = "GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"
LENGTH = len(SMUGGLED)
IN_CHUNK = f"{LENGTH:x}\r\n{SMUGGLED}\r\n"


def post(*lines: str, body: str = "", start: str = f"POST {TARGET} HTTP/1.1", host: str = "Host: h") -> bytes:
    return ("\r\n".join([start, host, *lines, "", ""]) + body).encode("latin-1")


def chunked(body: str) -> bytes:
    return post("Transfer-Encoding: chunked", body=body)


def _lengths() -> dict[str, bytes]:
    """Content-Length in every form but one number."""
    forms = {
        "plus": f"+{LENGTH}",
        "minus": f"-{LENGTH}",
        "hexadecimal": f"0x{LENGTH:x}",
        "decimal point": f"{LENGTH}.0",
        "exponent": "1e1",
        "underscore": "3_6",
        "list of equals": f"{LENGTH}, {LENGTH}",
        "list of different": f"0, {LENGTH}",
        "list with nothing": f"{LENGTH},",
        "two numbers": f"0 {LENGTH}",
        "empty": "",
        "blank": " \t ",
        "word": "chunked",
        "quoted": f'"{LENGTH}"',
        "parameter": f"{LENGTH};a=b",
        "form feed": f"\x0c{LENGTH}",
        "vertical tab": f"{LENGTH}\x0b",
        "null byte": f"{LENGTH}\0",
        "superscript": "3\xb2",
        "no-break space": f"\xa0{LENGTH}",
        "wraps around 32 bits": str(2**32 + LENGTH),
        "wraps around 64 bits": str(2**64 + LENGTH),
        "wraps around 128 bits": str(2**128 + LENGTH),
        "endless": "9" * 400,
    }
    return {f"length {name}": post(f"Content-Length: {value}", body=SMUGGLED) for name, value in forms.items()}


def _codings() -> dict[str, bytes]:
    """Transfer-Encoding in every form but `chunked`, over a body that is both chunked and a request."""
    forms = {
        "identity": "identity",
        "gzip": "gzip",
        "gzip before": "gzip, chunked",
        "gzip after": "chunked, gzip",
        "identity before": "identity, chunked",
        "identity after": "chunked, identity",
        "twice": "chunked, chunked",
        "comma before": ", chunked",
        "comma after": "chunked,",
        "commas": "chunked,,",
        "quoted": '"chunked"',
        "single quoted": "'chunked'",
        "parameter": "chunked;q=1",
        "prefix": "xchunked",
        "suffix": "chunkedx",
        "hyphen": "chunked-",
        "split": "chun ked",
        "empty": "",
        "word after": "chunked x",
        "null byte": "chunked\0",
        "vertical tab": "\x0bchunked",
        "form feed": "chunked\x0c",
        "no-break space": "\xa0chunked",
        "beyond ASCII": "chunked\xe9",
        "long s": "chun\xebed",
        "backspace": "x\x08chunked",
    }
    found = {f"coding {name}": post(f"Transfer-Encoding: {value}", body="0\r\n\r\n") for name, value in forms.items()}
    found |= {
        f"coding {name} with length": post(f"Transfer-Encoding: {value}", "Content-Length: 5", body="0\r\n\r\n")
        for name, value in forms.items()
    }
    return found


def _both() -> dict[str, bytes]:
    """Content-Length and Transfer-Encoding together, and each more than once."""
    end = "0\r\n\r\n"
    whole = len(end + SMUGGLED)
    return {
        "length then coding": post(f"Content-Length: {whole}", "Transfer-Encoding: chunked", body=end + SMUGGLED),
        "coding then length": post("Transfer-Encoding: chunked", f"Content-Length: {whole}", body=end + SMUGGLED),
        "short length and coding": post("Content-Length: 4", "Transfer-Encoding: chunked", body=IN_CHUNK + end),
        "zero length and coding": post("Content-Length: 0", "Transfer-Encoding: chunked", body=end),
        "coding between lengths": post(
            "Content-Length: 5", "Transfer-Encoding: chunked", "Content-Length: 5", body=end
        ),
        "two lengths": post("Content-Length: 0", f"Content-Length: {LENGTH}", body=SMUGGLED),
        "two lengths reversed": post(f"Content-Length: {LENGTH}", "Content-Length: 0", body=SMUGGLED),
        "the same length twice": post(f"Content-Length: {LENGTH}", f"content-length: {LENGTH}", body=SMUGGLED),
        "two codings": post("Transfer-Encoding: chunked", "Transfer-Encoding: chunked", body=end),
        "two codings, identity last": post("Transfer-Encoding: chunked", "Transfer-Encoding: identity", body=end),
        "two codings, identity first": post("Transfer-Encoding: identity", "Transfer-Encoding: chunked", body=end),
        "two codings, nonsense last": post("Transfer-Encoding: chunked", "Transfer-Encoding: x", body=end),
        "coding in HTTP/1.0": post("Transfer-Encoding: chunked", body=end, start=f"POST {TARGET} HTTP/1.0"),
        "coding and length in HTTP/1.0": post(
            "Transfer-Encoding: chunked", "Content-Length: 5", body=end, start=f"POST {TARGET} HTTP/1.0"
        ),
        "upgrade with length": post(
            "Connection: Upgrade", "Upgrade: websocket", f"Content-Length: {LENGTH}", body=SMUGGLED
        ),
        "upgrade with coding": post(
            "Connection: Upgrade", "Upgrade: websocket", "Transfer-Encoding: chunked", body=end
        ),
        "ignored upgrade with length": post(
            "Connection: Upgrade", "Upgrade: h2c", f"Content-Length: {LENGTH}", body=SMUGGLED
        ),
        "ignored upgrade with coding": post(
            "Connection: Upgrade", "Upgrade: h2c", "Transfer-Encoding: chunked", body=IN_CHUNK + end
        ),
        "length as hop-by-hop header": post("Connection: Content-Length", f"Content-Length: {LENGTH}", body=SMUGGLED),
        "underscore instead of hyphen": post(f"Content_Length: {LENGTH}", body=SMUGGLED),
    }


def _headers() -> dict[str, bytes]:
    """Lines of a head that some readers join, split, trim or pass over."""
    length = f"Content-Length: {LENGTH}"
    coding = "Transfer-Encoding: chunked"
    end = "0\r\n\r\n"
    lines = {
        "space before colon of a length": f"Content-Length : {LENGTH}",
        "tab before colon of a length": f"Content-Length\t: {LENGTH}",
        "space before a length": f" {length}",
        "tab before a length": f"\t{length}",
        "folded length": f"Content-Length:\r\n {LENGTH}",
        "folded header": f"X: y\r\n {length}",
        "folded with tab": f"X: y\r\n\t{length}",
        "fold of nothing": "X: y\r\n \r\n" + length,
        "LF before a length": f"X: y\n{length}",
        "CR before a length": f"X: y\r{length}",
        "CR LF LF": f"X: y\r\n\n{length}",
        "CR CR LF": f"X: y\r\r\n{length}",
        "LF CR": f"X: y\n\r{length}",
        "CR in a value": f"X: y\rz\r\n{length}",
        "null byte in a name": f"X\0: y\r\n{length}",
        "null byte in a value": f"X: \0y\r\n{length}",
        "control character in a name": f"X\x01: y\r\n{length}",
        "no colon": f"nothing\r\n{length}",
        "no name": f": y\r\n{length}",
        "only a colon": f":\r\n{length}",
        "space in a name": f"Content Length: {LENGTH}",
        "bracket in a name": f"Content-Length(: {LENGTH}",
        "beyond ASCII in a name": f"Content-Length\xa0: {LENGTH}",
        "line separator in a name": f"\x85{length}",
        "comment": f"# {length}",
        "HTTP in HTTP": f"POST / HTTP/1.1\r\n{length}",
    }
    found = {name: post(line, body=SMUGGLED) for name, line in lines.items()}
    codings = {
        "space before colon of a coding": "Transfer-Encoding : chunked",
        "tab before colon of a coding": "Transfer-Encoding\t: chunked",
        "space before a coding": f" {coding}",
        "folded coding": "Transfer-Encoding:\r\n chunked",
        "coding folded in two": "Transfer-Encoding: chun\r\n ked",
        "LF before a coding": f"X: y\n{coding}",
        "LF after a coding": f"{coding}\nX: y",
        "CR before a coding": f"X: y\r{coding}",
        "null byte before a coding": f"\0{coding}",
        "equals sign": "Transfer-Encoding= chunked",
    }
    found |= {name: post(line, body=end) for name, line in codings.items()}
    found |= {f"{name} with length": post(line, "Content-Length: 5", body=end) for name, line in codings.items()}
    found |= {
        "nothing but LF": post(length, body=SMUGGLED).replace(b"\r\n", b"\n"),
        "head that ends in LF": post(length).replace(b"\r\n\r\n", b"\r\n\n") + SMUGGLED.encode(),
        "head that ends in LF LF": post(length).replace(b"\r\n\r\n", b"\n\n") + SMUGGLED.encode(),
        "two hosts": post("Host: other", "Content-Length: 0"),
        "no host": post("Content-Length: 0", host="X: y"),
        "hosts in one header": post("Content-Length: 0", host="Host: h, other"),
        "host with a path": post("Content-Length: 0", host="Host: h/other"),
        "host with a user": post("Content-Length: 0", host="Host: other@h"),
        "folded host": post("Content-Length: 0", host="Host: h\r\n other"),
    }
    return found


def _start_lines() -> dict[str, bytes]:
    """Request lines that are split in more than one place."""
    starts = {
        "tab instead of space": f"POST\t{TARGET} HTTP/1.1",
        "form feed instead of space": f"POST {TARGET}\x0cHTTP/1.1",
        "no-break space": f"POST {TARGET}\xa0HTTP/1.1",
        "space before": f" POST {TARGET} HTTP/1.1",
        "space after": f"POST {TARGET} HTTP/1.1 ",
        "space inside": "POST /a b HTTP/1.1",
        "two versions": f"POST {TARGET} HTTP/1.1 HTTP/1.1",
        "null byte": f"POST {TARGET}\0 HTTP/1.1",
        "control character": f"POST {TARGET}\x01 HTTP/1.1",
        "beyond ASCII": "POST /\xe9 HTTP/1.1",
        "no version": f"POST {TARGET}",
        "no target": "POST HTTP/1.1",
        "version 1.10": f"POST {TARGET} HTTP/1.10",
        "version 01.1": f"POST {TARGET} HTTP/01.1",
        "version 1,1": f"POST {TARGET} HTTP/1,1",
        "version 1": f"POST {TARGET} HTTP/1",
        "version in small letters": f"POST {TARGET} http/1.1",
        "version with a tab": f"POST {TARGET} HTTP/1.1\t",
        "LF inside": f"POST {TARGET}\n HTTP/1.1",
        "CR inside": f"POST {TARGET}\r HTTP/1.1",
        "method in quotes": f'"POST" {TARGET} HTTP/1.1',
        "null byte before": f"\0POST {TARGET} HTTP/1.1",
        "byte order mark": f"\xef\xbb\xbfPOST {TARGET} HTTP/1.1",
    }
    return {f"start line: {name}": post("Content-Length: 0", start=start) for name, start in starts.items()}


def _chunks() -> dict[str, bytes]:
    """Chunked bodies that end in more than one place."""
    end = "0\r\n\r\n"
    bodies = {
        "size in letters": f"g\r\n{end}",
        "size with 0x": f"0x1\r\na\r\n{end}",
        "size with plus": f"+1\r\na\r\n{end}",
        "size with minus": f"-1\r\na\r\n{end}",
        "size with underscore": f"1_0\r\n{'a' * 16}\r\n{end}",
        "size with space before": f" 1\r\na\r\n{end}",
        "size with dot": f"1.0\r\na\r\n{end}",
        "empty size": f"\r\na\r\n{end}",
        "size wraps around 32 bits": f"100000001\r\na\r\n{end}",
        "size wraps around 64 bits": f"10000000000000001\r\na\r\n{end}",
        "size wraps around 128 bits": f"1{'0' * 31}1\r\na\r\n{end}",
        "size beyond ASCII": f"1\xb2\r\na\r\n{end}",
        "size with null byte": f"1\0\r\na\r\n{end}",
        "size that ends in LF": f"1\na\r\n{end}",
        "size that ends in CR": f"1\ra\r\n{end}",
        "size that ends in CR CR LF": f"1\r\r\na\r\n{end}",
        "data that ends in LF": f"1\r\na\n{end}",
        "data that ends in CR": f"1\r\na\r{end}",
        "data without end": f"1\r\na{end}",
        "data longer than its size": f"1\r\nab\r\n{end}",
        "data shorter than its size": f"3\r\na\r\n{end}",
        "end that ends in LF": "0\n\n",
        "end that ends in CR LF LF": "0\r\n\n",
        "end without empty line": f"0\r\n{SMUGGLED}",
        "end with data": f"0\r\na\r\n\r\n{SMUGGLED}",
        "two ends": f"{end}{end}",
        "several zeros": f"000\r\n\r\n{SMUGGLED}",
        "LF in extension": f"1;a\nb\r\na\r\n{end}",
        "CR in extension": f"1;a\rb\r\na\r\n{end}",
        "CR LF in quoted extension": f'1;a="\r\n"\r\na\r\n{end}',
        "null byte in extension": f"1;\0\r\na\r\n{end}",
        "extension without semicolon": f"1 a\r\na\r\n{end}",
        "length in trailer": f"0\r\nContent-Length: {LENGTH}\r\n\r\n{SMUGGLED}",
        "coding in trailer": f"0\r\nTransfer-Encoding: chunked\r\n\r\n{IN_CHUNK}{end}",
        "host in trailer": f"0\r\nHost: other\r\n\r\n{SMUGGLED}",
        "trailer without colon": f"0\r\nGET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n{SMUGGLED}",
        "folded trailer": f"0\r\nX: y\r\n z\r\n\r\n{SMUGGLED}",
        "space before colon of a trailer": f"0\r\nX : y\r\n\r\n{SMUGGLED}",
    }
    return {f"chunk {name}": chunked(body) for name, body in bodies.items()}


CASES: dict[str, bytes] = {**_lengths(), **_codings(), **_both(), **_headers(), **_start_lines(), **_chunks()}

# h11 refuses these, yet nobody can read them in two ways; the parser below us takes them.
HARMLESS: dict[str, bytes] = {
    "empty lines before": b"\r\n\r\n" + post("Content-Length: 0"),
    "two spaces before the target": post("Content-Length: 0", start=f"POST  {TARGET} HTTP/1.1"),
    "two spaces before the version": post("Content-Length: 0", start=f"POST {TARGET}  HTTP/1.1"),
    "the name of another protocol": post("Content-Length: 0", start=f"POST {TARGET} RTSP/1.0"),
    "zeros before a chunk size": chunked("0" * 30 + "1\r\na\r\n0\r\n\r\n"),
}


class Seen(NamedTuple):
    """A request as a reader understood it."""

    method: str
    target: str
    body: bytes


def read_with_h11(data: bytes) -> tuple[list[Seen], bool]:
    """The complete requests h11 finds, and whether it refuses what follows them."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(data)
    found: list[Seen] = []
    request: h11.Request | None = None
    body = b""
    while True:
        try:
            event = connection.next_event()
        except h11.RemoteProtocolError:
            return found, True
        if isinstance(event, h11.Request):
            request = event
            body = b""
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            assert request is not None
            found.append(Seen(request.method.decode(), request.target.decode("latin-1"), body))
            connection.send(h11.Response(status_code=200, headers=[("Content-Length", "0")]))
            connection.send(h11.EndOfMessage())
            if connection.our_state is h11.MUST_CLOSE:
                return found, False
            connection.start_next_cycle()
        else:
            return found, False
