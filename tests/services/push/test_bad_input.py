"""Requests that are wrong, of an application that accepts every trigger: each has its answer, and harms nobody else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.services.push.stage import APPLICATION, CONFIGURATION, TRIGGERS, PushServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PushServer]:
    with PushServer(tmp_path, text=CONFIGURATION.replace(TRIGGERS, ".*")) as server:
        yield server


@pytest.mark.parametrize(
    ("changed", "code", "said"),
    [
        ({"PN_type": "Windows"}, "42", "Windows"),
        ({"PN_type": ""}, "65", "PN_type is empty"),
        ({"PN_appId": "com.example.unknown"}, "43", "com.example.unknown"),
        ({"PN_appId": ""}, "65", "PN_appId is empty"),
        ({"PN_deviceToken": ""}, "65", "PN_deviceToken"),
        ({"PN_newDeviceToken": ""}, "65", "PN_newDeviceToken"),
    ],
)
def test_a_device_that_cannot_be_is_refused(server: PushServer, changed: dict[str, str], code: str, said: str) -> None:
    with server.client() as client:
        parameters = {"PN_type": "Apple", "PN_appId": APPLICATION, "PN_deviceToken": "1"} | changed
        answer = client.ask("register", **parameters)
        assert answer.startswith(f"REQERR,1,{code},"), answer
        assert said in answer
    assert server.call(lambda: server.engine.memory.registry.device_count) == 0


@pytest.mark.parametrize(
    ("trigger", "code", "said"),
    [
        ("System.exit(0)", "44", "System.exit is not known"),
        ('Runtime.getRuntime().exec("rm")', "44", "Runtime.getRuntime is not known"),
        ("Double.parseDouble(${x})", "44", "a trigger must be a boolean; this is a double"),
        ("$[1] > 1", "44", "character 6"),
        ("$[3].isEmpty()", "47", "the index 3 is out of range"),
        ("true" * 10_000, "49", "40000 characters; 4096 are allowed"),
        ("(" * 2_000 + "true" + ")" * 2_000, "44", "PN_trigger"),
    ],
)
def test_a_trigger_that_is_wrong_is_refused_also_where_every_text_is_accepted(
    server: PushServer, trigger: str, code: str, said: str
) -> None:
    with server.client() as client:
        client.register()
        answer = client.ask("activate", **client.parameters(PN_trigger=trigger))
        assert answer.startswith(f"REQERR,2,{code},"), answer
        assert said in answer, answer
    assert server.call(lambda: server.engine.memory.registry.subscription_count) == 0


def test_a_trigger_of_100_kilobytes_is_longer_than_a_request_may_be(server: PushServer) -> None:
    with server.client() as client, server.tlcp.http() as http:
        client.register()
        trigger = "true" * 25_600
        named = "".join(f"&{name}={quote(value)}" for name, value in client.parameters(PN_trigger=trigger).items())
        http.post("control", f"LS_session={client.session}&LS_reqId=2&LS_op=activate{named}")
        assert (http.read_head(), http.read_body()) == (413, b"Request longer than 50000 bytes\n")
        client.activate()


def test_a_trigger_that_divides_by_zero_is_false_and_others_fire(server: PushServer) -> None:
    with server.client() as client:
        client.register()
        divides = client.activate(PN_trigger="10 / Integer.parseInt(${x}) > 1")
        client.register("another")
        plain = client.activate(PN_trigger="Integer.parseInt(${x}) >= 0")
    server.update("item1", x="0")
    (first,) = server.provider.wait(1)
    assert first.subscription == plain
    server.update("item1", x="2")
    assert server.provider.wait(2)[1].subscription == divides


@pytest.mark.parametrize("operation", ["activate", "pn_reconf", "deactivate"])
def test_a_subscription_of_another_device_is_not_found_and_stays(server: PushServer, operation: str) -> None:
    with server.client() as client:
        client.register("another")
        other = client.activate()
        client.register()
        parameters = client.parameters(PN_subscriptionId=other)
        if operation != "activate":
            del parameters["LS_subId"]
        if operation == "deactivate":
            parameters = {name: parameters[name] for name in ("PN_deviceId", "PN_subscriptionId")}
        answer = client.ask(operation, **parameters)
        assert answer.startswith("REQERR,4,46,PN_subscriptionId: "), answer
    server.update("item1", x="1", y="2")
    (sent,) = server.provider.wait(1)
    assert (sent.subscription, sent.payload) == (other, '{"aps":{"alert":"1 and 2"}}')
