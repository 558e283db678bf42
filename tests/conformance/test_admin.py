"""Administration: what each action does to clients, and how each refusal is answered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from penstock.log import configure_levels
from penstock.wire.tlex.datagrams import Bye, Reconnect
from tests.conformance.phrases import add, batch, create, row
from tests.doors.tlex.site import Site
from tests.services.admin.site import AdminSite
from tests.support.administration import ask, basic, write_users
from tests.support.process import ServerProcess
from tests.support.raw import PROTOCOL, Exchange, Socket, Stream


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminSite]:
    with AdminSite(tmp_path_factory.mktemp("admin")) as running:
        yield running


@pytest.fixture
def stream(site: AdminSite) -> Iterator[Stream]:
    """Of user ann, with subscription 1 to item `limited`, which may have 2 updates a second."""
    with site.exchange.stream(user="ann") as found:
        batch(site.exchange, found.session, add(group="limited"))
        found.read_until("CONF")
        yield found
        site.ask("DELETE", f"/sessions/{found.session[:17]}")


@pytest.mark.parametrize(
    ("method", "place", "body", "line"),
    [
        row("admin.end", "DELETE", "", None, "END,32,The session was closed by an administrator"),
        row("admin.end.48", "DELETE", "", {"code": 48}, "END,48,The session was closed by an administrator"),
        row("admin.end.custom", "DELETE", "", {"code": -1, "message": "Bye"}, "END,-1,Bye"),
        row("admin.bandwidth", "PUT", "/bandwidth", {"max_kbps": 40}, "CONS,40"),
        row("admin.bandwidth.unlimited", "PUT", "/bandwidth", {"max_kbps": None}, "CONS,unlimited"),
        row("admin.unsubscribe", "DELETE", "/subscriptions/1", None, "UNSUB,1"),
        row(
            "admin.frequency",
            *("PUT", "/subscriptions/1/frequency", {"max_per_second": 0.5}, "CONF,1,0.5,filtered"),
        ),
        row(
            "admin.frequency.unlimited",
            *("PUT", "/subscriptions/1/frequency", {"max_per_second": None}, "CONF,1,unlimited,filtered"),
        ),
    ],
)
def test_a_client_is_told_what_an_administrator_does_to_its_session(
    site: AdminSite, stream: Stream, method: str, place: str, body: object, line: str
) -> None:
    assert site.ask(method, f"/sessions/{stream.session[:17]}{place}", body).status in (200, 204)
    assert stream.read_line() == line


@pytest.mark.conformance("admin.bandwidth.later")
def test_a_later_request_is_decided_by_the_bandwidth_that_was_set(site: AdminSite, stream: Stream) -> None:
    path = f"/sessions/{stream.session[:17]}/bandwidth"
    site.ask("PUT", path, {"max_kbps": 40})
    site.exchange.control(stream.session, reqId=2, op="constrain", requested_max_bandwidth=100)
    site.exchange.control(stream.session, reqId=3, op="constrain", requested_max_bandwidth=10)
    site.ask("DELETE", path)
    site.exchange.control(stream.session, reqId=4, op="constrain", requested_max_bandwidth=100)
    assert [stream.read_line() for _ in range(5)] == ["CONS,40", "CONS,40", "CONS,10", "CONS,10", "CONS,100"]


@pytest.mark.conformance("admin.frequency.later")
def test_a_later_request_is_decided_by_the_frequency_that_was_set(site: AdminSite, stream: Stream) -> None:
    path = f"/sessions/{stream.session[:17]}/subscriptions/1/frequency"
    site.ask("PUT", path, {"max_per_second": 5})
    for number, wanted in enumerate([10, 3], start=2):
        site.exchange.control(stream.session, reqId=number, op="reconf", subId=1, requested_max_frequency=wanted)
    site.ask("DELETE", path)
    expected = ["CONF,1,5.0,filtered", "CONF,1,5.0,filtered", "CONF,1,3.0,filtered", "CONF,1,2.0,filtered"]
    assert [stream.read_line() for _ in range(4)] == expected


@pytest.mark.parametrize(
    ("block", "query"),
    [
        row("admin.block.all", {"scope": "all"}, "scope=all"),
        row("admin.block.adapter-set", {"scope": "adapter_set", "name": "TEST"}, "scope=adapter_set&name=TEST"),
        row("admin.block.user", {"scope": "user", "name": "ann"}, "scope=user&name=ann"),
    ],
)
def test_new_sessions_are_blocked_with_code_10_until_they_are_unblocked(
    site: AdminSite, stream: Stream, block: dict[str, str], query: str
) -> None:
    asked = create(user="ann", polling=True)
    site.ask("PUT", "/blocks", block)
    assert site.exchange.request("create_session", asked) == ["CONERR,10,New sessions temporarily blocked"]
    assert site.exchange.control(stream.session, reqId=2, op="constrain") == ["REQOK,2"]
    site.ask("DELETE", f"/blocks?{query}")
    assert site.exchange.request("create_session", asked)[0].startswith("CONOK,")


@pytest.mark.conformance("admin.drain")
def test_a_draining_server_refuses_with_http_503_or_code_5_and_ends_sessions_with_cause_48(
    site: AdminSite, stream: Stream
) -> None:
    url = f"ws://{site.exchange.host}:{site.exchange.port}/lightstreamer"
    with Socket(url, f"{PROTOCOL}.lightstreamer.com") as early, site.exchange.http() as http:
        site.ask("POST", "/drain", {"seconds": 0.2})
        http.post("create_session", create())
        assert http.read_head() == 503
        # A balancer takes the status as a reason to try another server, clients as one to try again.
        text = "The server is shutting down; another one behind the same address may let you in"
        assert http.read_body() == f"{text}\n".encode()
        with pytest.raises(InvalidStatus, match="503"):
            Socket(url, f"{PROTOCOL}.lightstreamer.com")
        assert early.create() == [f"CONERR,5,{text}"]
    assert stream.read_line() == "END,48,The server is shutting down"
    site.ask("DELETE", "/drain")
    assert site.exchange.request("create_session", create(polling=True))[0].startswith("CONOK,")


@pytest.mark.conformance("admin.clear")
def test_the_failure_of_an_adapter_is_cleared(site: AdminSite) -> None:
    site.call(site.plain.fail, "gone")
    assert site.server.readiness()[0] == 503
    assert site.ask("POST", "/adapters/clear", {"adapter": "TEST/PLAIN"}).status == 204
    assert site.server.readiness()[0] == 200


@pytest.mark.conformance("admin.level")
@pytest.mark.usefixtures("root_logger")
def test_the_level_of_a_log_category_is_set_and_reset(site: AdminSite) -> None:
    configure_levels("info", {})
    category = "penstock.wire.ari"
    whole = site.ask("GET", "/levels").body["penstock"]
    assert site.ask("PUT", "/levels", {"category": category, "level": "debug"}).body[category] == "debug"
    assert site.ask("PUT", "/levels", {"category": category, "level": None}).body[category] == whole


@pytest.mark.conformance("admin.lists")
def test_lists_show_sessions_items_and_adapters_and_no_session_id(site: AdminSite, stream: Stream) -> None:
    answers = [site.ask("GET", path, authorization=basic("eve")) for path in ("/sessions", "/items", "/adapters")]
    assert [answer.status for answer in answers] == [200, 200, 200]
    assert stream.session[:17] in str(answers[0].body)
    assert stream.session not in str([answer.body for answer in answers])


@pytest.mark.parametrize(
    ("authorization", "method", "path", "body", "status"),
    [
        row("admin.401", None, "GET", "/sessions", None, 401),
        row("admin.401.wrong", basic("root", "wrong"), "GET", "/sessions", None, 401),
        row("admin.403", basic("eve"), "PUT", "/blocks", {"scope": "all"}, 403),
        row("admin.403.no-role", basic("bob"), "GET", "/sessions", None, 403),
        row("admin.404", basic("root"), "DELETE", "/sessions/S0123456789abcdef", None, 404),
        row("admin.409", basic("root"), "POST", "/adapters/clear", {"adapter": "TEST"}, 409),
        row("admin.422", basic("root"), "PUT", "/sessions/S0/bandwidth", {"max_kbps": "fast"}, 422),
    ],
)
def test_what_is_wrong_is_refused_with_its_status_and_a_sentence(
    site: AdminSite, authorization: str | None, method: str, path: str, body: object, status: int
) -> None:
    answer = site.ask(method, path, body, authorization)
    assert answer.status == status
    assert answer.error
    assert not site.server.gate.blocks


@pytest.mark.conformance("admin.reload")
def test_the_configuration_is_read_again(tmp_path: Path) -> None:
    write_users(tmp_path / "users")
    with ServerProcess(tmp_path, {"admin.users": str(tmp_path / "users")}) as process:
        (tmp_path / "penstock.toml").write_text(f'server.name = "Other"\n{(tmp_path / "penstock.toml").read_text()}')
        assert ask(process.api_port, "POST", "/reload").body["needs_restart"] == ["server.name"]


@pytest.mark.conformance("admin.drain.stop")
def test_a_process_stops_when_it_has_drained(tmp_path: Path) -> None:
    write_users(tmp_path / "users")
    with ServerProcess(tmp_path, {"admin.users": str(tmp_path / "users")}) as process:
        with Exchange(process.host, process.port).stream(adapter_set="WELCOME") as stream:
            ask(process.api_port, "POST", "/drain", {"seconds": 0, "stop": True})
            assert stream.read_line() == "END,48,The server is shutting down"
        assert process.wait() == 0


@pytest.mark.parametrize(
    ("method", "place", "kind"),
    [row("admin.tlex.end", "DELETE", "", Bye), row("admin.tlex.reconnect", "POST", "/reconnect", Reconnect)],
)
def test_a_tlex_peer_is_told_what_an_administrator_does(
    tmp_path: Path, method: str, place: str, kind: type[object]
) -> None:
    write_users(tmp_path / "users")
    with Site(tmp_path, {"admin.users": str(tmp_path / "users")}) as hub:
        (identifier,) = hub.tlcs(1)
        peer = hub.controller(identifier)
        port = hub.background.api_port
        (found,) = ask(port, "GET", "/tlex/sessions").body["sessions"]
        assert ask(port, method, f"/tlex/sessions/{found['id']}{place}").status in (200, 204)
        peer.expect(kind)
