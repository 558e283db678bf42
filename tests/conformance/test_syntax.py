from __future__ import annotations

import asyncio

import pytest

from tests.conformance.phrases import HEAD, add, answer, batch, close_code, create, heard, row, upgrade
from tests.support.background import BackgroundServer
from tests.support.raw import CID, Exchange, params, tags

QUERY = "LS_protocol=TLCP-2.4.0"
MESSAGE = "LS_reqId=1&LS_outcome=false&LS_message="


# -- requests over HTTP ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prefix", [row("http.path", ""), row("http.path-prefix", "/some"), row("http.path-prefix.deep", "/some/where.else")]
)
def test_requests_are_taken_below_any_path_prefix(exchange: Exchange, prefix: str) -> None:
    with exchange.http() as http:
        http.post("create_session", create(polling=True), prefix=prefix)
        assert tags(answer(http)) == [*HEAD, "LOOP"]


@pytest.mark.conformance("http.unknown-request")
def test_an_unknown_request_name_is_error_67_naming_it_and_the_known_ones(exchange: Exchange) -> None:
    (line,) = exchange.request("create_sessions", create())
    assert line.startswith("ERROR,67,")
    assert "create_sessions" in line
    for known in ("create_session", "bind_session", "control", "msg", "heartbeat"):
        assert known in line


@pytest.mark.conformance("http.other-path")
def test_a_path_that_is_no_request_is_404(exchange: Exchange) -> None:
    with exchange.http() as http:
        http.get("/lightstreamer/create_session")
        assert http.read_head() == 404


@pytest.mark.parametrize(
    ("methods", "path", "headers", "allowed"),
    [
        row(
            "http.other-method",
            ("PUT", "DELETE", "HEAD"),
            "/lightstreamer/create_session.txt?" + QUERY,
            {},
            "GET, POST, OPTIONS",
        ),
        row("http.other-method.page", ("PUT", "POST"), "/", {}, "GET, HEAD, OPTIONS"),
        row("http.other-method.ws", ("POST",), "/lightstreamer", upgrade("TLCP-2.4.0.lightstreamer.com"), "GET"),
    ],
)
def test_a_method_that_is_not_allowed_is_405_naming_those_that_are(
    exchange: Exchange, methods: tuple[str, ...], path: str, headers: dict[str, str], allowed: str
) -> None:
    for method in methods:
        with exchange.http() as http:
            http.get(path, headers=headers, method=method)
            assert http.read_head() == 405
            assert http.headers["allow"] == allowed


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        row("syntax.reserved", "%26%3D%25%2B%0D%0A", "&=%+\r\n"),
        row("syntax.further-percent", "%41%62%C3%A9%E2%82%AC", "Abé€"),
        row("syntax.plain-utf-8", "naïve € 日本 😀 ~!*'()", "naïve € 日本 😀 ~!*'()"),
        row("syntax.plus", "one+two%20three", "one two three"),
        row("syntax.value-with-equals", "a=b=c", "a=b=c"),
        row("syntax.lower-case-escape", "%e2%82%ac", "€"),
    ],
)
def test_a_value_is_decoded(server: BackgroundServer, exchange: Exchange, sent: str, received: str) -> None:
    with exchange.stream() as stream, exchange.socket() as socket:
        assert batch(exchange, stream.session, MESSAGE + sent, name="msg") == ["REQOK,1"]
        assert heard(server) == [received]
        socket.send("msg", f"LS_session={stream.session}&{MESSAGE}{sent}")
        assert socket.read_line() == "REQOK,1"
        assert heard(server) == [received, received]


