"""Chapter 5 of the TLCP specification, "Hands On", session by session: its commands typed, its output compared.

The commands are the chapter's own, address apart.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator

import pytest

from tests.support.curl import Curl, CurlStream, shape, tag
from tests.support.process import ServerProcess

# The feed at a pace at which the chapter's minutes pass in seconds; the clock's lines come often enough to be seen.
FAST = {
    "demo.pace": 50,
    "session.min_keepalive_millis": 100,
    "session.default_keepalive_millis": 100,
    "session.sync_millis": 300,
}

CREATE = (
    'curl -v -N -X POST -d "LS_adapter_set=WELCOME&LS_cid=mgQkwtwdysogQz2BJ4Ji%20kOj2Bg" '
    "http://localhost:8080/lightstreamer/create_session.txt?LS_protocol=TLCP-2.4.0"
)
CREATE_SHORT = (
    'curl -v -N -X POST -d "LS_adapter_set=WELCOME&LS_cid=mgQkwtwdysogQz2BJ4Ji%20kOj2Bg&LS_content_length=10000" '
    "http://localhost:8080/lightstreamer/create_session.txt?LS_protocol=TLCP-2.4.0"
)
CREATE_WITHOUT_SYNC = (
    'curl -v -N -X POST -d "LS_adapter_set=WELCOME&LS_cid=mgQkwtwdysogQz2BJ4Ji%20kOj2Bg&LS_send_sync=false" '
    "http://localhost:8080/lightstreamer/create_session.txt?LS_protocol=TLCP-2.4.0"
)
SUBSCRIBE_ITEM1 = (
    'curl -v -N -X POST -d "LS_op=add&LS_subId=1&LS_data_adapter=STOCKS&LS_group=item1&LS_schema=stock_name time '
    'last_price&LS_mode=MERGE&LS_session=<session-ID>&LS_reqId=1" '
    "http://localhost:8080/lightstreamer/control.txt?LS_protocol=TLCP-2.4.0"
)
SUBSCRIBE_ITEM2_ALSO = (
    'curl -v -N -X POST -d "LS_op=add&LS_subId=2&LS_data_adapter=STOCKS&LS_group=item2&LS_schema=stock_name time '
    'last_price&LS_mode=MERGE&LS_session=<session-ID>&LS_reqId=2" '
    "http://localhost:8080/lightstreamer/control.txt?LS_protocol=TLCP-2.4.0"
)
SUBSCRIBE_ITEM2 = (
    'curl -v -N -X POST -d "LS_op=add&LS_subId=1&LS_data_adapter=STOCKS&LS_group=item2&LS_schema=stock_name time '
    'last_price&LS_mode=MERGE&LS_session=<session-ID>&LS_reqId=1" '
    "http://localhost:8080/lightstreamer/control.txt?LS_protocol=TLCP-2.4.0"
)
SUBSCRIBE_CHAT = (
    'curl -v -N -X POST -d "LS_op=add&LS_subId=1&LS_data_adapter=CHAT&LS_group=chat_room&LS_schema=timestamp '
    'message&LS_mode=DISTINCT&LS_session=<session-ID>&LS_reqId=1" '
    "http://localhost:8080/lightstreamer/control.txt?LS_protocol=TLCP-2.4.0"
)
UNSUBSCRIBE = (
    'curl -v -N -X POST -d "LS_op=delete&LS_subId=1&LS_session=<session-ID>&LS_reqId=2" '
    "http://localhost:8080/lightstreamer/control.txt?LS_protocol=TLCP-2.4.0"
)
DESTROY = (
    'curl -v -N -X POST -d "LS_op=destroy&LS_session=<session-ID>&LS_reqId=3" '
    "http://localhost:8080/lightstreamer/control.txt?LS_protocol=TLCP-2.4.0"
)
BIND = (
    'curl -v -N -X POST -d "LS_session=<session-ID>" '
    "http://localhost:8080/lightstreamer/bind_session.txt?LS_protocol=TLCP-2.4.0"
)
RECOVER_FROM = (
    'curl -v -N -X POST -d "LS_session=<session-ID>&LS_recovery_from={}" '
    "http://localhost:8080/lightstreamer/bind_session.txt?LS_protocol=TLCP-2.4.0"
)
SEND_MESSAGE = (
    'curl -v -N -X POST -d "LS_session=<session-ID>&LS_message=CHAT|Ciao&LS_msg_prog=1&LS_reqId=2" '
    "http://localhost:8080/lightstreamer/msg.txt?LS_protocol=TLCP-2.4.0"
)
REGISTER = (
    'curl -v -N -X POST -d "LS_session=<session-ID>&LS_reqId=1&LS_op=register&PN_type=Apple&PN_appId=com.mydomain.myapp'
    '&PN_deviceToken=123456" http://localhost:8080/lightstreamer/control.txt?LS_protocol=TLCP-2.4.0'
)
ACTIVATE = (
    'curl -v -N -X POST -d "LS_session=<session-ID>&LS_reqId=2&LS_subId=1&LS_op=activate&LS_data_adapter=STOCKS'
    "&LS_group=item1&LS_schema=stock_name last_price&LS_mode=MERGE&PN_deviceId=<MPN-device-ID>"
    r"&PN_notificationFormat={\"aps\":{\"badge\":1,\"sound\": \"Default\", \"alert\": \"Price of ${stock_name} now is "
    r"${last_price}\"}}&PN_coalescing=true"
    '" http://localhost:8080/lightstreamer/control.txt?LS_protocol=TLCP-2.4.0'
)
DEACTIVATE = (
    'curl -v -N -X POST -d "LS_session=<session-ID>&LS_reqId=2&LS_op=deactivate&PN_deviceId=<MPN-device-ID>'
    '&PN_subscriptionId=<MPN-subscription-ID>" http://localhost:8080/lightstreamer/control.txt?LS_protocol=TLCP-2.4.0'
)

# Seconds to wait for what should come at once.
PATIENCE = 30

UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
TIME = r"\d\d:\d\d:\d\d"
PRICE = r"\d+(\.\d{1,2})?"


@pytest.fixture
def curl(process: ServerProcess) -> Iterator[Curl]:
    with Curl(process.host, process.port) as running:
        yield running


def read_head(stream: CurlStream) -> str:
    """What the chapter prints when a session is created; the session's identifier."""
    head = stream.until("CONS")
    assert shape(head) == ["CONOK", "SERVNAME", "CLIENTIP", "NOOP", "CONS"]
    _, session, request_limit, keepalive, control_link = head[0].split(",")
    assert re.fullmatch(r"S[0-9a-f]+T[A-Za-z0-9-]+", session)
    assert (request_limit, keepalive, control_link) == ("50000", "100", "*")
    assert head[1] == "SERVNAME,Penstock"
    assert head[2] == "CLIENTIP,127.0.0.1"
    assert set(head[3:-1]) == {"NOOP,sending placeholder data"}
    assert head[-1] == "CONS,unlimited"
    return session


