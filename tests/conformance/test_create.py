from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.conftest import MovableClock
from tests.conformance.phrases import HEAD, add, answer, create, row, without
from tests.support.background import BackgroundServer
from tests.support.raw import CID, Exchange, params, tags

INVALID = {
    "LS_requested_max_bandwidth": ("-1", "0", "fast", "1e3", ""),
    "LS_content_length": ("-1", "many", "1.5"),
    "LS_polling": ("yes", "TRUE", ""),
    "LS_polling_millis": ("-1", "soon"),
    "LS_idle_millis": ("-1", "1.5"),
    "LS_inactivity_millis": ("-5", "x"),
    "LS_keepalive_millis": ("-1", "9" * 40),
    "LS_send_sync": ("no", "1"),
    "LS_reduce_head": ("maybe",),
    "LS_ttl_millis": ("-1", "forever"),
}


@pytest.mark.conformance("create.request")
def test_a_creation_gives_a_session_and_its_first_stream_on_either_transport(exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.socket() as socket:
        assert tags(stream.head) == HEAD
        assert tags(socket.create()) == HEAD
        assert stream.session != socket.session


@pytest.mark.conformance("create.LS_cid")
def test_any_client_identifier_is_accepted_and_none_too(exchange: Exchange) -> None:
    for cid in (CID, "v%20Wntytg4pkpW37AM3P4hwLri8M4OD6Ah6e", "somebody"):
        body = f"LS_adapter_set=TEST&LS_polling=true&LS_cid={cid}"
        assert tags(exchange.request("create_session", body)) == [*HEAD, "LOOP"]
    assert tags(exchange.request("create_session", "LS_adapter_set=TEST&LS_polling=true")) == [*HEAD, "LOOP"]


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        row("create.LS_user", "LS_user=us%20er", ("us er", None)),
        row("create.LS_user.omitted", "", (None, None)),
        row("create.LS_password", "LS_user=u&LS_password=p%26w", ("u", "p&w")),
    ],
)
def test_user_and_password_reach_the_metadata_adapter(
    server: BackgroundServer,
    exchange: Exchange,
    monkeypatch: pytest.MonkeyPatch,
    given: str,
    seen: tuple[str | None, str | None],
) -> None:
    found = []

    async def authenticate(user: str | None, password: str | None, client: object) -> None:
        found.append((user, password))

    monkeypatch.setattr(server.metadata, "authenticate", authenticate)
    body = "&".join(part for part in ("LS_adapter_set=TEST&LS_polling=true", given) if part)
    assert exchange.request("create_session", body)[0].startswith("CONOK,")
    assert found == [seen]


@pytest.mark.conformance("create.LS_adapter_set")
def test_the_adapter_set_is_chosen_by_name(exchange: Exchange) -> None:
    with exchange.stream("WELCOME") as stream:
        subscription = add(group="item1", schema="stock_name", data_adapter="STOCKS", snapshot=True)
        assert exchange.request("control", f"LS_session={stream.session}&{subscription}") == ["REQOK,1"]
        assert stream.read_until("U")[-1] == "U,1,1,Anduct"


@pytest.mark.conformance("create.LS_adapter_set.omitted")
def test_without_an_adapter_set_the_one_named_default_is_meant(exchange: Exchange) -> None:
    (line,) = exchange.request("create_session", without(create(), "LS_adapter_set"))
    assert line == "CONERR,2,Requested Adapter Set not available"
    # It is the name, not the parameter, that is missing.
    assert exchange.request("create_session", create(adapter_set="DEFAULT")) == [line]


@pytest.mark.conformance("create.LS_requested_max_bandwidth")
def test_a_bandwidth_asked_for_is_announced_and_obeyed(
    server: BackgroundServer, exchange: Exchange, clock: MovableClock
) -> None:
    # 0.8 kbit/s are 100 bytes a second: after 5,000 bytes the session is held for 50 seconds.
    with exchange.stream(requested_max_bandwidth="0.80", send_sync=False, keepalive_millis=30_000) as stream:
        assert stream.head[-1] == "CONS,0.8"
        exchange.request("control", f"LS_session={stream.session}&{add()}")
        clock.advance(1)
        stream.read_until("CONF")
        # A line longer than a second's share goes alone in its second.
        clock.advance(2)
        server.update("a", x="1" * 5000)
        assert stream.read_line() == "U,1,1," + "1" * 5000
        for value in ("2", "3", "4"):
            server.update("a", x=value)
        clock.advance(31)
        clock.advance(20)
        # What came while the session was held is conflated: of 2, 3 and 4 only the last is left.
        assert stream.read_until("U") == ["PROBE", "U,1,1,4"]
    with exchange.stream(requested_max_bandwidth="unlimited") as stream:
        assert stream.head[-1] == "CONS,unlimited"


