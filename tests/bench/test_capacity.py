"""The calculator of docs/capacity.md: its arithmetic, that the page shows what it says, and its check in miniature."""

from __future__ import annotations

import re
from dataclasses import asdict, fields, replace
from pathlib import Path

import pytest
import uvloop

from bench.rig import capacity, costing, write
from bench.rig.capacity import Assumptions, Costs, load_costs, plan, save_costs
from bench.rig.child import ChildError
from bench.rig.costing import Size
from bench.rig.machine import Cores
from bench.rig.results import Report
from bench.scenarios import capacity as scenario
from bench.scenarios import smoke
from bench.scenarios.capacity import Compared, check, judge

HERE = Cores()
PAGE = Path(__file__).parents[2] / "docs" / "capacity.md"

# Round numbers, so that results can be counted by hand.
PLAIN = Costs(
    measured="nowhere",
    write=10.0,
    update=1.0,
    keepalive=10.0,
    edge_event=2.0,
    edge_message=0.0,
    open=1000.0,
    hub_open=100.0,
    hub_event=2.0,
    hub_message=0.0,
    nats_event=1.0,
    nats_message=0.0,
    idle_process=0.0,
    session_bytes=5000.0,
    hub_session_bytes=1000.0,
    item_bytes=0.0,
    process_bytes=0.0,
    event_bytes=50.0,
    message_bytes=0.0,
)
FOREVER = Assumptions(lifetime=float("inf"), socket=0.0)


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("bench.rig.results.RESULTS", tmp_path)
    monkeypatch.setattr("bench.scenarios.capacity.RESULTS", tmp_path)


# -- the page ---------------------------------------------------------------------------------------------------------


def test_the_page_shows_what_the_calculator_says() -> None:
    assert write.places(PAGE.read_text("utf-8"))["capacity"] == scenario.page()