def is_first_update(line: str, name: str, subscription: int = 1) -> bool:
    """All fields are there."""
    return re.fullmatch(rf"U,{subscription},1,{name}\|{TIME}\|{PRICE}", line) is not None


def is_later_update(line: str, subscription: int = 1) -> bool:
    """Only what has changed is there: never the name, but the time or the price."""
    return re.fullmatch(rf"U,{subscription},1,\|({TIME}\|({PRICE})?|\|{PRICE})", line) is not None


@pytest.mark.config(FAST)
def test_basic_subscription(curl: Curl) -> None:
    stream = curl.open(CREATE)
    session = read_head(stream)
    assert [stream.wait_for("PROBE") for _ in range(2)] == ["PROBE", "PROBE"]

    assert curl.run(SUBSCRIBE_ITEM1, session) == ["REQOK,1"]
    assert stream.next() == "SUBOK,1,1,3"
    assert stream.next() == "CONF,1,unlimited,filtered"
    assert is_first_update(stream.next(), "Anduct")
    assert is_later_update(stream.next())
    assert is_later_update(stream.next())
    assert re.fullmatch(r"SYNC,\d+", stream.wait_for("SYNC"))

    assert curl.run(UNSUBSCRIBE, session) == ["REQOK,2"]
    assert shape(stream.until("UNSUB")) in (["UNSUB"], ["U", "UNSUB"])
    assert stream.lines[-1] == "UNSUB,1"

    assert curl.run(DESTROY, session) == ["REQOK,3"]
    assert stream.next() == "END,31,Destroy invoked by client"
    assert stream.rest() == []
    assert stream.exit_code() == 0