@pytest.mark.conformance("create.LS_supported_diffs")
def test_no_update_uses_a_diff_format_that_the_client_left_out(server: BackgroundServer, exchange: Exchange) -> None:
    for formats in ("", "P", "T", "P,T"):
        with exchange.stream(supported_diffs=formats) as stream:
            assert tags(stream.head) == HEAD
            exchange.request("control", f"LS_session={stream.session}&{add(group=f'i{formats}')}")
            stream.read_until("CONF")
            server.update(f"i{formats}", x='{"text": "a long text that hardly changes", "n": 1}')
            server.update(f"i{formats}", x='{"text": "a long text that hardly changes", "n": 2}')
            for line in stream.read_until("U") + stream.read_until("U"):
                for diff in {"^P", "^T"} - {f"^{name}" for name in formats.split(",")}:
                    assert diff not in line


@pytest.mark.conformance("create.LS_polling")
def test_a_polling_creation_ends_at_once_and_keeps_the_session(exchange: Exchange) -> None:
    with exchange.http() as http, exchange.socket() as socket:
        http.post("create_session", create(polling=True))
        lines = answer(http)
        assert tags(lines) == [*HEAD, "LOOP"]
        assert http.headers["content-length"]
        session = lines[0].split(",")[1]
        assert exchange.control(session, reqId=1, op="constrain") == ["REQOK,1"]
        socket.send("create_session", create(polling=True))
        assert tags(socket.read_until("LOOP")) == [*HEAD, "LOOP"]


@pytest.mark.conformance("create.LS_polling_millis")
def test_the_pause_until_the_next_poll_is_granted_up_to_the_configured_maximum(
    exchange: Exchange, clock: MovableClock
) -> None:
    assert exchange.request("create_session", create(polling=True))[-1] == "LOOP,0"
    lines = exchange.request("create_session", create(polling=True, polling_millis=4000))
    assert lines[-1] == "LOOP,4000"
    longest = exchange.request("create_session", create(polling=True, polling_millis=9_000_000))
    assert longest[-1] == "LOOP,15000"
    # The session time-out of 10 seconds begins after the pause.
    clock.advance(13.9)
    assert exchange.control(lines[0].split(",")[1], reqId=1, op="constrain") == ["REQOK,1"]
    clock.advance(0.2)
    assert exchange.control(lines[0].split(",")[1], reqId=1, op="constrain")[0].startswith("REQERR,1,20,")
    assert exchange.control(longest[0].split(",")[1], reqId=1, op="constrain") == ["REQOK,1"]


@pytest.mark.conformance("create.LS_idle_millis")
@pytest.mark.config({"session.max_idle_millis": 30})
def test_a_poll_without_data_waits_as_long_as_allowed_and_no_longer_than_configured(exchange: Exchange) -> None:
    lines = exchange.request("create_session", create(polling=True, idle_millis=20, reduce_head=True))
    assert lines[0].split(",")[3] == "20"
    assert tags(lines) == ["CONOK", "LOOP"]
    lines = exchange.request("create_session", create(polling=True, idle_millis=3_600_000, reduce_head=True))
    assert lines[0].split(",")[3] == "30"
    assert tags(lines) == ["CONOK", "LOOP"]


@pytest.mark.conformance("create.LS_idle_millis.head")
@pytest.mark.config({"session.max_idle_millis": 60_000})
def test_a_creation_that_has_something_to_tell_does_not_wait(exchange: Exchange) -> None:
    # Longer than the test waits for an answer.
    lines = exchange.request("create_session", create(polling=True, idle_millis=60_000))
    assert lines[0].split(",")[3] == "60000"
    assert tags(lines) == [*HEAD, "LOOP"]
    with exchange.socket() as socket:
        socket.send("create_session", create(polling=True, idle_millis=60_000))
        assert tags(socket.read_until("LOOP")) == [*HEAD, "LOOP"]


