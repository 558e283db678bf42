from __future__ import annotations

import gzip
import random
import zlib

import pytest

from tests.support.background import BackgroundServer
from tests.support.hostile import ADD, CREATE, FORGETFUL, UPGRADE, Hostile, answer, post, statuses
from tests.support.witness import Witness
from tests.wire import frames
from tests.wire.test_http1 import BAD as BAD_HTTP
from tests.wire.test_websocket import BAD as BAD_FRAMES

pytestmark = pytest.mark.config(FORGETFUL)


# -- bodies -----------------------------------------------------------------------------------------------------------


def body_answer(server: BackgroundServer, body: bytes, *headers: str) -> str:
    answered = answer(server, post("control", body, *headers))
    assert statuses(answered) == [200], headers
    return answered.partition(b"\r\n\r\n")[2].decode()


def test_a_body_that_is_not_its_charset_is_malformed(server: BackgroundServer, witness: Witness) -> None:
    cases = [
        ("utf-8", b"LS_reqId=\xff"),
        ("utf-8", b"LS_reqId=\xed\xa0\x80"),
        ("ascii", b"LS_reqId=\x80"),
        ("utf-16", b"\x00\xd8\x00\x00a"),
        ("utf-32", b"\xff\xff\xff\xff"),
        ("shift_jis", b"\x81\x00"),
        ("iso2022_jp", b"\x1b$B\xff"),
    ]
    for charset, body in cases:
        line = body_answer(server, body, f"Content-Type: text/plain; charset={charset}")
        assert line.startswith("ERROR,67,The request body is not valid"), charset


def test_what_is_no_charset_is_named(server: BackgroundServer, witness: Witness) -> None:
    names = "nothing hex base64 rot13 zlib bz2 uu quopri idna punycode undefined unicode_escape utf-7 charmap"
    for charset in names.split():
        line = body_answer(server, b"LS_reqId=1&a=\\d+2AA-", f"Content-Type: text/plain; charset={charset}")
        assert line.startswith("ERROR,67,Content-Type charset"), charset


CONTENT_TYPES = [
    "Content-Type: text/plain; charset",
    "Content-Type: text/plain; charset=",
    'Content-Type: text/plain; charset="',
    "Content-Type: ;;;===",
    "Content-Type: \xff\xfe",
    "Content-Type: text/plain; charset*=utf-8''%FF%00",
    "Content-Type: text/plain; charset*0=ut; charset*1=f-8",
    "Content-Type: text/plain; charset*=hex''utf-8",
    'Content-Type: text/plain; a="' + ";" * 15_000,
    "Content-Type: " + "a;" * 3000,
    "Content-Type: text/plain; charset=" + "x" * 5000,
    "Content-Type: text/plain; charset=../../etc/passwd",
    "Content-Type: text/plain; charset=os.path",
]


def test_no_content_type_breaks_anything(server: BackgroundServer, witness: Witness) -> None:
    for header in CONTENT_TYPES:
        line = body_answer(server, b"LS_reqId=1&LS_op=destroy&LS_session=S", header)
        assert line.startswith(("REQERR,1,20,", "ERROR,67,Content-Type charset")), header


def test_the_charset_is_found_wherever_it_stands(server: BackgroundServer, witness: Witness) -> None:
    for content_type in ("text/plain;charset=latin-1", 'a/b; c=d; CHARSET="iso-8859-1" ; e', "; charset=cp1252;x"):
        line = body_answer(server, b"LS_reqId=1&LS_op=\xe9", f"Content-Type: {content_type}")
        assert line.startswith("REQERR,1,65,LS_op=\xe9"), content_type


def test_bad_compression_is_malformed_and_a_bomb_is_not_unpacked(server: BackgroundServer, witness: Witness) -> None:
    good = gzip.compress(b"LS_reqId=1&LS_op=destroy&LS_session=S")
    bomb = gzip.compress(b"a" * 40_000_000)
    assert len(bomb) < 50_000
    cases = [
        ("gzip", b"", "ERROR,67,"),
        ("gzip", b"nonsense", "ERROR,67,"),
        ("gzip", good[:-1], "ERROR,67,"),
        ("gzip", good[:-8] + b"\0" * 8, "ERROR,67,"),
        ("gzip", bomb, "ERROR,67,Request longer than"),
        ("deflate", zlib.compress(b"x")[2:], "ERROR,67,"),
        ("br", good, "ERROR,67,Content-Encoding"),
        ("gzip, gzip", good, "ERROR,67,Content-Encoding"),
        ("x" * 5000, good, "ERROR,67,Content-Encoding"),
        ("gzip", good, "REQERR,1,20,"),
        ("identity", b"LS_reqId=1&LS_op=destroy&LS_session=S", "REQERR,1,20,"),
    ]
    for coding, body, expected in cases:
        assert body_answer(server, body, f"Content-Encoding: {coding}").startswith(expected), coding[:20]


