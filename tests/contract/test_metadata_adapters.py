"""What a metadata adapter is asked, and what clients are told of its decisions, whatever process it is in."""

from __future__ import annotations

import http.client

import pytest

from penstock.adapters import DeviceFacts, PushFacts
from penstock.kernel.item import Mode
from tests.adapters.remote.support import Client
from tests.contract.backends import PATIENCE, Backend

pytestmark = pytest.mark.interop


@pytest.mark.parametrize(
    ("user", "password"), [("me", "p w"), ("é|ü", "100 %"), (None, None), ("#", "$"), ("a+b", "😀")]
)
def test_user_and_password_reach_the_adapter_as_they_are(
    backend: Backend, user: str | None, password: str | None
) -> None:
    given = {name: value for name, value in (("user", user), ("password", password)) if value is not None}
    with backend.server.client(**given) as client:
        assert client.head[0].startswith("CONOK")
        session = client.socket.session
    backend.reports.expect("user", user=user, password=password)
    backend.reports.expect("session", user=user, session=session)


def test_both_calls_for_one_client_carry_the_identifier_of_its_request(backend: Backend) -> None:
    with backend.server.client(user="linked") as one, backend.server.client(user="linked") as two:
        sessions = [one.socket.session, two.socket.session]
    asked = [report["request"] for report in backend.reports.find("user", user="linked")]
    told = [backend.reports.expect("session", session=session)["context"]["REQUEST_ID"] for session in sessions]
    assert asked == told
    assert len(set(asked)) == 2
    assert all(asked)


@pytest.mark.parametrize(
    ("client_id", "library", "version"),
    [
        ("v%20Wntytg4pkpW37AM3P4hwLri8M4OD6Ah6e", "python_client", "2.2.3 build 20260820"),
        ("v%20Wntytg4pkpW3somethingNewer", "python_client", None),
        ("mgQkwtwdysogQz2BJ4Ji%20kOj2Bg", "generic_client", None),
        ("mine", None, None),
    ],
)
def test_the_adapter_is_told_where_a_client_comes_from_and_what_it_is(
    backend: Backend, client_id: str, library: str | None, version: str | None
) -> None:
    headers = {"User-Agent": "tests | 1", "X-Forwarded-For": "192.0.2.7, 192.0.2.8"}
    connection = http.client.HTTPConnection(backend.server.host, backend.server.port, timeout=PATIENCE)
    connection.connect()
    local_port = connection.sock.getsockname()[1]
    body = f"LS_adapter_set=REMOTE&LS_polling=true&LS_cid={client_id}"
    connection.request("POST", "/lightstreamer/create_session.txt?LS_protocol=TLCP-2.5.0", body, headers)
    session = connection.getresponse().read().decode().split(",")[1]
    connection.close()
    context = dict(backend.reports.expect("session", session=session)["context"])
    assert context.pop("REQUEST_ID")
    assert context == {
        "REMOTE_IP": "127.0.0.1",
        "REMOTE_PORT": str(local_port),
        "USER_AGENT": "tests | 1",
        "FORWARDING_INFO": "192.0.2.7, 192.0.2.8",
        "LOCAL_SERVER": "stream",
        "CLIENT_TYPE": library,
        "CLIENT_VERSION": version,
    }


@pytest.mark.parametrize(
    ("user", "line"),
    [
        ("nobody", "CONERR,1,User/password check failed"),
        ("poor", "CONERR,-7,pay first"),
        ("crash", "CONERR,66"),
        ("late", "CONERR,-8,too late"),
    ],
)
def test_a_refused_user_is_told_the_code_for_it(backend: Backend, user: str, line: str) -> None:
    with backend.server.client(user=user) as client:
        assert client.head[-1].startswith(line)


def test_bandwidth_is_limited_as_the_adapter_says(backend: Backend) -> None:
    with backend.server.client(user="slow") as slow, backend.server.client(user="fast") as fast:
        assert slow.head[-1].startswith("CONS,10")
        assert fast.head[-1].startswith("CONS,unlimited")


def test_groups_and_schemas_are_resolved_by_the_adapter(backend: Backend, client: Client) -> None:
    client.subscribe(1, "both", "x y")
    assert client.read("SUBOK") == "SUBOK,1,2,2"


@pytest.mark.parametrize(
    ("group", "schema", "mode", "code"),
    [
        ("none", "x", "MERGE", 21),
        ("one", "none", "MERGE", 23),
        ("rawonly", "x", "MERGE", 24),
        ("one rawonly", "x", "DISTINCT", 24),
        ("forbidden", "x", "MERGE", -9),
    ],
)
def test_a_refused_subscription_is_told_the_code_for_it(
    backend: Backend, client: Client, group: str, schema: str, mode: str, code: int
) -> None:
    client.subscribe(1, group, schema, mode)
    assert client.read("REQERR", "SUBOK").startswith(f"REQERR,1,{code},")


def test_a_mode_that_is_allowed_is_granted(backend: Backend, client: Client) -> None:
    client.subscribe(1, "rawonly", "x", "RAW")
    assert client.read("SUBOK") == "SUBOK,1,1,1"


