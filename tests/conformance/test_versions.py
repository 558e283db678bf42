from __future__ import annotations

import json

import pytest

from tests.conformance.phrases import HEAD, add, create, row, upgrade
from tests.support.background import BackgroundServer
from tests.support.raw import Exchange, params, tags

SPOKEN = ("2.0.0", "2.1.0", "2.2.0", "2.3.0", "2.4.0", "2.5.0")
SUPPORTED = "supported versions are TLCP-2.0.0 to TLCP-2.5.0"


@pytest.mark.parametrize("version", [row(f"version.http.{version[:3]}", version) for version in SPOKEN])
def test_a_version_named_by_ls_protocol_is_served(exchange: Exchange, version: str) -> None:
    lines = exchange.request("create_session", create(polling=True), f"LS_protocol=TLCP-{version}")
    assert tags(lines) == [*HEAD, "LOOP"]


@pytest.mark.parametrize("version", [row(f"version.ws.{version[:3]}", version) for version in SPOKEN])
def test_a_version_named_by_the_subprotocol_is_echoed_exactly_and_served(exchange: Exchange, version: str) -> None:
    subprotocol = f"TLCP-{version}.lightstreamer.com"
    with exchange.socket(subprotocol) as socket:
        assert socket.connection.subprotocol == subprotocol
        assert tags(socket.create()) == HEAD


@pytest.mark.conformance("version.subminor")
def test_a_sub_minor_version_does_not_matter(exchange: Exchange) -> None:
    assert exchange.request("create_session", create(polling=True), "LS_protocol=TLCP-2.4.7")[0].startswith("CONOK")
    with exchange.socket("TLCP-2.1.3.lightstreamer.com") as socket:
        assert socket.connection.subprotocol == "TLCP-2.1.3.lightstreamer.com"
        assert tags(socket.create()) == HEAD


@pytest.mark.parametrize(
    "name",
    [
        row("version.http.2.6", "TLCP-2.6.0"),
        row("version.http.1.0", "TLCP-1.0.0"),
        row("version.http.3.0", "TLCP-3.0.0"),
        row("version.http.garbage", "quark"),
    ],
)
def test_a_version_that_is_not_spoken_is_error_65_naming_those_that_are(exchange: Exchange, name: str) -> None:
    for request, tag in (("create_session", "CONERR"), ("bind_session", "CONERR"), ("control", "ERROR")):
        (line,) = exchange.request(request, "", f"LS_protocol={name}")
        assert line.startswith(f"{tag},65,")
        assert f"LS_protocol={name}" in line
        assert SUPPORTED in line


@pytest.mark.conformance("version.http.missing")
def test_a_request_without_ls_protocol_that_only_tlcp_has_is_error_65_naming_it(exchange: Exchange) -> None:
    for name in ("heartbeat", "msg"):
        (line,) = exchange.request(name, "", "")
        assert line.startswith("ERROR,65,LS_protocol is missing")
        assert SUPPORTED in line


@pytest.mark.conformance("version.http.missing-older")
def test_a_request_without_ls_protocol_is_of_the_older_protocol_and_its_error_names_it(exchange: Exchange) -> None:
    with exchange.http() as http:
        http.post("create_session", create(), "")
        assert http.read_head() == 500
        assert b"LS_protocol in the query string" in http.read_body()


@pytest.mark.parametrize(
    "version", [row("version.ws.2.6", "2.6.0"), row("version.ws.1.0", "1.0.0"), row("version.ws.3.0", "3.0.0")]
)
def test_requests_of_a_subprotocol_that_is_not_spoken_are_error_65(exchange: Exchange, version: str) -> None:
    subprotocol = f"TLCP-{version}.lightstreamer.com"
    with exchange.socket(subprotocol) as socket:
        assert socket.connection.subprotocol == subprotocol
        (line,) = socket.create()
        assert line.startswith("CONERR,65,")
        assert f"TLCP-{version}" in line
        assert SUPPORTED in line
        socket.send("control", params(reqId=1, op="destroy"))
        assert socket.read_line().startswith("ERROR,65,")


@pytest.mark.conformance("version.ws.garbage")
def test_a_handshake_without_a_tlcp_subprotocol_is_refused_naming_the_versions(exchange: Exchange) -> None:
    for offered in ("chat", "TLCP-2.4.0", "TLCP-2.4.lightstreamer.com"):
        with exchange.http() as http:
            http.get("/lightstreamer", headers=upgrade(offered))
            assert http.read_head() == 400
            assert SUPPORTED in http.read_body().decode()


@pytest.mark.conformance("version.subprotocol-choice")
def test_the_first_tlcp_subprotocol_of_several_is_chosen(exchange: Exchange) -> None:
    with exchange.http() as http:
        offered = "chat, TLCP-2.3.0.lightstreamer.com, TLCP-2.4.0.lightstreamer.com"
        http.get("/lightstreamer", headers=upgrade(offered))
        assert http.read_head() == 101
        assert http.headers["sec-websocket-protocol"] == "TLCP-2.3.0.lightstreamer.com"


@pytest.mark.parametrize("formats", [row("version.differences", None), row("version.differences.asked-for", "P,T")])
@pytest.mark.config({"session.default_diff_order": "PT"})
def test_values_are_sent_as_differences_from_2_4_on_only(
    server: BackgroundServer, exchange: Exchange, formats: str | None
) -> None:
    values = [json.dumps({"text": "a long text that hardly changes, and another one", "n": n}) for n in range(3)]
    for version in SPOKEN:
        with exchange.socket(f"TLCP-{version}.lightstreamer.com") as socket:
            socket.create(**({} if formats is None else {"supported_diffs": formats}))
            socket.send("control", add(group=version))
            socket.read_until("CONF")
            for value in values:
                server.update(version, x=value)
            sent = [socket.read_line().removeprefix("U,1,1,") for _ in values]
            if version < "2.4":
                assert sent == values
            else:
                assert [line[:2] for line in sent[1:]] == ["^P", "^P"]


@pytest.mark.conformance("version.message-response")
def test_a_message_outcome_carries_a_response_from_2_5_on_only(exchange: Exchange) -> None:
    for version in SPOKEN:
        with exchange.socket(f"TLCP-{version}.lightstreamer.com") as socket:
            socket.create()
            socket.send("msg", params(reqId=1, message="a,b", msg_prog=1))
            expected = "MSGDONE,*,1,got a%2Cb" if version == "2.5.0" else "MSGDONE,*,1"
            assert socket.read_until("MSGDONE") == ["REQOK,1", expected]