@pytest.mark.config({**FORGETFUL, "limits.request_limit": 5_000})
def test_a_request_that_is_too_long_is_told_so_even_if_all_of_it_is_sent_first(
    server: BackgroundServer, witness: Witness
) -> None:
    long_body = b"x" * 3_000_000
    chunks = b"".join(b"%x\r\n%s\r\n" % (1000, b"y" * 1000) for _ in range(3000)) + b"0\r\n\r\n"
    chunked_head = b"POST /lightstreamer/msg.txt HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    for data in (post("msg", long_body), chunked_head + chunks):
        with Hostile(server) as client:
            client.send(data)
            assert statuses(client.read_all()) == [413]
    with Hostile(server) as client:
        client.open_websocket()
        client.send(frames.frame(frames.TEXT, long_body))
        (last,) = client.read_frames()
        assert (last.opcode, last.payload[:2]) == (frames.CLOSE, (1009).to_bytes(2, "big"))


# -- bytes that are no HTTP -------------------------------------------------------------------------------------------


def test_what_is_no_http_gets_its_status_and_a_closed_connection(server: BackgroundServer, witness: Witness) -> None:
    """The table of the parser, against the server; its limits are larger, so those cases are left to the parser."""
    for case in BAD_HTTP:
        if case.status in (400, 501):
            with Hostile(server) as client:
                client.send(case.data)
                answered = client.read_all()
            assert statuses(answered) == [case.status], case.name
            assert b"Connection: close" in answered


def test_tls_on_the_plain_port_is_refused(server: BackgroundServer, witness: Witness) -> None:
    hello = bytes.fromhex("16030100c8010000c40303") + bytes(range(200))
    assert statuses(answer(server, hello)) == [400]


def test_garbage_is_refused_and_forgotten(server: BackgroundServer, witness: Witness) -> None:
    chance = random.Random(7)
    for number in range(300):
        data = chance.randbytes(chance.randrange(1, 2000))
        assert set(statuses(answer(server, data))) <= {400, 431}, number


def test_damaged_requests_never_harm_the_server(server: BackgroundServer, witness: Witness) -> None:
    chance = random.Random(11)
    good = [post("create_session", CREATE), post("control", ADD), UPGRADE + frames.text("create_session\r\n" + CREATE)]
    for number in range(400):
        data = bytearray(chance.choice(good))
        for _ in range(chance.randrange(1, 6)):
            place = chance.randrange(len(data))
            match chance.randrange(3):
                case 0:
                    data[place] = chance.randrange(256)
                case 1:
                    del data[place : place + chance.randrange(1, 20)]
                case _:
                    data[place:place] = chance.randbytes(chance.randrange(1, 20))
        with Hostile(server) as client:
            client.send(bytes(data))
            if number % 2:
                client.reset()


# -- half a request ---------------------------------------------------------------------------------------------------

HTTP_SESSION = post("create_session", CREATE)
SOCKET_SESSION = UPGRADE + frames.text("wsok") + frames.text("create_session\r\n" + CREATE)


@pytest.mark.parametrize("ending", ["close", "reset", "half close"])
@pytest.mark.parametrize("data", [HTTP_SESSION, SOCKET_SESSION], ids=["http", "websocket"])
def test_a_client_may_leave_at_every_byte(server: BackgroundServer, witness: Witness, data: bytes, ending: str) -> None:
    for length in range(len(data) + 1):
        with Hostile(server) as client:
            client.send(data[:length])
            if ending == "reset":
                client.reset()
            elif ending == "half close":
                client.finish_sending()
                if length < len(data):
                    client.read_all()


@pytest.mark.config({**FORGETFUL, "limits.read_timeout_millis": 100})
def test_half_a_request_is_waited_for_and_then_refused(server: BackgroundServer, witness: Witness) -> None:
    with Hostile(server) as client, Hostile(server) as other:
        client.send(HTTP_SESSION[:-1])
        other.send(b"G")
        assert statuses(client.read_all()) == [408]
        assert statuses(other.read_all()) == [408]


@pytest.mark.config({**FORGETFUL, "limits.idle_timeout_millis": 100})
def test_a_connection_that_says_nothing_is_closed(server: BackgroundServer, witness: Witness) -> None:
    with Hostile(server) as client, Hostile(server) as other:
        other.open_websocket()
        assert client.read_all() == b""
        (last,) = other.read_frames()
        assert (last.opcode, last.payload[:2]) == (frames.CLOSE, (1008).to_bytes(2, "big"))


def test_a_client_that_half_closes_gets_all_its_answers_and_then_the_end(
    server: BackgroundServer, witness: Witness
) -> None:
    answered = answer(server, post("control", ADD) * 20 + post("heartbeat", ""))
    assert statuses(answered) == [200] * 21
    assert answered.endswith(b"\r\n\r\nREQOK\r\n")


# -- frames that are against the rules --------------------------------------------------------------------------------


