"""Figures of a hub and its edges: one exposition, and statistics of the whole server."""

from __future__ import annotations

import re
from urllib.request import urlopen

from prometheus_client.parser import text_string_to_metric_families

from penstock.cluster.edge_calls import EdgeCalls
from penstock.services.cluster.roll import FIGURES
from tests.services.cluster.site import ClusterSite
from tests.support.raw import Stream, params


def metrics(site: ClusterSite) -> str:
    with urlopen(f"http://127.0.0.1:{site.api_port}/metrics", timeout=20) as answer:
        return str(answer.read().decode())


def value(text: str, name: str, worker: str) -> float:
    (found,) = re.findall(rf'(?m)^{name}{{(?:[^}}]*,)?worker="{worker}"}} (\S+)$', text)
    return float(found)


def subscribe(site: ClusterSite, edge: str, stream: Stream, group: str = "x") -> None:
    asked = params(session=stream.session, reqId=1, op="add", subId=1, group=group, schema="a", mode="MERGE")
    assert site.at(edge).request("control", f"{asked}&LS_data_adapter=PLAIN") == ["REQOK,1"]
    stream.read_until("SUBOK")


def publish(site: ClusterSite, value: str) -> None:
    """By the adapter that serves under one name."""
    site.call(site.plain.publish, "x", {"a": value})


def test_every_sample_has_the_name_of_its_worker_and_the_exposition_is_right(site: ClusterSite) -> None:
    with site.at("w1").stream() as one, site.at("w1").stream() as two, site.at("w2").stream() as three:
        for edge, stream in (("w1", one), ("w1", two), ("w2", three)):
            subscribe(site, edge, stream)
        site.sample()
        text = metrics(site)
    assert [value(text, "penstock_sessions", worker) for worker in ("hub", "w1", "w2")] == [0, 2, 1]
    assert value(text, "penstock_hub_edges", "hub") == 2
    assert value(text, "penstock_edge_hub_up", "w2") == 1
    assert value(text, "penstock_loop_lag_seconds_count", "w1") >= 0
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert {"hub", "w1", "w2"} == {sample.labels["worker"] for sample in samples}
    assert len({(sample.name, *sorted(sample.labels.items())) for sample in samples}) == len(samples)


def test_statistics_are_those_of_the_whole_server(site: ClusterSite) -> None:
    with site.at("w1").stream() as one, site.at("w2").stream() as two:
        subscribe(site, "w1", one)
        subscribe(site, "w2", two)
        site.sample()
        for number in range(10):
            publish(site, str(number))
        for stream in (one, two):
            while stream.read_until("U")[-1] != "U,1,1,9":
                pass
        site.sample()
        found = site.server.sampler.latest
    assert (found.clients_sessions, found.clients_streaming_sessions, found.clients_max_sessions) == (2, 2, 2)
    assert (found.items_total, found.clients_item_subscr) == (1, 2)
    # Each event came once from the adapter and went to each of two clients.
    assert (found.updates_total_in, found.updates_total_out) == (10, 20)
    assert found.updates_events_sec > found.items_events_sec > 0
    assert found.nio_total_selectors == 3


def test_an_edge_that_is_replaced_takes_nothing_away_that_was_counted(site: ClusterSite) -> None:
    with site.at("w1").stream() as one:
        subscribe(site, "w1", one)
        publish(site, "1")
        assert one.read_until("U")[-1] == "U,1,1,1"
        site.sample()
        before = site.server.sampler.latest
        site.run(site.stop_edge("w1"))
    site.sample()
    gone = site.server.sampler.latest
    site.run(site.start_edge("w1"))
    site.sample()
    after = site.server.sampler.latest
    assert before.updates_total_out == gone.updates_total_out == after.updates_total_out == 1
    assert (gone.clients_sessions, gone.nio_total_selectors, after.nio_total_selectors) == (0, 2, 3)
    assert gone.updates_events_sec == after.updates_events_sec == 0.0


def test_an_edge_that_does_not_answer_is_left_out_and_keeps_nobody_waiting_for_long(site: ClusterSite) -> None:
    site.sample()
    calls: EdgeCalls = site.edges["w2"].link.calls
    answer = calls.methods.pop(FIGURES)
    entry = site.hub.roll.entries["penstock-w2"]
    entry.answered = -1_000.0
    site.sample()
    text = metrics(site)
    assert value(text, "penstock_process_threads", "w1") >= 1
    assert 'worker="w2"' not in text
    calls.methods[FIGURES] = answer
    site.sample()
    assert 'worker="w2"' in metrics(site)