@pytest.mark.parametrize(
    ("sent", "named"),
    [
        row("syntax.bad-percent", f"{MESSAGE}100%", "LS_message"),
        row("syntax.percent-not-utf-8", f"{MESSAGE}%C3%28", "LS_message"),
        row("syntax.twice", "LS_reqId=1&LS_message=a&LS_message=b", "LS_message"),
        row("syntax.no-pair", "LS_reqId=1&LS_message", "part 2 of the line"),
        row("syntax.bare-line-feed", "LS_reqId=1&LS_message=a\nLS_reqId=2&LS_message=b", "CR-LF"),
    ],
)
def test_text_that_is_no_parameter_line_is_error_67_naming_the_fault(exchange: Exchange, sent: str, named: str) -> None:
    with exchange.stream() as stream, exchange.socket() as socket:
        (line,) = batch(exchange, stream.session, sent, name="msg")
        assert line.startswith("REQERR,1,67,")
        assert named in line
        socket.send("msg", sent)
        assert socket.read_line() == line


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        row("syntax.malformed.id", "LS_message=%&LS_reqId=7", "REQERR,7,67,"),
        row("syntax.malformed.id-encoded", "LS_message=%&LS%5FreqId=%37", "REQERR,7,67,"),
        row("syntax.malformed.id-twice", "LS_reqId=1&LS_reqId=2", "ERROR,67,"),
        row("syntax.malformed.id-unreadable", "LS_message=%&LS_reqId=%", "ERROR,67,"),
        row("syntax.malformed.no-id", "LS_message=%", "ERROR,67,"),
    ],
)
def test_a_malformed_line_keeps_its_identifier_if_that_can_be_read(exchange: Exchange, sent: str, answer: str) -> None:
    with exchange.stream() as stream, exchange.socket() as socket:
        (line,) = batch(exchange, stream.session, sent, name="msg")
        assert line.startswith(answer)
        socket.send("msg", sent)
        assert socket.read_line() == line


@pytest.mark.conformance("syntax.last-separator")
def test_the_separator_after_the_last_line_is_optional(exchange: Exchange) -> None:
    with exchange.socket() as socket:
        assert tags(exchange.request("create_session", create(polling=True) + "\r\n")) == [*HEAD, "LOOP"]
        socket.connection.send(f"create_session\r\n{create(polling=True)}\r\n")
        assert tags(socket.read_until("LOOP")) == [*HEAD, "LOOP"]
        socket.connection.send(f"create_session\r\n{create(polling=True)}")
        assert tags(socket.read_until("LOOP")) == [*HEAD, "LOOP"]


