"""Every action of the REST API over real sockets: the client sees it on its stream, lists show it, the log and the
journal have who did it. What is wrong is refused with a sentence and changes nothing.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from penstock.config.checks import DASHBOARD_SET
from penstock.journal.reader import JournalReader
from penstock.kernel.ports import DeviceFacts
from penstock.log import configure_levels
from penstock.log.lines import TextFormatter
from penstock.services.admin.audit import ENTITY, KIND
from penstock.services.tables import ItemsTable
from tests.conformance.phrases import add, batch, create
from tests.services.admin.site import AdminSite
from tests.support.administration import basic
from tests.support.raw import Stream

UNKNOWN = "S0123456789abcdef"


def actions(site: AdminSite) -> list[dict[str, Any]]:
    """What the journal has of administrators, after the server has stopped."""
    site.stop()
    rows = [row for part in JournalReader(site.data_dir / "journal").read() for row in part.to_pylist()]
    return [json.loads(row["value"]) for row in rows if row["entity"] == ENTITY and row["kind"] == KIND]


def shown(stream: Stream) -> str:
    """What lists call the session of a stream."""
    return stream.session[:17]


def subscribed(site: AdminSite, **changes: object) -> Stream:
    # No probe comes between what the test reads, however slow the machine is.
    stream = site.exchange.stream(user="ann", keepalive_millis=30_000)
    batch(site.exchange, stream.session, add(**changes))
    stream.read_until("CONF")
    return stream


# -- looking --------------------------------------------------------------------------------------------------------


def test_sessions_are_listed_without_anything_that_lets_others_use_them(site: AdminSite) -> None:
    with subscribed(site, group="a b") as stream, site.exchange.socket() as socket:
        socket.create(adapter_set="TEST")
        site.update("a", x="1")
        stream.read_until("U")
        answer = site.ask("GET", "/sessions")
        assert answer.status == 200
        assert answer.headers["cache-control"] == "no-store"
        assert answer.body["total"] == 2
        first, second = answer.body["sessions"]
        assert first["session"] == shown(stream)
        assert stream.session not in json.dumps(answer.body)
        assert first["user"] == "ann"
        assert first["adapter_set"] == "TEST"
        assert first["address"] == "127.0.0.1"
        assert (first["transport"], second["transport"]) == ("http-streaming", "websocket")
        assert (first["subscriptions"], first["items"], first["updates"]) == (1, 2, 1)
        assert first["max_kbps"] is None
        assert first["bytes"] > 0
        assert site.exchange.control(first["session"], reqId=1, op="destroy")[0].startswith("REQERR,1,20,")


def test_lists_are_given_in_parts_and_by_filters(site: AdminSite) -> None:
    streams = [site.exchange.stream(user=f"user{number % 2}") for number in range(5)]
    assert site.ask("GET", "/sessions?user=user1").body["total"] == 2
    part = site.ask("GET", "/sessions?offset=1&limit=2").body
    assert part["total"] == 5
    assert [each["session"] for each in part["sessions"]] == [shown(streams[1]), shown(streams[2])]
    assert site.ask("GET", "/sessions?adapter_set=DEMO").body == {"total": 0, "sessions": []}
    for stream in streams:
        stream.http.close()


def test_a_polling_session_is_one_between_its_polls_too(site: AdminSite) -> None:
    site.exchange.request("create_session", create(polling=True, polling_millis=5000))
    assert site.ask("GET", "/sessions").body["sessions"][0]["transport"] == "http-polling"


def test_a_session_is_shown_with_its_subscriptions(site: AdminSite) -> None:
    with subscribed(site, group="a limited", requested_max_frequency=3) as stream:
        found = site.ask("GET", f"/sessions/{shown(stream)}").body
        assert found["subscribed"] == [
            {
                "number": 1,
                "data_adapter": "DEFAULT",
                "mode": "MERGE",
                "items": 2,
                "names": ["a", "limited"],
                "fields": ["x"],
                "unfiltered": False,
                "max_per_second": 3.0,
                "is_ruled": False,
            }
        ]


def test_items_are_listed_with_their_subscribers(site: AdminSite) -> None:
    with subscribed(site), subscribed(site):
        site.update("a", x="1")
        found = site.ask("GET", "/items?adapter_set=TEST&data_adapter=DEFAULT").body
        expected = {"adapter_set": "TEST", "data_adapter": "DEFAULT", "item": "a", "mode": "MERGE"}
        assert found == {"total": 1, "items": [{**expected, "subscribers": 2, "events": 1}]}


def test_an_item_that_is_kept_for_the_journal_has_no_subscriber_for_that_in_any_list(site: AdminSite) -> None:
    feed = site.call(site.server.kernel.feed, "TEST", "DEFAULT")
    site.call(feed.pin, "a")
    table = ItemsTable(site.server.kernel)

    def subscribers() -> tuple[object, object]:
        (listed,) = site.ask("GET", "/items?adapter_set=TEST").body["items"]
        ((_, row),) = [each for each in site.call(lambda: list(table())) if each[0] == "TEST/DEFAULT/a"]
        return listed["subscribers"], row["subscribers"]

    assert subscribers() == (0, "0")
    with subscribed(site):
        assert subscribers() == (1, "1")
    site.call(feed.unpin)


# -- sessions and subscriptions -------------------------------------------------------------------------------------


def test_a_session_is_ended(site: AdminSite, caplog: pytest.LogCaptureFixture) -> None:
    with site.exchange.stream(user="ann") as stream, caplog.at_level(logging.INFO):
        assert site.ask("DELETE", f"/sessions/{shown(stream)}").status == 204
        assert stream.read_line() == "END,32,The session was closed by an administrator"
        assert site.ask("GET", "/sessions").body["total"] == 0
        assert site.ask("DELETE", f"/sessions/{shown(stream)}").status == 404
    (logged,) = [record.__dict__["fields"] for record in caplog.records if record.message == "administration"]
    expected = {
        "action": "end session",
        "by": "root",
        "address": "127.0.0.1",
        "session": shown(stream),
        "user": "ann",
        "code": 32,
        "message": "The session was closed by an administrator",
    }
    assert logged == expected
    assert actions(site) == [expected]


@pytest.mark.parametrize("code", [48, 0, -5])
def test_a_session_is_ended_with_a_cause_of_the_administrator(site: AdminSite, code: int) -> None:
    with site.exchange.stream() as stream:
        answer = site.ask("DELETE", f"/sessions/{shown(stream)}", {"code": code, "message": "See you, later"})
        assert answer.status == 204
        assert stream.read_line() == f"END,{code},See you%2C later"


def test_a_bandwidth_is_set_while_the_session_runs_and_reset(site: AdminSite) -> None:
    with site.exchange.stream() as stream:
        path = f"/sessions/{shown(stream)}/bandwidth"
        found = site.ask("PUT", path, {"max_kbps": 12.5}).body
        assert (found["max_kbps"], found["is_ruled"]) == (12.5, True)
        assert stream.read_line() == "CONS,12.5"
        # The client moves below it.
        site.exchange.control(stream.session, reqId=1, op="constrain", requested_max_bandwidth=50)
        assert stream.read_line() == "CONS,12.5"
        site.exchange.control(stream.session, reqId=2, op="constrain", requested_max_bandwidth=5)
        assert stream.read_line() == "CONS,5"
        found = site.ask("DELETE", path).body
        assert (found["max_kbps"], found["is_ruled"]) == (5.0, False)
        assert stream.read_line() == "CONS,5"
    assert [(each["action"], each.get("limit")) for each in actions(site)] == [
        ("set bandwidth", 12.5),
        ("reset bandwidth", None),
    ]


def test_a_frequency_is_set_while_the_subscription_runs_and_reset(site: AdminSite) -> None:
    with subscribed(site, group="limited") as stream:
        path = f"/sessions/{shown(stream)}/subscriptions/1/frequency"
        assert site.ask("PUT", path, {"max_per_second": 0.5}).body["max_per_second"] == 0.5
        assert stream.read_line() == "CONF,1,0.5,filtered"
        # Beyond what the metadata adapter allows.
        assert site.ask("PUT", path, {"max_per_second": None}).body["max_per_second"] is None
        assert stream.read_line() == "CONF,1,unlimited,filtered"
        assert site.ask("DELETE", path).body["is_ruled"] is False
        assert stream.read_line() == "CONF,1,2.0,filtered"
    assert [each["action"] for each in actions(site)] == ["set frequency", "set frequency", "reset frequency"]


def test_the_frequency_of_an_unfiltered_subscription_stays(site: AdminSite) -> None:
    with subscribed(site, mode="RAW") as stream:
        answer = site.ask("PUT", f"/sessions/{shown(stream)}/subscriptions/1/frequency", {"max_per_second": 1})
        assert answer.status == 409
        assert answer.error.endswith("Subscription 1 is unfiltered; its frequency cannot be limited")


def test_a_subscription_is_ended(site: AdminSite) -> None:
    with subscribed(site) as stream:
        path = f"/sessions/{shown(stream)}/subscriptions/1"
        assert site.ask("DELETE", path).status == 204
        assert stream.read_line() == "UNSUB,1"
        assert site.ask("DELETE", path).status == 404
        assert site.ask("GET", f"/sessions/{shown(stream)}").body["subscribed"] == []
    assert [each["action"] for each in actions(site)] == ["unsubscribe"]


# -- blocks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("block", "parameters"),
    [
        ({"scope": "all"}, {}),
        ({"scope": "adapter_set", "name": "TEST"}, {}),
        ({"scope": "user", "name": "ann"}, {"user": "ann"}),
    ],
)
def test_new_sessions_are_blocked_and_let_in_again(
    site: AdminSite, block: dict[str, str], parameters: dict[str, object]
) -> None:
    asked = create(polling=True, **parameters)
    entry = {"name": "", **block, "by": "root"}
    assert site.ask("PUT", "/blocks", block).body == [entry]
    assert site.ask("GET", "/blocks", authorization=basic("eve")).body == [entry]
    assert site.exchange.request("create_session", asked) == ["CONERR,10,New sessions temporarily blocked"]
    query = "&".join([f"{name}={value}" for name, value in block.items()])
    assert site.ask("DELETE", f"/blocks?{query}").body == []
    assert site.exchange.request("create_session", asked)[0].startswith("CONOK,")
    assert site.ask("DELETE", f"/blocks?{query}").status == 404
    assert [each["action"] for each in actions(site)] == ["block", "unblock"]


def test_a_dashboard_is_let_in_whoever_is_blocked_unless_its_own_set_is(site: AdminSite) -> None:
    asked = create(polling=True, adapter_set="DASHBOARD", user="root", password="root-secret")
    for block in ({"scope": "all"}, {"scope": "user", "name": "root"}):
        site.ask("PUT", "/blocks", block)
        assert site.exchange.request("create_session", asked)[0].startswith("CONOK,")
    site.ask("PUT", "/blocks", {"scope": "adapter_set", "name": "DASHBOARD"})
    assert site.exchange.request("create_session", asked) == ["CONERR,10,New sessions temporarily blocked"]


# -- adapters -------------------------------------------------------------------------------------------------------


def test_the_failure_of_an_adapter_is_shown_and_cleared(site: AdminSite) -> None:
    def states() -> dict[str, tuple[str, str | None]]:
        return {each["adapter"]: (each["state"], each["trouble"]) for each in site.ask("GET", "/adapters").body}

    assert states()["TEST"] == ("running", None)
    assert states()["TEST/PLAIN"] == ("running", None)
    assert (
        site.ask("POST", "/adapters/clear", {"adapter": "TEST/PLAIN"}).error == "adapter TEST/PLAIN: it has not failed"
    )
    site.call(site.plain.fail, "the feed is gone")
    assert states()["TEST/PLAIN"] == ("failed", "the feed is gone")
    assert site.server.readiness()[0] == 503
    assert site.ask("POST", "/adapters/clear", {"adapter": "TEST/PLAIN"}).status == 204
    assert states()["TEST/PLAIN"] == ("running", None)
    assert site.server.readiness()[0] == 200
    assert actions(site)[0]["failure"] == "the feed is gone"


# -- the log --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("root_logger")
def test_the_level_of_a_category_is_set_and_reset(site: AdminSite) -> None:
    configure_levels("info", {})
    configured = site.ask("GET", "/levels").body
    category = "penstock.doors.tlcp"
    found = site.ask("PUT", "/levels", {"category": category, "level": "debug"}).body
    assert found[category] == "debug"
    assert logging.getLogger(f"{category}.door").isEnabledFor(logging.DEBUG)
    assert found["penstock"] == configured["penstock"]
    found = site.ask("PUT", "/levels", {"category": category, "level": None}).body
    assert found[category] == configured["penstock"]
    expected = {"action": "set log level", "by": "root", "address": "127.0.0.1", "category": category}
    assert actions(site) == [{**expected, "log_level": "debug"}, {**expected, "log_level": None}]


# -- what is wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [UNKNOWN, "S", "nonsense", "%00", "%2F", "S" + "f" * 500])
def test_a_session_that_is_not_there_is_named_and_404(site: AdminSite, name: str) -> None:
    for method, path, body in (
        ("GET", "", None),
        ("DELETE", "", None),
        ("PUT", "/bandwidth", {"max_kbps": 1}),
        ("DELETE", "/subscriptions/1", None),
    ):
        answer = site.ask(method, f"/sessions/{name}{path}", body)
        assert answer.status == 404, (method, path)
        assert answer.error


WRONG = [
    ("PUT", "/sessions/{}/bandwidth", {"max_kbps": "fast"}, "max_kbps = 'fast': input should be a valid number"),
    ("PUT", "/sessions/{}/bandwidth", {"max_kbps": 0}, "max_kbps = 0: input should be greater than or equal to 0.001"),
    (
        "PUT",
        "/sessions/{}/bandwidth",
        {"max_kbps": -1},
        "max_kbps = -1: input should be greater than",
    ),
    ("PUT", "/sessions/{}/bandwidth", b'{"max_kbps": NaN}', "max_kbps = nan: input should be a finite number"),
    ("PUT", "/sessions/{}/bandwidth", b'{"max_kbps": Infinity}', "max_kbps = inf: input should be "),
    ("PUT", "/sessions/{}/bandwidth", {}, "max_kbps: field required"),
    ("PUT", "/sessions/{}/bandwidth", {"max_kbps": 1, "min": 2}, "min = 2: extra inputs are not permitted"),
    ("PUT", "/sessions/{}/bandwidth", b"{", "the body: expected JSON"),
    ("PUT", "/sessions/{}/bandwidth", b"\xff", ""),
    ("PUT", "/sessions/{}/bandwidth", None, "the body: field required"),
    ("PUT", "/sessions/{}/subscriptions/0/frequency", {"max_per_second": 1}, "number = '0': input should be"),
    ("PUT", "/sessions/{}/subscriptions/x/frequency", {"max_per_second": 1}, "number = 'x': input should be"),
    ("DELETE", "/sessions/{}", {"code": 31}, "code = 31: expected 32 or 48, or a code of your own that is 0 or below"),
    ("DELETE", "/sessions/{}", {"code": 0, "message": "two\nlines"}, "message = 'two\\nlines': string should match"),
    ("GET", "/sessions?limit=501", None, "limit = '501': input should be less than or equal to 500"),
    ("GET", "/sessions?offset=-1", None, "offset = '-1': input should be greater than or equal to 0"),
    ("PUT", "/blocks", {"scope": "everybody"}, "scope = 'everybody': input should be 'all', 'adapter_set' or 'user'"),
    ("PUT", "/blocks", {"scope": "all", "name": "x"}, "name = x: expected none, because the block is for all"),
    ("PUT", "/blocks", {"scope": "user"}, "name is empty: expected the name of the user"),
    ("DELETE", "/blocks?scope=adapter_set", None, "name is empty: expected the name of the adapter set"),
    ("PUT", "/levels", {"category": "penstock", "level": "loud"}, "'loud' is not a level; expected one of debug, info"),
    ("PUT", "/levels", {"category": "elsewhere", "level": "info"}, "'elsewhere' is not a category; expected penstock"),
    ("PUT", "/levels", {"category": "penstock./etc", "level": "info"}, "category = 'penstock./etc': string should"),
    ("PUT", "/levels", {"category": "penstock"}, "level: field required"),
    ("POST", "/drain", {"seconds": -1}, "seconds = -1: input should be greater than or equal to 0"),
    ("POST", "/drain", {"stop": "yes"}, "stop = 'yes': input should be a valid boolean"),
    ("POST", "/adapters/clear", {"adapter": ""}, "adapter = '': string should have at least 1 character"),
]


def test_a_value_that_is_not_allowed_is_named_and_changes_nothing(
    site: AdminSite, caplog: pytest.LogCaptureFixture
) -> None:
    with subscribed(site) as stream, caplog.at_level(logging.WARNING):
        for method, path, body, sentence in WRONG:
            caplog.clear()
            answer = site.ask(method, path.format(shown(stream)), body)
            assert answer.status in (400, 422), (method, path, answer)
            assert answer.error.startswith(sentence), (answer.error, sentence)
            assert [record.message for record in caplog.records] == ["administration refused"]
        found = site.ask("GET", f"/sessions/{shown(stream)}").body
        assert (found["is_ruled"], found["subscribed"][0]["is_ruled"]) == (False, False)
    assert not site.server.gate.blocks
    assert not site.server.gate.draining
    assert actions(site) == []


def test_an_unknown_path_and_a_wrong_method_are_told(site: AdminSite) -> None:
    assert (site.ask("GET", "/nothing").status, site.ask("GET", "/nothing").error) == (404, "Not Found")
    answer = site.ask("PATCH", "/blocks")
    assert (answer.status, answer.error, answer.headers["allow"]) == (405, "Method Not Allowed", "DELETE, GET, PUT")


def test_the_dashboard_has_no_push_notifications_because_logins_may_end(site: AdminSite) -> None:
    device = DeviceFacts("Apple", "com.example", "token")
    with site.exchange.stream(DASHBOARD_SET, user="root", password="root-secret") as stream:
        answer = site.ask_authority(
            stream.session, lambda authority, session: authority.register_device(session, device)
        )
    assert answer == (43, "PN_appId: The dashboard has no push notifications, which would outlive the login")


def test_what_needs_a_process_or_tlex_says_so_where_there_is_none(site: AdminSite) -> None:
    for method, path, body in (("POST", "/reload", None), ("POST", "/drain", {"stop": True})):
        answer = site.ask(method, path, body)
        assert answer.status == 409
        assert answer.error == "this server runs inside another program, which starts and stops it"
    assert site.ask("GET", "/tlex/sessions").error == "TLEX is not served: tlex.enabled is false"


@pytest.mark.config({"journal.enabled": False, "ditto.enabled": False})
def test_without_a_journal_the_log_has_it(site: AdminSite, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert site.ask("PUT", "/blocks", {"scope": "all"}).status == 200
    assert [record.message for record in caplog.records if "administration" in record.message] == ["administration"]


def test_a_name_with_line_breaks_and_quotes_stays_one_line_of_the_log(
    site: AdminSite, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        answer = site.ask("DELETE", "/sessions/S%0A%22evil%22%1b[2J")
    assert answer.status == 404
    (record,) = [record for record in caplog.records if record.message == "administration refused"]
    line = TextFormatter().format(record)
    assert "\n" not in line
    assert "\x1b" not in line