def test_the_frequency_is_limited_as_the_adapter_says(backend: Backend, client: Client) -> None:
    client.subscribe(1, "limited", "x")
    assert client.read("CONF") == "CONF,1,2.0,filtered"


def test_subscriptions_are_told_when_they_begin_and_end_and_sessions_after_them(backend: Backend) -> None:
    with backend.server.client(user="told") as client:
        session = client.socket.session
        client.subscribe(7, "both", "x")
        client.read("SUBOK")
        client.control(op="destroy")
        client.read("END")
    backend.reports.expect("session closed", session=session)
    told = [one["event"] for one in backend.reports.all if one.get("session") == session]
    assert told == ["session", "tables", "tables closed", "session closed"]
    backend.reports.expect("tables closed", session=session, number=7, group="both")


def test_of_users_who_are_not_followed_only_sessions_are_told(backend: Backend) -> None:
    with backend.server.client(user="quiet") as client:
        session = client.socket.session
        client.subscribe(1, "both", "x")
        client.read("SUBOK")
        client.control(op="destroy")
        client.read("END")
    backend.reports.expect("session closed", session=session)
    assert backend.reports.find("tables", session=session) == []


# -- push notifications ------------------------------------------------------------------------------------------------

TOKEN = "t | 1+2 é"


def device(application: str = "com.example", platform: str = "Apple") -> DeviceFacts:
    return DeviceFacts(platform, application, TOKEN)


@pytest.mark.parametrize("platform", ["Apple", "Google"])
def test_devices_reach_the_adapter_as_they_are(backend: Backend, platform: str) -> None:
    with backend.server.client(user="é|ü") as client:
        asked = device(platform=platform)
        assert (
            backend.server.ask_authority(
                client.socket.session, lambda authority, session: authority.register_device(session, asked)
            )
            is None
        )
        session = client.socket.session
    facts = {"platform": platform, "application": "com.example", "token": TOKEN}
    backend.reports.expect("device", user="é|ü", session=session, **facts)


@pytest.mark.parametrize(
    ("application", "code", "text"), [("poor", -11, "no devices"), ("crash", 66, ""), ("unheard", 66, "")]
)
def test_a_refused_device_is_told_the_code_for_it(
    backend: Backend, client: Client, application: str, code: int, text: str
) -> None:
    asked = device(application)
    answer = backend.server.ask_authority(
        client.socket.session, lambda authority, session: authority.register_device(session, asked)
    )
    assert answer is not None
    assert answer[0] == code
    assert text in answer[1]


@pytest.mark.parametrize(("new", "answer"), [("n | 2", None), ("stolen", (-12, "not yours"))])
def test_the_adapter_is_asked_about_the_new_token_of_a_device(
    backend: Backend, client: Client, new: str, answer: tuple[int, str] | None
) -> None:
    asked = device()
    assert (
        backend.server.ask_authority(
            client.socket.session, lambda authority, session: authority.change_device_token(session, asked, new)
        )
        == answer
    )
    known = {"application": "com.example", "token": TOKEN, "new": new}
    backend.reports.expect("new token", session=client.socket.session, **known)


@pytest.mark.parametrize("group", ["one two", "silent"])
@pytest.mark.parametrize("trigger", [None, 'Double.parseDouble($[1]) > 5 || $[2].equals("é|")'])
def test_the_adapter_is_asked_about_a_subscription_for_push_notifications(
    backend: Backend, client: Client, group: str, trigger: str | None
) -> None:
    items = tuple(group.split())
    push = PushFacts("FEED", Mode.DISTINCT, group, "x y", items, ("x", "y"), '{"aps": {"alert": "$[1]%"}}', trigger)
    answer = backend.server.ask_authority(
        client.socket.session, lambda authority, session: authority.activate_push(session, device(), push)
    )
    assert answer == ((-13, "not by push") if group == "silent" else None)
    backend.reports.expect(
        "push",
        session=client.socket.session,
        group=group,
        schema="x y",
        mode="DISTINCT",
        platform="Apple",
        application="com.example",
        token=TOKEN,
        trigger=trigger,
        format=push.format,
    )


# -- messages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["hello", "a|b", "é 😀", "x + y = 100 %", "line\r\nline", "#"])
def test_messages_reach_the_adapter_as_they_are(backend: Backend, client: Client, text: str) -> None:
    client.say(text)
    assert client.read("MSGDONE", "MSGFAIL").startswith("MSGDONE,talk,1")
    backend.reports.expect("message", session=client.socket.session, text=text)


@pytest.mark.parametrize(("text", "outcome"), [("rude", "-3,mind your words"), ("unheard", "34,"), ("crash", "35,")])
def test_a_message_that_fails_is_told_the_code_for_it(
    backend: Backend, client: Client, text: str, outcome: str
) -> None:
    client.say(text)
    assert client.read("MSGDONE", "MSGFAIL").startswith(f"MSGFAIL,talk,1,{outcome}")