@pytest.mark.conformance("syntax.empty-pair")
def test_an_empty_pair_is_nothing_wherever_it_stands(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.http() as http, exchange.socket() as socket:
        http.post("create_session", f"&&{create(polling=True)}&", f"&{QUERY}&&")
        lines = answer(http)
        assert tags(lines) == [*HEAD, "LOOP"]
        session = lines[0].split(",")[1]
        body = f"{add(1)}&\r\n&{add(2)}&&LS_ack=false\r\n"
        assert exchange.request("control", body, f"{QUERY}&&LS_session={session}&") == ["REQOK,1", "REQOK,2"]
        assert exchange.request("heartbeat", "&", f"{QUERY}&LS_session={session}&") == ["REQOK"]
        socket.send("bind_session", f"&LS_session={session}&&LS_polling=true&")
        assert tags(socket.read_until("LOOP"))[-3:] == ["SUBOK", "CONF", "LOOP"]
        socket.send("heartbeat", "&")
        socket.send("msg", f"{MESSAGE}plain&", f"&{MESSAGE.replace('1', '2', 1)}%26&&")
        assert [socket.read_line(), socket.read_line()] == ["REQOK,1", "REQOK,2"]
        assert heard(server) == ["plain", "&"]


@pytest.mark.conformance("syntax.unknown-parameter")
def test_an_unknown_parameter_is_ignored(exchange: Exchange) -> None:
    body = create(polling=True) + "&LS_colour=red&X-own=1&lower="
    assert tags(exchange.request("create_session", body)) == [*HEAD, "LOOP"]


@pytest.mark.conformance("syntax.query-percent")
def test_percent_encoding_of_the_request_line_is_undone(exchange: Exchange) -> None:
    with exchange.http() as http:
        http.get(f"/%6Cightstreamer/create%5Fsession%2Etxt?LS%5Fprotocol=TLCP%2D2.4.0&{create(polling=True)}")
        assert tags(answer(http)) == [*HEAD, "LOOP"]


# -- batches -----------------------------------------------------------------------------------------------------------


@pytest.mark.conformance("batch.http")
def test_every_line_of_an_http_body_is_a_control_request(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream:
        body = "\r\n".join(f"LS_session={stream.session}&{add(number, group=f'i{number}')}" for number in (1, 2, 3))
        assert sorted(exchange.request("control", body)) == ["REQOK,1", "REQOK,2", "REQOK,3"]
        assert server.adapter.subscribed == {"i1", "i2", "i3"}


@pytest.mark.conformance("batch.session-in-query")
def test_the_session_in_the_query_string_is_the_default_of_every_line(exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.stream() as other:
        answers = batch(exchange, stream.session, add(1), f"LS_session={other.session}&{add(2)}", add(3))
        assert sorted(answers) == ["REQOK,1", "REQOK,2", "REQOK,3"]
        assert [line for line in stream.read_until("CONF") if "SUBOK" in line] == ["SUBOK,1,1,1"]
        assert [line for line in stream.read_until("CONF") if "SUBOK" in line] == ["SUBOK,3,1,1"]
        assert other.read_until("SUBOK") == ["SUBOK,2,1,1"]


@pytest.mark.conformance("batch.ws")
def test_every_line_of_a_websocket_message_is_a_control_request(exchange: Exchange) -> None:
    with exchange.socket() as socket:
        socket.create()
        socket.send("control", add(1), add(2))
        assert sorted(line for line in (socket.read_line(), socket.read_line())) == ["REQOK,1", "REQOK,2"]
        assert tags(socket.read_until("CONF") + socket.read_until("CONF")) == ["SUBOK", "CONF"] * 2


@pytest.mark.conformance("batch.one-wrong")
def test_a_wrong_line_of_a_batch_does_not_touch_the_others(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        answers = batch(exchange, stream.session, add(1), add(2, mode="BLUE"), "nonsense", add(4))
        assert len(answers) == 4
        assert {"REQOK,1", "REQOK,4"} < set(answers)
        (wrong,) = [line for line in answers if line.startswith("REQERR,2,65,")]
        assert "LS_mode=BLUE" in wrong
        assert any(line.startswith("ERROR,67,") for line in answers)


@pytest.mark.conformance("batch.messages")
def test_messages_are_sent_in_batches_too(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream:
        sent = [params(reqId=number, message=f"m{number}", outcome=False) for number in (1, 2)]
        assert sorted(batch(exchange, stream.session, *sent, name="msg")) == ["REQOK,1", "REQOK,2"]
        assert sorted(heard(server)) == ["m1", "m2"]


@pytest.mark.conformance("batch.not-for-bindings")
def test_a_binding_takes_one_line_only(exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.stream() as other:
        body = f"LS_session={stream.session}\r\nLS_session={other.session}"
        (line,) = exchange.request("bind_session", body)
        assert line.startswith("CONERR,67,")
        assert exchange.control(stream.session, reqId=1, op="constrain") == ["REQOK,1"]
        assert stream.read_line().startswith("CONS")


# -- requests over WebSocket -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [row("ws.path", "/lightstreamer"), row("ws.path-prefix", "/a/b/lightstreamer")])
def test_a_websocket_opens_below_any_path_prefix(exchange: Exchange, path: str) -> None:
    with exchange.socket(path=path) as socket:
        assert tags(socket.create()) == HEAD


@pytest.mark.conformance("ws.no-extension")
def test_request_names_have_no_extension_on_a_websocket(exchange: Exchange) -> None:
    with exchange.socket() as socket:
        socket.send("create_session.txt", create())
        line = socket.read_line()
        assert line.startswith("ERROR,67,Unknown request name")
        assert "create_session" in line


@pytest.mark.conformance("ws.text-only")
def test_a_binary_message_closes_the_websocket(exchange: Exchange) -> None:
    with exchange.socket() as socket:
        socket.connection.send(b"wsok")
        assert close_code(socket) == 1003


@pytest.mark.conformance("ws.utf-8")
def test_a_message_that_is_not_utf_8_closes_the_websocket(exchange: Exchange) -> None:
    with exchange.socket() as socket:
        socket.connection.send(b"\xff\xfe", text=True)
        assert close_code(socket) == 1007


@pytest.mark.conformance("ws.fragments")
def test_a_message_in_several_frames_is_one_request(exchange: Exchange) -> None:
    with exchange.socket() as socket:
        socket.connection.send(iter(["create_", "session\r", f"\n{create(polling=True)}"]))
        assert tags(socket.read_until("LOOP")) == [*HEAD, "LOOP"]


@pytest.mark.conformance("ws.next-session")
def test_after_its_session_is_unbound_a_websocket_carries_another_one(exchange: Exchange) -> None:
    with exchange.socket() as socket:
        socket.create()
        first = socket.session
        socket.send("control", params(reqId=1, op="force_rebind"))
        assert set(tags([socket.read_line(), socket.read_line()])) == {"LOOP", "REQOK"}
        socket.create()
        assert socket.session != first
        socket.send("control", add(2))
        assert socket.read_until("SUBOK") == ["REQOK,2", "SUBOK,2,1,1"]


@pytest.mark.conformance("ws.long-line")
def test_a_line_longer_than_a_frame_arrives_in_one_message(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.socket() as socket:
        socket.create()
        socket.send("control", add())
        socket.read_until("CONF")
        server.update("a", x="é" * 50_000)
        assert socket.read_line() == "U,1,1," + "é" * 50_000


# -- answers and notifications -----------------------------------------------------------------------------------------


@pytest.mark.conformance("response.line-end")
def test_every_line_ends_in_cr_lf(exchange: Exchange) -> None:
    with exchange.http() as http:
        http.post("create_session", create(polling=True))
        http.read_head()
        body = http.read_body()
        assert body.endswith(b"\r\n")
        assert body.count(b"\n") == body.count(b"\r") == body.count(b"\r\n") == 5


@pytest.mark.conformance("response.escaping")
def test_commas_and_line_ends_in_arguments_are_percent_encoded(exchange: Exchange) -> None:
    assert exchange.request("create_session", create(user="custom")) == ["CONERR,-7,Come back%2C tomorrow"]
    with exchange.stream() as stream:
        exchange.control(stream.session, reqId=1, op="destroy", cause_code=-1, cause_message="50%, or\r\nmore")
        assert stream.read_line() == "END,-1,50%25%2C or%0D%0Amore"


@pytest.mark.conformance("response.utf-8")
def test_what_is_not_ascii_is_sent_as_utf_8(server: BackgroundServer, exchange: Exchange) -> None:
    with exchange.stream() as stream:
        exchange.request("control", f"LS_session={stream.session}&{add()}")
        stream.read_until("CONF")
        server.update("a", x="naïve € 日本 😀")
        assert stream.read_line() == "U,1,1,naïve € 日本 😀"


@pytest.mark.conformance("response.argument-count")
def test_every_tag_has_a_fixed_number_of_arguments(server: BackgroundServer, exchange: Exchange) -> None:
    counts = {
        "CONOK": 4, "SERVNAME": 1, "CLIENTIP": 1, "CONS": 1, "REQOK": 1, "REQERR": 3, "ERROR": 2, "SUBOK": 3,
        "CONF": 3, "U": 3, "UNSUB": 1, "MSGDONE": 2, "MSGFAIL": 4, "LOOP": 1, "PROG": 1, "END": 2, "WSOK": 0,
    }  # fmt: skip
    seen = []
    with exchange.socket() as socket:
        socket.send("wsok")
        seen += [socket.read_line(), *socket.create()]
        socket.send("control", add(), add(2, mode=",,,"), "nonsense")
        seen += socket.read_until("CONF")
        server.update("a", x="plain")
        socket.send("msg", params(reqId=3, msg_prog=1, message="m"), params(reqId=4, msg_prog=2, message="refuse"))
        seen += socket.read_until("MSGFAIL")
        socket.send("control", params(reqId=5, op="delete", subId=1))
        seen += socket.read_until("UNSUB")
        socket.send("control", params(reqId=6, op="force_rebind"))
        seen += [socket.read_line(), socket.read_line()]
        socket.send("bind_session", params(recovery_from=0))
        seen += socket.read_until("PROG")
        socket.send("control", params(reqId=7, op="destroy"))
        seen += socket.read_until("END")
    assert {line.split(",")[0] for line in seen} == set(counts)
    for line in seen:
        assert line.count(",") == counts[line.split(",")[0]], line


# -- which answer goes where -------------------------------------------------------------------------------------------


@pytest.mark.conformance("request.same-connection")
def test_an_answer_comes_on_the_connection_of_its_request(exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.socket() as socket:
        assert exchange.request("control", f"LS_session={stream.session}&{add(1)}") == ["REQOK,1"]
        socket.send("control", f"LS_session={stream.session}&{add(2)}")
        assert socket.read_line() == "REQOK,2"
        lines = stream.read_until("CONF") + stream.read_until("CONF")
        assert tags(lines) == ["SUBOK", "CONF", "SUBOK", "CONF"]


@pytest.mark.conformance("request.identified")
def test_an_answer_carries_the_identifier_of_its_request(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        assert batch(exchange, stream.session, add(1, reqId="Abc123")) == ["REQOK,Abc123"]
        (line,) = batch(exchange, stream.session, add(1, reqId="Xyz9"))
        assert line.startswith("REQERR,Xyz9,65,")


@pytest.mark.conformance("request.unidentified")
def test_an_answer_has_no_identifier_where_none_could_be_read(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        for reqid in ("LS_reqId=&", "LS_reqId=a%2Cb&", ""):
            (line,) = batch(exchange, stream.session, f"{reqid}LS_op=destroy")
            assert line.startswith("ERROR,65,LS_reqId")


@pytest.mark.conformance("request.before-answer")
def test_a_control_request_right_behind_the_creation_is_answered_after_it(exchange: Exchange) -> None:
    with exchange.socket() as socket:
        socket.send("wsok")
        socket.send("create_session", f"LS_adapter_set=TEST&LS_cid={CID}")
        socket.send("control", add())
        lines = socket.read_until("CONF")
        assert tags(lines) == ["WSOK", *HEAD, "REQOK", "SUBOK", "CONF"]


@pytest.mark.conformance("request.before-answer.slow")
def test_a_control_request_waits_for_a_creation_that_takes_its_time(
    server: BackgroundServer, exchange: Exchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = server.call(asyncio.Event)

    async def authenticate(*_: object) -> None:
        await gate.wait()

    monkeypatch.setattr(server.metadata, "authenticate", authenticate)
    with exchange.socket() as socket:
        socket.send("create_session", create())
        socket.send("control", add())
        socket.send("heartbeat", "")
        server.call(gate.set)
        assert tags(socket.read_until("CONF")) == [*HEAD, "REQOK", "SUBOK", "CONF"]


@pytest.mark.conformance("request.before-answer.failed")
def test_a_control_request_behind_a_failed_creation_fails_too(exchange: Exchange) -> None:
    with exchange.socket() as socket:
        socket.send("create_session", create(user="nobody"))
        socket.send("control", add())
        assert socket.read_line().startswith("CONERR,1,")
        line = socket.read_line()
        assert line.startswith("REQERR,1,20,")
        assert "LS_session" in line