@pytest.mark.conformance("create.LS_inactivity_millis")
def test_a_client_that_stays_silent_for_longer_than_it_promised_is_cut_off(
    exchange: Exchange, clock: MovableClock
) -> None:
    with exchange.stream(inactivity_millis=2000, keepalive_millis=30_000) as stream:
        for _ in range(3):
            clock.advance(1.5)
            assert exchange.request("heartbeat", params(session=stream.session)) == ["REQOK"]
        clock.advance(1.5)
        assert exchange.control(stream.session, reqId=1, op="constrain") == ["REQOK,1"]
        assert stream.read_line() == "CONS,unlimited"
        clock.advance(2.1)
        assert stream.http.is_closed()
        # The client may be alive after all: the session is kept for recovery.
        lines = exchange.request("bind_session", params(session=stream.session, recovery_from=0, polling=True))
        assert tags(lines) == ["CONOK", "CONS", "PROG", "LOOP"]


@pytest.mark.parametrize(
    ("asked", "granted"),
    [
        row("create.LS_keepalive_millis", 3000, "3000"),
        row("create.LS_keepalive_millis.omitted", None, "5000"),
        row("create.LS_keepalive_millis.too-low", 10, "1000"),
        row("create.LS_keepalive_millis.too-high", 3_600_000, "30000"),
    ],
)
def test_the_keep_alive_time_is_moved_into_the_configured_bounds_announced_and_kept(
    exchange: Exchange, clock: MovableClock, asked: int | None, granted: str
) -> None:
    wish: dict[str, Any] = {} if asked is None else {"keepalive_millis": asked}
    with exchange.stream(send_sync=False, **wish) as stream, exchange.socket() as socket:
        assert stream.head[0].split(",")[3] == granted
        assert socket.create(send_sync=False, **wish)[0].split(",")[3] == granted
        clock.advance(int(granted) / 1000 - 0.5)
        exchange.control(stream.session, reqId=1, op="constrain")
        clock.advance(0.6)
        assert socket.read_line() == "PROBE"
        clock.advance(int(granted) / 1000)
        assert stream.read_until("PROBE") == ["CONS,unlimited", "PROBE"]


@pytest.mark.conformance("create.LS_send_sync")
def test_sync_is_left_out_on_request(exchange: Exchange, clock: MovableClock) -> None:
    with (
        exchange.stream(keepalive_millis=30_000) as default,
        exchange.stream(send_sync=True, keepalive_millis=30_000) as wanted,
        exchange.stream(send_sync=False, keepalive_millis=30_000) as unwanted,
    ):
        clock.advance(10.1)
        clock.advance(20)
        assert default.read_line() == wanted.read_line() == "SYNC,10"
        assert unwanted.read_line() == "PROBE"


@pytest.mark.conformance("create.LS_reduce_head")
def test_a_reduced_head_has_no_name_and_address_and_the_session_never_tells_its_constraints(
    exchange: Exchange,
) -> None:
    with exchange.socket() as socket:
        socket.send("create_session", create(reduce_head=True))
        assert socket.read_line().startswith("CONOK,")
        socket.send("control", params(reqId=1, op="constrain", requested_max_bandwidth=7), add(2))
        assert socket.read_until("CONF") == ["REQOK,1", "REQOK,2", "SUBOK,2,1,1", "CONF,2,unlimited,filtered"]
        socket.send("control", params(reqId=3, op="force_rebind"))
        assert set(tags([socket.read_line(), socket.read_line()])) == {"LOOP", "REQOK"}
        socket.send("bind_session", params(polling=True))
        # A later connection without the parameter tells what the client has not been told yet.
        assert tags(socket.read_until("LOOP")) == ["CONOK", "SERVNAME", "CLIENTIP", "LOOP"]
    lines = exchange.request("create_session", create(reduce_head=True, polling=True))
    assert tags(lines) == ["CONOK", "LOOP"]