@pytest.mark.config({**FAST, "session.session_recovery_millis": 0})
def test_a_session_ends_when_its_connection_is_interrupted(curl: Curl) -> None:
    stream = curl.open(CREATE)
    session = read_head(stream)
    stream.interrupt()
    stream.exit_code()
    # The server hears of it a moment later than we do; until then it takes the subscription, or has it already.
    answer = curl.run(SUBSCRIBE_ITEM1, session)
    while not answer[0].startswith("REQERR,1,20,"):
        assert answer[0].split(",")[0:2] in (["REQOK", "1"], ["REQERR", "1"])
        answer = curl.run(SUBSCRIBE_ITEM1, session)
    assert len(answer) == 1


@pytest.mark.config({**FAST, "demo.pace": 100})
def test_session_rebinding(curl: Curl) -> None:
    stream = curl.open(CREATE_SHORT)
    session = read_head(stream)
    assert curl.run(SUBSCRIBE_ITEM1, session) == ["REQOK,1"]
    assert curl.run(SUBSCRIBE_ITEM2_ALSO, session) == ["REQOK,2"]

    lines = [line for line in stream.rest() if tag(line) not in ("PROBE", "SYNC")]
    assert stream.exit_code() == 0
    assert lines[:2] == ["SUBOK,1,1,3", "CONF,1,unlimited,filtered"]
    first, second = (_without(lines, number) for number in (2, 1))
    assert is_first_update(first[2], "Anduct")
    assert all(is_later_update(line) for line in first[3:-1])
    assert second[:2] == ["SUBOK,2,1,3", "CONF,2,unlimited,filtered"]
    assert is_first_update(second[2], "Ations Europe", subscription=2)
    assert all(is_later_update(line, subscription=2) for line in second[3:-1])
    assert lines[-1] == "LOOP,0"
    length = sum(len(line) + len("\r\n") for line in stream.lines)
    assert 9_800 <= length <= 10_000

    again = curl.open(BIND, session)
    head = again.until("CONS")
    assert shape(head) == ["CONOK", "NOOP", "CONS"]
    assert head[0] == f"CONOK,{session},50000,100,*"
    assert head[-1] == "CONS,unlimited"
    for _ in range(20):
        line = again.next()
        assert is_later_update(line, subscription=1) or is_later_update(line, subscription=2)


def _without(lines: list[str], subscription: int) -> list[str]:
    """The lines that are not about this subscription."""
    return [line for line in lines if line.split(",")[1] != str(subscription) or tag(line) == "LOOP"]


@pytest.mark.config(FAST)
def test_session_recovery(curl: Curl) -> None:
    stream = curl.open(CREATE)
    session = read_head(stream)
    assert curl.run(SUBSCRIBE_ITEM2, session) == ["REQOK,1"]
    received = [stream.next() for _ in range(15)]
    stream.kill()
    received += [line for line in stream.rest() if tag(line) not in ("PROBE", "SYNC")]
    assert received[:2] == ["SUBOK,1,1,3", "CONF,1,unlimited,filtered"]
    assert is_first_update(received[2], "Ations Europe")
    assert all(is_later_update(line) for line in received[3:])

    start = len(received) - 4
    again = curl.open(RECOVER_FROM.format(start), session)
    head = again.until("PROG")
    assert shape(head) == ["CONOK", "NOOP", "CONS", "PROG"]
    assert head[0] == f"CONOK,{session},50000,100,*"
    assert head[-2:] == ["CONS,unlimited", f"PROG,{start}"]
    assert [again.next() for _ in range(4)] == received[start:]
    assert all(is_later_update(again.next()) for _ in range(10))


