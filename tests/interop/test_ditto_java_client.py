"""The published Java client of Eclipse Ditto on a server process: things, policies, search, the live channel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.ditto_java import JavaProcess, Rejected
from tests.support.process import ServerProcess

pytestmark = pytest.mark.interop
long = pytest.mark.interop_long

ALL = {"grant": ["READ", "WRITE"], "revoke": []}
ENTRIES = {
    "owner": {
        "subjects": {"nginx:ditto": {"type": "user"}},
        "resources": {"thing:/": ALL, "policy:/": ALL, "message:/": ALL},
    }
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("ditto"), {"demo.enabled": True, "demo.pace": 0.1}) as running:
        yield running


@pytest.fixture
def java(server: ServerProcess, tmp_path: Path) -> Iterator[JavaProcess]:
    running = JavaProcess(tmp_path / "stderr", server)
    yield running
    running.close()


def thing(name: str, **attributes: Any) -> dict[str, Any]:
    return {"thingId": f"org.java:{name}", "attributes": {"watts": 7, **attributes}, "features": {"light": {}}}


def test_a_thing_is_made_changed_watched_and_deleted(java: JavaProcess) -> None:
    client, watcher = java.open("client"), java.open("watcher")
    id = "org.java:lamp"
    watcher.do("watch", namespace="org.java")
    made = client.do("create", thing=thing("lamp"))
    assert (made["thingId"], made["attributes"]) == (id, {"watts": 7})
    client.do("put attribute", thing=id, path="/watts", value=9)
    client.do("put property", thing=id, feature="light", path="/on", value=True)
    client.do("merge", thing=id, patch={"attributes": {"watts": None, "volts": 230}})
    found = client.do("retrieve", thing=id)
    assert found["attributes"] == {"volts": 230}
    assert found["features"]["light"]["properties"] == {"on": True}
    past = client.do("retrieve", thing=id, headers={"at-historical-revision": "2"})
    assert past["attributes"] == {"watts": 9}
    client.do("delete", thing=id)
    with pytest.raises(Rejected) as caught:
        client.do("retrieve", thing=id)
    assert caught.value.args[0]["status"] == 404
    # The client calls back from several threads.
    seen = sorted((watcher.event() for _ in range(5)), key=lambda event: event["revision"])
    assert [(event["action"], event["path"], event["revision"]) for event in seen] == [
        ("CREATED", "/", 1),
        ("UPDATED", "/attributes/watts", 2),
        ("CREATED", "/features/light/properties/on", 3),
        ("MERGED", "/", 4),
        ("DELETED", "/", 5),
    ]
    # The client shows a change of a part as a thing with that part.
    assert seen[1]["value"] == {"attributes": {"watts": 9}}


@long
def test_a_thing_is_made_with_a_policy_and_once_only(java: JavaProcess) -> None:
    client = java.open("client")
    policy = {"policyId": "org.java:inline", "entries": ENTRIES}
    made = client.do("create with policy", thing=thing("inline"), policy=policy)
    assert made["policyId"] == "org.java:inline"
    assert list(client.do("retrieve policy", policy="org.java:inline")["entries"]) == ["owner"]
    with pytest.raises(Rejected) as caught:
        client.do("create", thing=thing("inline"))
    assert caught.value.args[0]["status"] == 409
    assert client.do("put", thing={**thing("inline"), "policyId": "org.java:inline"}) is None
    client.do("update", thing={**thing("inline", volts=1), "policyId": "org.java:inline"})
    found = client.do("retrieve several", things=["org.java:inline", "org.java:none"])
    assert [each["attributes"] for each in found] == [{"watts": 7, "volts": 1}]


@long
def test_changes_are_watched_with_a_filter_and_extra_fields(java: JavaProcess) -> None:
    client, watcher = java.open("client"), java.open("watcher")
    client.do("create", thing=thing("filtered", room="hall"))
    watcher.do("watch", filter="gt(attributes/watts,10)", extra="attributes/room")
    for watts in (8, 12):
        client.do("put attribute", thing="org.java:filtered", path="/watts", value=watts)
    seen = watcher.event()
    assert (seen["value"], seen["extra"]) == ({"attributes": {"watts": 12}}, {"attributes": {"room": "hall"}})
    watcher.do("stop watching")


@long
def test_a_client_acknowledges_the_changes_that_it_watches(java: JavaProcess) -> None:
    client, watcher = java.open("client"), java.open("watcher", acknowledges=["java:seen"])
    client.do("create", thing=thing("acknowledged"))
    watcher.do("watch", namespace="org.java")
    wanted = {"requested-acks": '["twin-persisted","java:seen"]'}
    client.do("put attribute", thing="org.java:acknowledged", path="/watts", value=1, headers=wanted)
    assert watcher.event()["value"] == {"attributes": {"watts": 1}}


@long
def test_things_are_searched_in_pages(java: JavaProcess) -> None:
    client = java.open("client")
    for number in range(5):
        client.do("create", thing={"thingId": f"org.java.search:{number}", "attributes": {"n": number}})
    wanted = {"filter": "ge(attributes/n,1)", "options": "sort(-attributes/n),size(2)", "namespace": "org.java.search"}
    found = client.do("search", **wanted)
    assert [each["thingId"] for each in found] == [f"org.java.search:{number}" for number in (4, 3, 2, 1)]
    with pytest.raises(Rejected):
        client.do("search", filter="nonsense", options="size(2)")


@long
def test_messages_and_claims_are_answered(java: JavaProcess) -> None:
    sender, device = java.open("sender"), java.open("device")
    id = "org.java:talks"
    sender.do("create", thing=thing("talks"))
    device.do("listen")
    came = sender.do("send", thing=id, subject="ask", payload="hello", waits=True)
    assert came == {"status": 200, "payload": "fine"}
    heard = device.event()
    assert (heard["kind"], heard["subject"], heard["payload"]) == ("message", "ask", "hello")
    sender.do("send", thing=id, feature="light", subject="tell", payload="bye", **{"from": True})
    heard = device.event()
    assert (heard["feature"], heard["direction"], heard["payload"]) == ("light", "FROM", "bye")
    came = sender.do("send", thing=id, subject="claim", payload="please", waits=True)
    assert came == {"status": 200, "payload": "claimed"}
    assert device.event()["kind"] == "claim"


@long
def test_commands_and_events_of_the_live_channel_reach_a_device(java: JavaProcess) -> None:
    asker, device = java.open("asker"), java.open("device")
    id = "org.java:live"
    asker.do("create", thing=thing("live"))
    device.do("listen")
    asker.do("live put attribute", thing=id, path="/watts", value=11)
    assert device.event() == {"kind": "command", "path": "/attributes/watts", "value": 11}
    assert asker.do("live retrieve", thing=id)["attributes"] == {"device": True}
    # The twin is as it was.
    assert asker.do("retrieve", thing=id)["attributes"] == {"watts": 7}
    asker.do("emit", thing=id, path="/watts", value=12)
    seen = device.event()
    assert (seen["kind"], seen["path"], seen["value"]) == ("change", "/attributes/watts", {"attributes": {"watts": 12}})


@long
def test_policies_are_made_changed_and_deleted(java: JavaProcess) -> None:
    client = java.open("client")
    policy = {"policyId": "org.java:rules", "entries": ENTRIES}
    assert client.do("create policy", policy=policy)["policyId"] == "org.java:rules"
    more = {**ENTRIES, "guest": {"subjects": {"nginx:guest": {"type": "user"}}, "resources": {"thing:/": ALL}}}
    assert client.do("put policy", policy={**policy, "entries": more}) is None
    assert sorted(client.do("retrieve policy", policy="org.java:rules")["entries"]) == ["guest", "owner"]
    client.do("update policy", policy=policy)
    client.do("delete policy", policy="org.java:rules")
    with pytest.raises(Rejected) as caught:
        client.do("retrieve policy", policy="org.java:rules")
    assert caught.value.args[0]["status"] == 404


@long
def test_a_wrong_password_is_refused(java: JavaProcess) -> None:
    with pytest.raises(Rejected) as caught:
        java.open("client", password="wrong")
    assert "Authentication" in str(caught.value.args[0])
