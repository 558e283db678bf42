"""Nodes behind HAProxy and nginx with the files of examples/balancers: who clients are, how they find their nodes, and
that nothing is held back. With published clients: tests/interop/test_balancers.py."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection

import pytest

from tests.support.balancers import BALANCERS, BEAT, SCHEMES, Cluster
from tests.support.proxy import version_2
from tests.support.raw import CID, TIMEOUT, Http, Stream, params

PER_ADDRESS = 2
FORGED = {"X-Forwarded-For": "198.51.100.9", "Forwarded": "for=198.51.100.9", "X-Real-IP": "198.51.100.9"}
HANDSHAKE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Protocol": "TLCP-2.4.0.lightstreamer.com",
}

# Seconds that an update may be under way: a balancer that buffers holds it until it has some kilobytes.
PROMPT = 2.0

# Seconds after which a balancer that checks its nodes has seen that one is draining.
NOTICED = 1.5

# Each test comes from addresses of its own, because sessions are counted by them.
addresses = (f"127.7.{number // 250}.{number % 250 + 2}" for number in itertools.count())


@pytest.fixture(scope="module", params=BALANCERS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    limits = f"\n[limits]\nsessions_per_address = {PER_ADDRESS}\n"
    with Cluster(tmp_path_factory.mktemp("cluster"), request.param, limits) as running:
        yield running


@pytest.fixture
def address() -> str:
    return next(addresses)


def at(cluster: Cluster, scheme: str, address: str) -> Http:
    return Http("127.0.0.1", cluster.port(SCHEMES[scheme]), source=address)


def created(http: Http, headers: Mapping[str, str] | None = None, **more: object) -> Stream:
    """A new session; with `polling` one that has been answered and is not bound."""
    http.post("create_session", f"{params(adapter_set='TEST', **more)}&LS_cid={CID}", headers=headers)
    assert http.read_head() == 200
    return Stream(http, http.read_until("CONS", "CONERR"))


def asked(http: Http, name: str, body: str, headers: Mapping[str, str] | None = None) -> str:
    """The first line of the answer to a request of its own."""
    with http:
        http.post(name, body, headers=headers)
        assert http.read_head() == 200
        return http.read_line()


def node_of(session: str) -> str:
    return session.partition("T")[2]


def cookie(http: Http) -> dict[str, str]:
    """What a client that keeps cookies sends from now on."""
    return {"Cookie": http.headers["set-cookie"].partition(";")[0]}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_clients_own_address_arrives_whatever_it_says(cluster: Cluster, scheme: str, address: str) -> None:
    with created(at(cluster, scheme, address), FORGED) as stream:
        assert f"CLIENTIP,{address}" in stream.head
        log = cluster.log(node_of(stream.session))
    [line] = [line for line in log.splitlines() if f"session={stream.session[:17]}" in line]
    assert f"address={address}" in line


def test_the_limit_of_sessions_is_for_each_client(cluster: Cluster, address: str) -> None:
    with (
        created(at(cluster, "address", address), FORGED),
        created(at(cluster, "address", address)),
        created(at(cluster, "address", address), {"X-Forwarded-For": "198.51.100.10"}) as third,
        created(at(cluster, "address", next(addresses))) as other,
    ):
        assert third.head[0].startswith("CONERR,8,")
        assert other.head[0].startswith("CONOK,")


def test_who_comes_to_a_node_without_its_balancer_is_refused(cluster: Cluster, address: str) -> None:
    with Http("127.0.0.1", cluster.port(8111), source=address) as http:
        http.send(version_2("198.51.100.9", 4711))
        http.get("/health")
        assert http.read_head() == 403
    with Http("127.0.0.1", cluster.port(8101), source=address) as http:
        http.get("/health", headers={"X-Forwarded-For": "198.51.100.9"})
        assert http.read_head() == 403


@pytest.mark.parametrize("scheme", SCHEMES)
def test_no_answer_is_held_back(cluster: Cluster, scheme: str, address: str) -> None:
    with created(at(cluster, scheme, address), content_length=1_000_000) as stream:
        # By the node itself, so that this is about the stream alone.
        linked = stream.head[0].split(",")[4].partition(":")[2]
        port = int(linked) if linked.isdigit() else cluster.port(SCHEMES[scheme])
        headers = cookie(stream.http) if scheme == "cookie" else {}
        subscription = params(
            session=stream.session,
            reqId=1,
            op="add",
            subId=1,
            mode="MERGE",
            group="one",
            schema="beat",
            snapshot="true",
        )
        with Http("127.0.0.1", port, source=address) as http:
            assert asked(http, "control", subscription, headers) == "REQOK,1"
        stream.read_until("CONF")
        for _ in range(4):
            [*_, line] = stream.read_until("U")
            late = time.time() - int(line.split(",")[3]) * BEAT
            assert late < PROMPT, f"{line} after {late} s"


def test_a_draining_node_keeps_its_sessions_and_gets_no_new_ones(cluster: Cluster, address: str) -> None:
    with created(at(cluster, "cookie", address), polling=True, polling_millis=20_000) as stream:
        headers, session = cookie(stream.http), stream.session
    node = node_of(session)
    with cluster.draining(node):
        probes = HTTPConnection("127.0.0.1", cluster.api_port(node), timeout=TIMEOUT)
        for path, status in (("/health", 200), ("/ready", 503)):
            probes.request("GET", path)
            response = probes.getresponse()
            response.read()
            assert response.status == status
        probes.close()
        control = params(session=session, reqId=1, op="constrain")
        deadline = time.monotonic() + NOTICED
        while time.monotonic() < deadline:
            assert asked(at(cluster, "cookie", address), "control", control, headers) == "REQOK,1"
            with created(at(cluster, "cookie", next(addresses)), headers, polling=True) as new:
                assert node_of(new.session) != node
                assert cookie(new.http) != headers
            with at(cluster, "cookie", address) as http:
                http.get("/lightstreamer", headers=HANDSHAKE | headers)
                assert http.read_head() == 101
                assert cookie(http) != headers
        line = asked(at(cluster, "cookie", address), "bind_session", params(session=session, polling=True), headers)
        assert line.startswith(f"CONOK,{session},")


def test_a_request_that_is_led_to_another_node_is_told_that_the_session_is_lost(cluster: Cluster, address: str) -> None:
    with created(at(cluster, "cookie", address), polling=True, polling_millis=20_000) as stream:
        session = stream.session
    wrong = {"a": "b", "b": "a"}[node_of(session)]
    headers = {"Cookie": f"penstock={wrong}"}
    line = asked(at(cluster, "cookie", address), "bind_session", params(session=session, polling=True), headers)
    assert line == "CONERR,20,LS_session: The session was lost with its node"
    line = asked(at(cluster, "cookie", address), "control", params(session=session, reqId=1, op="constrain"), headers)
    assert line == "REQERR,1,20,LS_session: The session was lost with its node"
    assert f"sessions of another node are asked for here node={node_of(session)}" in cluster.log(wrong)


def test_requests_to_the_control_link_find_their_sessions_in_a_drain_as_well(cluster: Cluster, address: str) -> None:
    with created(at(cluster, "link", address)) as stream:
        node = node_of(stream.session)
        host, _, port = stream.head[0].split(",")[4].partition(":")
        assert int(port) == cluster.port({"a": 8003, "b": 8004}[node])
        control = params(session=stream.session, reqId=1, op="constrain")
        with cluster.draining(node):
            deadline = time.monotonic() + NOTICED
            while time.monotonic() < deadline:
                assert asked(Http(host, int(port), source=address), "control", control) == "REQOK,1"
                with created(at(cluster, "link", next(addresses)), polling=True) as new:
                    assert node_of(new.session) != node