@pytest.mark.parametrize(
    ("wish", "user", "expected"),
    [
        row("create.LS_ttl_millis", "50", "slow", "CONERR,5,No answer within LS_ttl_millis=50"),
        row("create.LS_ttl_millis.in-time", "10000", "", "CONOK"),
        row("create.LS_ttl_millis.unknown", "unknown", "", "CONOK"),
        row("create.LS_ttl_millis.unlimited", "unlimited", "", "CONOK"),
    ],
)
def test_a_creation_is_given_up_when_the_client_does_not_wait_any_longer(
    exchange: Exchange, wish: str, user: str, expected: str
) -> None:
    lines = exchange.request("create_session", create(user=user, ttl_millis=wish, polling=True))
    assert lines[0].startswith(expected)


@pytest.mark.parametrize("name", [row(f"create.{name}.invalid", name) for name in INVALID])
def test_a_wrong_value_is_error_65_naming_parameter_and_value(exchange: Exchange, name: str) -> None:
    for value in INVALID[name]:
        (line,) = exchange.request("create_session", f"{create()}&{name}={value}")
        assert line.startswith(f"CONERR,65,{name}={value[:30]}")
        assert "expected" in line


# -- the answer --------------------------------------------------------------------------------------------------------


@pytest.mark.conformance("response.CONOK.session-id")
def test_a_session_id_is_unique_and_carries_at_least_128_random_bits(exchange: Exchange) -> None:
    lines = [exchange.request("create_session", create(polling=True))[0] for _ in range(8)]
    ids = {line.split(",")[1] for line in lines}
    assert len(ids) == 8
    secrets = {found.partition("T")[0].removeprefix("S") for found in ids}
    assert all(len(bytes.fromhex(secret)) >= 16 for secret in secrets)


@pytest.mark.conformance("response.CONOK.request-limit")
@pytest.mark.config({"limits.request_limit": 12_345})
def test_conok_announces_the_longest_request(exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.socket() as socket:
        assert stream.head[0].split(",")[2] == "12345"
        assert socket.create()[0].split(",")[2] == "12345"


@pytest.mark.conformance("response.CONOK.keep-alive.polling")
def test_conok_announces_the_idle_time_as_keep_alive_of_a_poll(exchange: Exchange) -> None:
    lines = exchange.request("create_session", create(polling=True, keepalive_millis=7000))
    assert lines[0].split(",")[3] == "0"
    session = lines[0].split(",")[1]
    with exchange.http() as http:
        http.post("bind_session", params(session=session, polling=True, idle_millis=19_000))
        http.read_head()
        assert http.read_line().split(",")[3] == "19000"


@pytest.mark.conformance("response.CONOK.control-link")
def test_without_a_control_link_conok_has_an_asterisk(exchange: Exchange) -> None:
    with exchange.stream() as stream, exchange.socket() as socket:
        assert stream.head[0].split(",")[4] == "*"
        assert socket.create()[0].split(",")[4] == "*"


@pytest.mark.conformance("response.CONOK.control-link.configured")
@pytest.mark.config({"stream.control_link_address": "node7.example.com:8080"})
def test_a_configured_control_link_is_announced(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        assert stream.head[0].split(",")[4] == "node7.example.com:8080"
        exchange.control(stream.session, reqId=1, op="force_rebind")
        lines = exchange.request("bind_session", params(session=stream.session, polling=True))
        assert lines[0].split(",")[4] == "node7.example.com:8080"


@pytest.mark.conformance("response.CONOK.head")
def test_name_address_and_constraints_follow_conok_at_once(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        assert stream.head[1:] == ["SERVNAME,Penstock", "CLIENTIP,127.0.0.1", "CONS,unlimited"]


@pytest.mark.conformance("response.CONERR")
def test_a_session_that_could_not_be_created_or_bound_is_answered_with_conerr(exchange: Exchange) -> None:
    with exchange.http() as http, exchange.socket() as socket:
        http.post("create_session", create(user="nobody"))
        assert answer(http) == ["CONERR,1,User/password check failed"]
        assert http.status == 200
        assert socket.create(user="nobody") == ["CONERR,1,User/password check failed"]
        (line,) = exchange.request("bind_session", "LS_session=nonsense")
        assert line == "CONERR,20,LS_session: Specified session not found"