@pytest.mark.config(FAST)
def test_sending_and_receiving_messages(curl: Curl) -> None:
    stream = curl.open(CREATE_WITHOUT_SYNC)
    session = read_head(stream)
    assert curl.run(SUBSCRIBE_CHAT, session) == ["REQOK,1"]
    assert [stream.next() for _ in range(2)] == ["SUBOK,1,1,2", "CONF,1,unlimited,filtered"]
    assert curl.run(SEND_MESSAGE, session) == ["REQOK,2"]
    # The chapter prints the outcome first, then the echo.
    assert stream.next() == "MSGDONE,*,1"
    assert re.fullmatch(rf"U,1,1,{TIME}\|Ciao", stream.next())
    # Long past the time of the first SYNC.
    for _ in range(5):
        assert stream.next_line() == "PROBE"
    assert "SYNC" not in map(tag, stream.lines)


def logged(process: ServerProcess, pattern: str) -> str:
    """Wait for a line of the log; what the group of the pattern matches."""
    deadline = time.monotonic() + PATIENCE
    while (found := re.search(pattern, process.log)) is None:
        assert time.monotonic() < deadline, process.log
        time.sleep(0.05)
    return found[1]


@pytest.mark.config({**FAST, "push.enabled": True, 'push.apple."com.mydomain.myapp".service_level': "test"})
def test_mobile_push_notifications(process: ServerProcess, curl: Curl) -> None:
    stream = curl.open(CREATE_WITHOUT_SYNC)
    session = read_head(stream)
    assert curl.run(REGISTER, session) == ["REQOK,1"]
    registered = stream.next()
    found = re.fullmatch(rf"MPNREG,({UUID}),MPN_INTERNAL_DATA_ADAPTER", registered)
    assert found is not None, registered
    device = found[1]

    assert curl.run(ACTIVATE.replace("<MPN-device-ID>", device), session) == ["REQOK,2"]
    activated = stream.next()
    found = re.fullmatch(rf"MPNOK,1,({UUID})", activated)
    assert found is not None, activated
    subscription = found[1]
    payload = json.loads(
        logged(process, rf"Payload for subscription {subscription} with notification ID 1: (\{{.*\}}\}})")
    )
    assert re.fullmatch(f"Price of Anduct now is {PRICE}", payload["aps"].pop("alert"))
    assert payload == {"aps": {"badge": 1, "sound": "Default"}}

    assert curl.run(DESTROY, session) == ["REQOK,3"]
    assert stream.next() == "END,31,Destroy invoked by client"

    stream = curl.open(CREATE_WITHOUT_SYNC)
    session = read_head(stream)
    assert curl.run(REGISTER, session) == ["REQOK,1"]
    assert stream.next() == registered
    command = DEACTIVATE.replace("<MPN-device-ID>", device).replace("<MPN-subscription-ID>", subscription)
    assert curl.run(command, session) == ["REQOK,2"]
    assert stream.next() == f"MPNDEL,{subscription}"


def test_the_sample_command_without_a_protocol_version_is_told_what_is_missing(curl: Curl) -> None:
    """It is of the older text protocol then, and not a whole request of that either."""
    answer = curl.output('curl -X POST -d "LS_adapter_set=DEMO" http://localhost:8080/lightstreamer/create_session.txt')
    assert answer == b"LS_op2 is missing; expected LS_op2=create, or LS_protocol in the query string\n"