def test_frames_against_the_rules_close_the_socket_with_their_code(server: BackgroundServer, witness: Witness) -> None:
    for name, data, code in BAD_FRAMES:
        if code == 1009 and len(data) > 100:
            continue  # The limit of the server is larger; the parser's test has them.
        with Hostile(server) as client:
            client.open_websocket()
            client.send(frames.text("wsok") + data)
            *others, last = client.read_frames()
            assert (last.opcode, int.from_bytes(last.payload[:2], "big")) == (frames.CLOSE, code), name
            assert [entry.payload for entry in others] in ([], [b"WSOK\r\n"]), name


def test_a_session_on_such_a_socket_ends_and_no_other_does(server: BackgroundServer, witness: Witness) -> None:
    for name, data, code in BAD_FRAMES:
        if code == 1009 and len(data) > 100:
            continue
        with Hostile(server) as client:
            client.open_websocket()
            client.send(frames.text("create_session\r\n" + CREATE))
            client.read_until(b"CONS,")
            client.send(data)
            *_, last = client.read_frames()
            assert (last.opcode, int.from_bytes(last.payload[:2], "big")) == (frames.CLOSE, code), name
    witness.finds_nothing_left()


def test_frames_may_come_with_the_handshake_and_after_a_pipelined_request(
    server: BackgroundServer, witness: Witness
) -> None:
    with Hostile(server) as client:
        client.send(post("heartbeat", "") + UPGRADE + frames.text("wsok"))
        answered = client.read_until(b"WSOK\r\n")
        assert answered.startswith(b"HTTP/1.1 200 ")
        assert b"HTTP/1.1 101 " in answered
        client.send(frames.close(1000))
        assert client.read_frames() == [frames.ServerFrame(True, frames.CLOSE, b"\x03\xe8")]


@pytest.mark.parametrize("behind", [b"", frames.frame(frames.CONTINUATION, b"k"), frames.text("wsok")])
def test_a_close_inside_a_message_is_answered_as_any_other(
    server: BackgroundServer, witness: Witness, behind: bytes
) -> None:
    with Hostile(server) as client:
        client.open_websocket()
        client.send(frames.frame(frames.TEXT, b"wso", final=False) + frames.close(1000) + behind)
        assert client.read_frames() == [frames.ServerFrame(True, frames.CLOSE, b"\x03\xe8")]


def test_handshakes_that_are_wrong_are_answered(server: BackgroundServer, witness: Witness) -> None:
    def changed(old: str, new: str) -> bytes:
        assert old.encode() in UPGRADE
        return UPGRADE.replace(old.encode(), new.encode("latin-1"))

    cases = [
        (changed("GET ", "POST "), 405),
        (changed("/lightstreamer ", "/elsewhere "), 404),
        (changed("/lightstreamer ", "/lightstreamer/control.txt "), 404),
        (changed("Version: 13", "Version: 12"), 400),
        (changed("dGhlIHNhbXBsZSBub25jZQ==", "short"), 400),
        (changed("dGhlIHNhbXBsZSBub25jZQ==", "\xff" * 24), 400),
        (changed("TLCP-2.4.0.lightstreamer.com", "mqtt"), 400),
        (changed("TLCP-2.4.0.lightstreamer.com", ""), 400),
        (changed("Upgrade: websocket", "Upgrade: websocket\r\nContent-Length: 5"), 400),
        (changed("Upgrade: websocket", "Upgrade: h2c"), 404),
        (changed("HTTP/1.1", "HTTP/1.0"), 404),
    ]
    for data, status in cases:
        assert statuses(answer(server, data)) == [status], data


# -- all of it, many times --------------------------------------------------------------------------------------------


@pytest.mark.config({**FORGETFUL, "limits.read_timeout_millis": 500})
def test_two_thousand_hostile_connections_leave_nothing_behind(server: BackgroundServer, witness: Witness) -> None:
    chance = random.Random(3)
    attacks = [
        b"",
        b"\x16\x03\x01",
        HTTP_SESSION,
        HTTP_SESSION[:-1],
        HTTP_SESSION * 3,
        SOCKET_SESSION,
        SOCKET_SESSION[:-5],
        SOCKET_SESSION + frames.frame(5),
        SOCKET_SESSION + frames.frame(frames.TEXT, b"\xff"),
        SOCKET_SESSION + frames.text("control\r\nLS_reqId=1&LS_op=add&LS_subId=1&LS_group=g&LS_schema=s&LS_mode=RAW"),
        SOCKET_SESSION + frames.close(1000),
        UPGRADE + b"\xff" * 50,
        post("create_session", CREATE + "&LS_user=slow"),
        post("create_session", CREATE + "&LS_polling=true&LS_idle_millis=20000"),
        post("control", b"\xff"),
        *(case.data for case in BAD_HTTP if len(case.data) < 500),
    ]
    for number in range(2_000):
        with Hostile(server) as client:
            client.send(attacks[number % len(attacks)])
            if chance.random() < 0.3:
                client.reset()
            elif chance.random() < 0.3:
                client.finish_sending()
        if number % 500 == 0:
            witness.still_sees_updates()
