"""What a remote adapter can do from version 1.9.0 of the protocol on: of the published SDKs here, the one for Java."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from penstock.adapters import DeviceFacts, PushFacts
from penstock.kernel.item import Mode
from tests.contract.backends import REMOTE, RemoteProcess

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def backend() -> Iterator[RemoteProcess]:
    with REMOTE["java-sdk-1.7.0"]() as running:
        assert isinstance(running, RemoteProcess)
        yield running


def test_both_adapters_speak_the_newest_version(backend: RemoteProcess) -> None:
    assert [str(adapter.link.version) for adapter in (backend.data, backend.metadata)] == ["1.9.1", "1.9.1"]


def test_the_adapter_ends_a_session(backend: RemoteProcess) -> None:
    with backend.server.client() as client:
        session = client.socket.session
        backend.do("end session", session=session)
        assert client.read("END") == "END,-5,enough"
    backend.reports.expect("ended", session=session, error=None)
    backend.do("end session", session="nobody's")
    backend.reports.expect("ended", session="nobody's", error="refused")


def test_the_adapter_ends_a_subscription_and_is_told_what_became_of_it(backend: RemoteProcess) -> None:
    backend.do("state", item="counted", events=[{"x": "1"}])
    with backend.server.client(user="told") as client:
        session = client.socket.session
        client.subscribe(1, "counted", "x")
        assert client.values() == ["1"]
        backend.do("end subscription", session=session)
        assert client.read("UNSUB") == "UNSUB,1"
    backend.reports.expect("unsubscribed", session=session, done="true")
    backend.reports.expect("tables closed", session=session, sent=1)


def test_data_adapter_and_items_of_push_notifications_are_told(backend: RemoteProcess) -> None:
    push = PushFacts("FEED", Mode.MERGE, "both", "x", ("one", "two"), ("x",), "{}", None)
    device = DeviceFacts("Google", "com.example", "t")
    with backend.server.client() as client:
        session = client.socket.session
        assert (
            backend.server.ask_authority(
                client.socket.session, lambda authority, asked: authority.activate_push(asked, device, push)
            )
            is None
        )
    backend.reports.expect("push", session=session, adapter="FEED", items="one two")


def test_a_session_lives_as_long_as_the_adapter_says(backend: RemoteProcess) -> None:
    with backend.server.client(user="brief") as client:
        assert client.read("END").startswith("END,48,")


def test_values_are_sent_as_the_differences_that_the_adapter_declares(backend: RemoteProcess) -> None:
    document = {"text": "x" * 100, "count": 1}
    backend.do("state", item="patched", events=[{"x": json.dumps(document)}])
    with backend.server.client() as client:
        client.subscribe(1, "patched", "x")
        client.read("U")
        backend.do("update", item="patched", event={"x": json.dumps({**document, "count": 2})}, snapshot=False)
        (value,) = client.values()
        assert value.startswith("^P")
