"""Events from a hub to edges, and several processes against one, in miniature. Times do not matter."""

from __future__ import annotations

import os
import select
import signal
from pathlib import Path

import pytest
import uvloop

from bench.rig import fabric as rig
from bench.rig import meter
from bench.rig.child import WorkersProgram
from bench.rig.crossing import cross, woven
from bench.rig.machine import Cores, every_core
from bench.scenarios import fabric, smoke, workers, workers_idle

HERE = Cores()

# Several processes are started one after the other, each of which loads a whole server.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("bench.rig.results.RESULTS", tmp_path)


def test_every_event_crosses_nats_once_and_leaves_it_for_each_edge() -> None:
    with woven(True, 10, False) as woven_fabric:
        crossing = cross(woven_fabric, 2_000.0, 0.3)
    assert (crossing.lost, crossing.wrong) == (0, "")
    assert crossing.published >= 50
    assert 0.0 < crossing.p50 <= crossing.p99
    assert 20 * crossing.published < crossing.bytes_in < crossing.bytes_out


def test_an_event_that_is_missing_or_changed_is_noticed() -> None:
    right = rig.Numbers([])
    for number in ("1", "2"):
        right.follow({"number": number, "value": rig.VALUE, "stamp": "0"}, {}, False)
    assert right.wrong == ""
    missing = rig.Numbers([])
    missing.follow({"number": "2", "value": rig.VALUE, "stamp": "0"}, {}, False)
    assert missing.wrong == "2 after 0"
    changed = rig.Numbers([])
    changed.follow({"number": "1", "value": "other", "stamp": "0"}, {}, False)
    assert changed.wrong == "the value other of number 1"


def test_the_table_of_events_has_a_row_for_each_way(tmp_path: Path) -> None:
    options = smoke.parse(fabric, "--over local --rates 1000 --items 10 --seconds 0.2 --rounds 1")
    assert uvloop.run(fabric.run(options, HERE))
    rows = [line for line in (tmp_path / "fabric.md").read_text().splitlines() if line.startswith("| local, ")]
    assert len(rows) == 2


def test_two_workers_are_measured_beside_one_process(tmp_path: Path) -> None:
    options = smoke.parse(workers, "--subscribers 20 --window 50 --seconds 0.2 --rounds 1")
    assert uvloop.run(workers.run(options, HERE))
    assert "| penstock-2-workers |" in (tmp_path / "workers.md").read_text()


def test_workers_have_all_cores_however_the_benchmark_is_confined(tmp_path: Path) -> None:
    everything = every_core()
    os.sched_setaffinity(0, {max(everything)})
    try:
        with WorkersProgram(tmp_path, 1) as program:
            (edge,) = program.edges()
            assert "--edge" in meter.command(edge)
            assert os.sched_getaffinity(edge) == os.sched_getaffinity(program.process_id) == everything
            assert program.hub_seconds() < program.cpu_seconds()
        assert os.sched_getaffinity(0) == {max(everything)}
    finally:
        os.sched_setaffinity(0, everything)


def test_edges_end_with_their_hub_also_if_it_is_killed(tmp_path: Path) -> None:
    with WorkersProgram(tmp_path, 1) as program:
        (edge,) = program.edges()
        watched = os.pidfd_open(edge)
        try:
            os.kill(program.process_id, signal.SIGKILL)
            ended, _, _ = select.select([watched], [], [], 300)
        finally:
            os.close(watched)
    assert ended


def test_idle_sessions_of_workers_are_measured_by_process() -> None:
    found = workers_idle.measure(2, sessions=40, seconds=0.2, settling=0.0, cores=HERE)
    assert found.failure == ""
    assert found.memory.keys() == {"server", "hub", "w1", "w2"}
    assert found.base["hub"] > 10 * 2**20
    assert sum(found.opening.values()) > 0
