from __future__ import annotations

import gzip
import random
import zlib

import pytest

from tests.doors.hostile import CREATE, UPGRADE, Hostile, answer, post, statuses
from tests.doors.witness import Witness
from tests.support.background import BackgroundServer
from tests.support.raw import Exchange, params
from tests.wire import frames
from tests.wire.test_http1 import BAD as BAD_HTTP
from tests.wire.test_websocket import BAD as BAD_FRAMES

# A session whose connection is gone is closed at once, so that what is left can be counted.
FORGETFUL = {
    "session.session_recovery_millis": 0,
    "session.session_timeout_millis": 50,
    "session.min_keepalive_millis": 50,
    "session.default_keepalive_millis": 50,
    "session.max_idle_millis": 50,
}
pytestmark = pytest.mark.config(FORGETFUL)


# -- requests that are no TLCP ----------------------------------------------------------------------------------------

SESSION = "LS_session=Snone"
ADD = f"{SESSION}&LS_reqId=1&LS_op=add&LS_subId=1&LS_group=g&LS_schema=s&LS_mode=MERGE"

# Request name, parameter line, and the start of the answer.
WRONG: list[tuple[str, str, str]] = [
    ("create_session", "x", "CONERR,67,"),
    ("create_session", "LS_user=%zz", "CONERR,67,"),
    ("create_session", "LS_user=%FF", "CONERR,67,"),
    ("create_session", "LS_user=a&LS_user=b", "CONERR,67,"),
    ("create_session", "LS_adapter_set=NOWHERE", "CONERR,2,"),
    ("create_session", f"LS_adapter_set={'x' * 20_000}", "CONERR,2,"),
    ("create_session", "LS_adapter_set=%00%0D%0A", "CONERR,2,"),
    ("create_session", "LS_adapter_set=TEST&LS_user=nobody", "CONERR,1,"),
    ("create_session", "LS_adapter_set=TEST&LS_polling=maybe", "CONERR,65,LS_polling"),
    ("create_session", "LS_adapter_set=TEST&LS_keepalive_millis=-1", "CONERR,65,LS_keepalive_millis"),
    ("create_session", f"LS_adapter_set=TEST&LS_content_length={'9' * 5000}", "CONERR,65,LS_content_length"),
    ("create_session", "LS_adapter_set=TEST&LS_requested_max_bandwidth=NaN", "CONERR,65,LS_requested_max_bandwidth"),
    ("create_session", "LS_adapter_set=TEST&LS_op=explode", "CONERR,64,"),
    ("create_session", "LS_adapter_set=TEST\r\nnonsense", "CONERR,64,"),
    ("create_session", "LS_adapter_set=TEST\nLS_op=add", "CONERR,67,"),
    ("bind_session", "", "CONERR,65,LS_session"),
    ("bind_session", SESSION, "CONERR,20,"),
    ("bind_session", "LS_session=%00", "CONERR,20,"),
    ("bind_session", f"LS_session={'S' * 20_000}", "CONERR,20,"),
    ("bind_session", f"{SESSION}&LS_recovery_from=x", "CONERR,65,LS_recovery_from"),
    ("bind_session", f"{SESSION}\r\n{SESSION}", "CONERR,67,"),
    ("control", "", "ERROR,65,LS_reqId"),
    ("control", "&&&", "ERROR,65,LS_reqId"),
    ("control", "&=&", "ERROR,67,"),
    ("control", "LS_reqId=1", "REQERR,1,65,LS_op"),
    ("control", "LS_reqId=1&LS_op=explode", "REQERR,1,65,LS_op=explode"),
    ("control", "LS_reqId=1&LS_op=register", "REQERR,1,40,"),
    ("control", "LS_reqId=a%0D%0Ab&LS_op=destroy", "ERROR,65,LS_reqId"),
    ("control", ADD, "REQERR,1,20,"),
    ("control", ADD.replace("MERGE", "JOIN"), "REQERR,1,65,LS_mode=JOIN"),
    ("control", ADD.replace("subId=1", "subId=one"), "REQERR,1,65,LS_subId=one"),
    ("control", f"{ADD}&LS_snapshot=5", "REQERR,1,65,LS_snapshot=5"),
    ("msg", f"{SESSION}&LS_reqId=1", "REQERR,1,65,LS_message"),
    ("msg", f"{SESSION}&LS_reqId=1&LS_message=m", "REQERR,1,65,LS_msg_prog"),
    ("msg", f"{SESSION}&LS_reqId=1&LS_message=m&LS_msg_prog=0", "REQERR,1,65,LS_msg_prog=0"),
    ("msg", f"{SESSION}&LS_reqId=1&LS_message=m&LS_msg_prog=1&LS_sequence=a-b", "REQERR,1,65,LS_sequence=a-b"),
    ("heartbeat", "nonsense", "ERROR,67,"),
    ("heartbeat", "LS_session=%", "ERROR,67,"),
    ("explode", "LS_reqId=1", "ERROR,67,"),
    ("Control", "LS_reqId=1", "ERROR,67,"),
]


