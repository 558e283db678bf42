"""The benchmarks in miniature: they run, check what they are sent and notice what is wrong. Times do not matter."""

from __future__ import annotations

import subprocess
import sys

import pytest
import uvloop

from bench import fanout, idle, wire_size
from bench.machine import SPARE_FILES, Cores, MachineError, allow_files
from bench.swarm import Feed, Stage, Swarm
from tests.support.background import BackgroundServer

HERE = Cores()


def idle_members(server: BackgroundServer, count: int, adapter_set: str = "WELCOME") -> Swarm[idle.IdleMember]:
    feed = Feed(adapter_set, "STOCKS", idle.STOCKS.fields, snapshot=True)
    return Swarm(server.host, server.port, [idle.IdleMember(feed, idle.ITEMS) for _ in range(count)])


def test_without_a_name_the_benchmarks_are_listed() -> None:
    listed = subprocess.run([sys.executable, "-m", "bench"], capture_output=True, text=True, check=True)
    assert all(f"    {name}" in listed.stdout for name in ("idle", "fanout", "wire-size", "journal", "all"))


def test_idle_sessions_are_opened_measured_and_found_alive() -> None:
    plan = idle.Plan(sessions=40, seconds=0.2, warm_up=10, settling=0.0)
    for figures in uvloop.run(idle.compare(plan, HERE)):
        assert not figures.failures
        assert figures.opened_per_second > 0


def test_every_update_of_a_fan_out_arrives() -> None:
    for figures in uvloop.run(fanout.compare(subscribers=20, window=50, seconds=0.3, cores=HERE)):
        assert not figures.failures
        assert figures.delivered > 0
        assert figures.delivered % 2 == 0, "every item has two subscribers"


def test_every_line_whose_size_is_measured_decodes_to_what_it_was_made_of() -> None:
    snapshots, updates = wire_size.measure(500)
    assert (snapshots.updates, snapshots.wrong) == (30, 0)
    assert (updates.updates, updates.wrong) == (500, 0)
    assert updates.tlcp < updates.json_changed < updates.json_all


def test_a_refused_session_is_a_failure_with_its_reason(server: BackgroundServer) -> None:
    swarm = idle_members(server, 3, adapter_set="NONE")
    uvloop.run(open_and_leave(swarm, 3))
    ((reason, count),) = swarm.failures().items()
    assert reason.startswith("unexpected while opening: CONERR,2,")
    assert count == 3


async def open_and_leave(swarm: Swarm[idle.IdleMember], count: int) -> None:
    await swarm.open(0, count)
    await swarm.leave()


def test_sessions_that_end_while_idle_are_failures(server: BackgroundServer) -> None:
    swarm = idle_members(server, 3)

    async def run() -> None:
        await swarm.open(0, 3)
        assert [member.stage for member in swarm.members] == [Stage.STREAMING] * 3
        server.call(server.server.kernel.stop)
        await swarm.leave()

    uvloop.run(run())
    assert swarm.failures().total() == 3


def test_a_missing_snapshot_and_a_long_silence_are_failures() -> None:
    member = idle.IdleMember(idle.STOCKS, idle.ITEMS)
    member.check()
    assert member.failure == "0 updates instead of the snapshot alone"
    silent = idle.IdleMember(idle.STOCKS, idle.ITEMS)
    silent.streamed(b"U,1,1,Calder Shipping|3.63|08:00:00\r\n")
    silent.longest_silence = silent.keepalive + idle.LATENESS + 0.1
    silent.check()
    assert silent.failure.startswith("silent for more than")


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"U,1,1,1|0.001|constant\r\nU,1,1,3|0.003|\r\n", "an update is missing, comes twice or out of order"),
        (b"U,1,1,1|0.001|constant\r\nU,1,1,1|0.001|\r\n", "an update is missing, comes twice or out of order"),
        (b"U,1,2,1|0.001|constant\r\n", "not an update of the workload: U,1,2,1|0.001|constant"),
        (b"U,1,1,1|0.002|constant\r\n", "not an update of the workload: U,1,1,1|0.002|constant"),
        (b"U,1,1,1|0.001|other\r\n", "not an update of the workload: U,1,1,1|0.001|other"),
        (b"END,32,\r\n", "not an update of the workload: END,32,"),
        (b"U,1,1,1|0.0", "a message does not end at the end of a line"),
    ],
)
def test_a_wrong_update_of_a_fan_out_is_a_failure(payload: bytes, reason: str) -> None:
    async def run() -> str:
        member = fanout.Subscriber(fanout.Tally(subscribers=10, acknowledge=lambda publishes: None), range(10))
        member.streamed(payload)
        return member.failure

    assert uvloop.run(run()) == reason


def test_more_connections_than_the_machine_allows_are_refused_with_the_limit() -> None:
    with pytest.raises(MachineError, match=f"need {2**40 + SPARE_FILES} open files; the hard limit of this shell is"):
        allow_files(2**40)
