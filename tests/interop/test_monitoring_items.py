"""The items of monitoring, in published clients of Python, Node.js and the web: ordinary items in three modes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from penstock.log import get
from penstock.monitor.statistics import FIELDS
from tests.interop.published import PublishedClient
from tests.support.background import MonitoredServer

OpenClient = Callable[[str], PublishedClient]

log = get("penstock.tests.monitor")

SESSION = ["key", "command", "user", "address", "adapter_set", "transport", "subscriptions"]
LINE = ["TIME", "TIME_MS", "CLIENT.IP", "CLIENT.NAME", "MESSAGE", "THREAD", "COUNTER"]

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def monitored() -> Iterator[MonitoredServer]:
    with MonitoredServer({}) as running:
        yield running


# One of each kind, the one for browsers too: what operators look at is in a browser.
@pytest.mark.parametrize("name", ["python-2.2.3", "node-9.2.2", "web-8.0.9"])
def test_a_client_subscribes_to_the_items_of_monitoring(
    name: str, monitored: MonitoredServer, open_client: OpenClient
) -> None:
    client = open_client(name)
    client.connect(monitored.url, "TEST", "WS-STREAMING", user=name)
    client.subscribe("statistics", "MERGE", ["monitor_statistics"], list(FIELDS), "MONITOR")
    told = client.expect("update", subscription="statistics")["values"]
    assert told.keys() == FIELDS.keys()
    assert None not in told.values()
    client.subscribe("identification", "MERGE", ["monitor_identification"], ["EDITION", "VERSION"], "MONITOR")
    assert client.expect("update", subscription="identification", snapshot=True)["values"]["VERSION"]
    client.subscribe("details", "MERGE", ["monitor_details"], ["MAX_SSNS", "TLS"], "MONITOR")
    client.expect("update", subscription="details", snapshot=True)
    client.subscribe("socket", "MERGE", ["monitor_socket_stream"], ["LOCAL_PORT", "IS_SSL"], "MONITOR")
    client.expect("update", subscription="socket", values={"LOCAL_PORT": str(monitored.port), "IS_SSL": "false"})
    client.subscribe("libraries", "COMMAND", ["monitor_client_libs"], ["key", "command", "lib_ext"], "MONITOR")
    client.expect("end of snapshot", subscription="libraries")
    assert len(client.seen("update", subscription="libraries")) == 17
    client.subscribe("sessions", "COMMAND", ["monitor_sessions"], SESSION, "MONITOR")
    client.expect_where("update", lambda event: event["values"].get("user") == name, "of its own session")
    client.expect("end of snapshot", subscription="sessions")
    client.subscribe("items", "COMMAND", ["monitor_items"], ["key", "command", "subscribers"], "MONITOR")
    client.expect_where(
        "update", lambda event: event["values"].get("key") == "TEST/MONITOR/monitor_items", "of the item"
    )
    client.subscribe("adapters", "COMMAND", ["monitor_adapters"], ["key", "command", "state"], "MONITOR")
    wanted = {"key": "TEST/MONITOR", "command": "ADD", "state": "running"}
    client.expect("update", subscription="adapters", values=wanted)
    client.subscribe("history", "DISTINCT", ["monitor_history"], ["TIME_MS", "LOOP.LAG_P99"], "MONITOR", snapshot="720")
    client.expect("end of snapshot", subscription="history")
    client.subscribe("log", "DISTINCT", ["monitor_log_error"], LINE, "MONITOR", snapshot=None)
    client.expect("subscribed", subscription="log")
    log.error("it fails for a test", address="192.0.2.7")
    line = client.expect("update", subscription="log")["values"]
    assert "it fails for a test" in line["MESSAGE"]
    assert line["CLIENT.IP"] == "192.0.2.7"
    # The statistics go on meanwhile.
    monitored.sample()
    client.wait_for("update", subscription="statistics", snapshot=False)
    assert not client.seen("subscription error")
    client.disconnect()