def test_wrong_requests_over_http_get_the_documented_error(server: BackgroundServer, witness: Witness) -> None:
    for name, body, expected in WRONG:
        (line,) = Exchange(server.host, server.port).request(name, body)
        assert line.startswith(expected), (name, body)
        assert len(line) < 400


def test_wrong_requests_over_websocket_get_the_same_and_the_socket_goes_on(
    server: BackgroundServer, witness: Witness
) -> None:
    with Exchange(server.host, server.port).socket() as socket:
        for name, body, expected in WRONG:
            socket.connection.send(f"{name}\r\n{body}")
            line = socket.read_line()
            if "LS_session" not in body and expected == "CONERR,65,LS_session":
                expected = "CONERR,"
            assert line.startswith(expected), (name, body)
        for message in (
            "",
            "\r\n",
            "\0",
            "control",
            "control\n" + ADD,
            "x" * 40_000,
            "é" * 10_000,
            "\ufeffwsok",
            "WSOK",
        ):
            socket.connection.send(message)
            assert socket.read_line().startswith("ERROR,6"), message[:20]
        socket.send("wsok")
        assert socket.read_line() == "WSOK"


def test_one_wrong_line_of_a_batch_spoils_no_other(server: BackgroundServer, witness: Witness) -> None:
    exchange = Exchange(server.host, server.port)
    with exchange.stream(send_sync=False) as stream:
        good = params(op="constrain", requested_max_bandwidth=10)
        wrong = ["", "x", "LS_reqId=9", "%", "LS_reqId=9&LS_op=%FF", f"LS_reqId=9&{good}\n"]
        batch = []
        for number, line in enumerate(wrong):
            batch += [f"LS_reqId={number}&{good}", line]
        query = f"LS_protocol=TLCP-2.4.0&LS_session={stream.session}"
        answers = exchange.request("control", "\r\n".join(batch), query)
        assert [line for line in answers if line.startswith("REQOK")] == [f"REQOK,{number}" for number in range(6)]
        assert len([line for line in answers if line.startswith(("ERROR", "REQERR"))]) == len(wrong)


@pytest.mark.parametrize(
    "query",
    [
        "LS_protocol=",
        "LS_protocol=TLCP-1.0.0",
        "LS_protocol=TLCP-2.4.0&LS_protocol=TLCP-2.4.0",
        "LS_protocol=TLCP-2.4.0&x",
        "LS_protocol=TLCP-2.4.0&%",
        "LS_protocol=%FF",
    ],
)
def test_a_wrong_query_string_is_answered(server: BackgroundServer, witness: Witness, query: str) -> None:
    for name, tag in (
        ("create_session", "CONERR"),
        ("bind_session", "CONERR"),
        ("control", "ERROR"),
        ("heartbeat", "ERROR"),
    ):
        (line,) = Exchange(server.host, server.port).request(name, "", query)
        assert line.startswith((f"{tag},65,", f"{tag},67,")), line


@pytest.mark.parametrize("query", ["", "x", "%", "LS_op2=create&LS_op2=create", "LS_user=%FF", "&&&"])
def test_a_wrong_query_string_of_the_older_protocol_is_answered(
    server: BackgroundServer, witness: Witness, query: str
) -> None:
    for name in ("create_session", "bind_session", "control", "send_message"):
        with Exchange(server.host, server.port).http() as http:
            http.post(name, "", query)
            assert http.read_head() == 500
            assert 5 < len(http.read_body()) < 400


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