def test_the_page_names_every_cost_in_a_formula() -> None:
    text = PAGE.read_text("utf-8")
    formulas = "\n".join(re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    missing = [field.name for field in fields(Costs) if field.name != "measured" and field.name not in formulas]
    assert missing == []


def test_without_options_the_calculator_writes_what_the_page_is_to_show(tmp_path: Path) -> None:
    assert uvloop.run(scenario.run(smoke.parse(scenario, ""), HERE))
    assert (tmp_path / "capacity.md").read_text() == scenario.page()


def test_options_change_what_is_counted_and_leave_the_page_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert uvloop.run(scenario.run(smoke.parse(scenario, "--sessions 5000 --updates 3"), HERE))
    assert re.search(r"updates per second to clients +15,000\n", capsys.readouterr().out)
    assert not (tmp_path / "capacity.md").exists()


# -- the arithmetic ---------------------------------------------------------------------------------------------------


def test_a_session_without_updates_is_sent_keep_alives_alone() -> None:
    rates = capacity.session_rates(replace(FOREVER, updates=0.0, keepalive=5.0))
    assert (rates.updates, rates.writes, rates.keepalives) == (0.0, 0.0, 0.2)


def test_a_session_with_many_updates_is_sent_none_and_written_to_once_a_tick() -> None:
    rates = capacity.session_rates(replace(FOREVER, updates=10_000.0, tick=0.1))
    assert rates.writes == pytest.approx(10.0, rel=0.01)
    assert rates.keepalives < 1e-9


def test_an_edge_has_the_items_that_its_sessions_want() -> None:
    given = replace(FOREVER, items=1000, items_each=10)
    assert capacity.items_at(1, given) == pytest.approx(10)
    assert capacity.items_at(1_000_000, given) == pytest.approx(1000)
    assert capacity.items_at(10, replace(given, items=1_000_000)) == pytest.approx(100, rel=0.01)


def test_edges_are_as_many_as_their_share_of_a_core_asks_for() -> None:
    # 11 µs for each update and session: 54,545 sessions in 0.6 of a core, less what 10 events a second take.
    given = replace(FOREVER, updates=1.0, items=100, items_each=10, keepalive=1e9)
    found = plan(100_000, given, PLAIN)
    assert found.edges == 2
    assert found.edge_cpu == pytest.approx(50_000 * 11e-6 + 10 * 2e-6)
    assert found.hub_cpu == pytest.approx(10 * 2e-6)
    assert plan(120_000, given, PLAIN).edges == 3


def test_memory_bandwidth_and_traffic_add_up() -> None:
    given = replace(FOREVER, updates=1.0, items=100, items_each=10, keepalive=1e9, update_bytes=28.0)
    found = plan(1_000_000, given, PLAIN)
    assert found.memory == pytest.approx(1_000_000 * 6000)
    assert found.bandwidth == pytest.approx(1_000_000 * (28 + capacity.FRAME_BYTES))
    # Each edge wants all items, so that the hub says everything once, and NATS copies it for every edge.
    assert found.nats_in == pytest.approx(10 * 50)
    assert found.nats_out == pytest.approx(found.edges * 10 * 50)


def test_items_of_few_are_sent_to_few_edges_and_by_the_hub_itself() -> None:
    given = replace(FOREVER, items=10_000_000, items_each=10, keepalive=1e9)
    flows = capacity.flow(100_000, 4, given)
    assert flows.copies == pytest.approx(4 * flows.edge_events / flows.events)
    assert 1.0 < flows.copies < 1.1


def test_more_than_one_hub_can_do_is_more_than_one_cluster() -> None:
    # 600,000 µs of a hub are 300,000 events a second.
    given = replace(FOREVER, updates=10.0, items=1_000_000, items_each=10, tick=1.0)
    found = plan(1_000_000, given, PLAIN)
    assert found.clusters > 1
    assert found.hub_cpu <= given.core_share


def test_opening_sessions_costs_edges_and_hub() -> None:
    given = replace(FOREVER, updates=0.0, keepalive=1e9)
    short, long = plan(100_000, replace(given, lifetime=100.0), PLAIN), plan(100_000, given, PLAIN)
    assert short.opens == 1000
    assert short.edges * short.edge_cpu - long.edges * long.edge_cpu == pytest.approx(1.0)
    assert short.hub_cpu - long.hub_cpu == pytest.approx(0.1)


def test_more_than_an_edge_can_do_for_a_single_session_is_refused() -> None:
    with pytest.raises(ValueError, match="a single session is too much for an edge"):
        plan(10, replace(FOREVER, updates=1_000_000.0), PLAIN)


def test_costs_are_kept_with_three_digits(tmp_path: Path) -> None:
    save_costs(replace(PLAIN, write=12.3456), tmp_path / "costs.json")
    assert load_costs(tmp_path / "costs.json") == replace(PLAIN, write=12.3)


def test_no_cost_that_is_kept_is_below_zero() -> None:
    costs = asdict(load_costs())
    assert [name for name, value in costs.items() if name != "measured" and value < 0] == []
    assert costs["write"] > 0


# -- the check --------------------------------------------------------------------------------------------------------


def test_what_two_runs_have_in_common_is_told_apart() -> None:
    # 3 for each event, 7 for each message.
    assert costing.apart((10, 10, 100), (1000, 10, 3070)) == pytest.approx((3.0, 7.0))


def test_noise_makes_no_cost_negative() -> None:
    assert costing.apart((10, 10, 20), (1000, 10, 3000)) == pytest.approx((3.0, 0.0), rel=0.1)


def test_runs_that_do_not_differ_are_refused() -> None:
    with pytest.raises(ChildError, match="two runs that do not differ"):
        costing.apart((10, 10, 20), (20, 20, 40))


def test_a_prediction_that_is_off_by_more_than_the_factor_is_a_failure() -> None:
    def is_good(*compared: Compared) -> bool:
        report = Report("x")
        judge(report, compared, 1.5)
        return report.good

    assert is_good(Compared("here", "cores", 1.4, 1.0), Compared("here", "MiB", 1.0, 1.4))
    assert not is_good(Compared("here", "cores", 1.4, 1.0), Compared("here", "MiB", 1.6, 1.0))
    assert not is_good(Compared("here", "cores", 1.0, 1.6))


# Seventeen processes are started, one after the other, each of which loads a whole server.
@pytest.mark.timeout(1800)
def test_the_check_measures_costs_and_predicts_another_size() -> None:
    """Times depend on what else the machine does, so that no factor is asked for; counts do not."""
    report = Report("x")
    costs = check(report, 40, [Size(20, 100.0)], [500.0], 0.5, 0.2, HERE, factor=1e9)
    assert report.good
    # What exactly each part costs cannot be told from so few of them.
    assert [name for name, value in asdict(costs).items() if name != "measured" and value < 0] == []
    assert costs.open > 0
    assert costs.session_bytes > 0
    # A handle, a number, a kind, and names and values of three fields.
    assert 30 < costs.event_bytes < 150


@pytest.mark.timeout(600)
def test_the_check_fails_when_the_model_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenario, "measure_costs", lambda *_: (PLAIN, 30.0))
    monkeypatch.setattr(scenario, "compare_nats", lambda *_: [])
    report = Report("x")
    # Sessions of 5,000 bytes in processes of none: less than Python itself takes.
    check(report, 40, [Size(20, 100.0)], [], 0.5, 0.2, HERE, factor=2.0)
    assert not report.good


@pytest.mark.parametrize(("quiet", "kept"), [(True, 1), (False, 0)])
def test_costs_are_kept_only_of_a_quiet_machine(monkeypatch: pytest.MonkeyPatch, quiet: bool, kept: int) -> None:
    saved: list[Costs] = []
    monkeypatch.setattr(scenario, "check", lambda *given: load_costs())
    monkeypatch.setattr(scenario, "save_costs", saved.append)
    monkeypatch.setattr(Report, "is_quiet", lambda report: quiet)
    assert uvloop.run(scenario.run(smoke.parse(scenario, "--check --keep"), HERE))
    assert len(saved) == kept
