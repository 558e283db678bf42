"""Adapters that try to end the process, or that keep the event loop from turning, in a real server process.

`sys.exit()` anywhere in an adapter is a failure of this adapter: other sets go on. A blocked loop is logged with the
adapter's name and its stack. Ctrl-C by a person still stops the server.
"""

from __future__ import annotations

import http.client
import json
import re
import signal
from pathlib import Path

import pytest

from tests.e2e.test_adapter_sets import first_value, is_served, served, subscribe
from tests.support.raw import TIMEOUT, Exchange, Stream, params
from tests.support.set_process import Process, echo
from tests.support.waiting import wait_until

EXITS = '''
import asyncio
import sys
import threading
import time

from penstock.adapters import DataAdapter, MetadataAdapter


def leave(how):
    if how == "exit":
        sys.exit(3)
    if how == "interrupt":
        raise KeyboardInterrupt
    if how == "cancelled":
        raise asyncio.CancelledError


class Good(DataAdapter):
    def subscribe(self, item: str) -> None:
        self.update(item, {"text": f"good {item}"}, snapshot=True)


class Leaving(Good):
    """Leaves where it is told to."""

    def __init__(self, where: str, how: str = "exit") -> None:
        self.where, self.how = where, how
        self.leave_in("constructor")

    def leave_in(self, where: str) -> None:
        if where == self.where:
            leave(self.how)

    def attach(self, publisher) -> None:
        super().attach(publisher)
        self.leave_in("attach")

    async def start(self) -> None:
        self.leave_in("start")

    async def wait_until_ready(self) -> None:
        self.leave_in("wait_until_ready")

    def subscribe(self, item: str) -> None:
        super().subscribe(item)
        self.leave_in("subscribe on a thread")

    def unsubscribe(self, item: str) -> None:
        self.leave_in("unsubscribe on a thread")

    def has_snapshot(self, item: str) -> bool:
        self.leave_in("has_snapshot")
        return True

    def stop(self) -> None:
        self.leave_in("stop")


class LeavingQuickly(Leaving):
    quick = True

    def subscribe(self, item: str) -> None:
        self.update(item, {"text": f"good {item}"}, snapshot=True)
        self.leave_in("quick subscribe")


class LeavingAsync(Leaving):
    async def subscribe(self, item: str) -> None:
        loop = asyncio.get_running_loop()
        self.update(item, {"text": f"good {item}"}, snapshot=True)
        if self.where == "task":
            self.task = loop.create_task(self.later())
        elif self.where == "callback":
            loop.call_soon(self.leave_in, "callback")
        elif self.where == "function of the module":
            loop.call_soon(leave, self.how)
        elif self.where == "thread":
            threading.Thread(target=self.leave_in, args=("thread",), name="feeder").start()
        self.leave_in("async subscribe")

    async def later(self) -> None:
        await asyncio.sleep(0)
        self.leave_in("task")


class Door(MetadataAdapter):
    def __init__(self, where: str, how: str = "exit") -> None:
        self.where, self.how = where, how

    def leave_in(self, where: str) -> None:
        if where == self.where:
            leave(self.how)

    def authenticate(self, user, password, client) -> None:
        self.leave_in("authenticate")

    async def new_session(self, session) -> None:
        self.leave_in("new_session")

    def session_closed(self, session) -> None:
        self.leave_in("session_closed")

    def items(self, session, data_adapter, group):
        self.leave_in("items")
        return group.split()

    def selector(self, session, data_adapter, name):
        return self.choose

    def choose(self, event) -> bool:
        self.leave_in("selector")
        return True

    async def message(self, session, text: str) -> str:
        self.leave_in("message")
        return "taken"


class QuickDoor(Door):
    quick = True


class Blocking(Good):
    """Keeps the event loop from turning for as long as the item says, in milliseconds."""

    async def subscribe(self, item: str) -> None:
        time.sleep(int(item) / 1000)
        self.update(item, {"text": "late"}, snapshot=True)
'''

GOOD = echo("GOOD", "good")


class Faulty(Process):
    """A process with the set GOOD, and FAULTY with what the test says."""

    def __init__(self, directory: Path, content: str) -> None:
        (directory / "conf").mkdir()
        (directory / "conf" / "exits.py").write_text(EXITS)
        super().__init__(directory, "server.stall_millis = 200\n" + GOOD + content, "--data-dir", str(directory / "d"))

    def ready(self) -> Exchange:
        line = self._process.stdout.readline()
        found = re.search(r"stream=http://([\d.]+):(\d+).*api=http://[\d.]+:(\d+)", line)
        assert found is not None, self.errors()
        self.api_port = int(found[3])
        return Exchange(found[1], int(found[2]))

    def readiness(self, port: int) -> tuple[int, dict[str, object]]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
        try:
            connection.request("GET", "/ready")
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()


def data_adapter(kind: str, where: str, how: str = "exit", more: str = "", name: str = "FAULTY") -> str:
    parameters = f'parameters = {{ where = "{where}", how = "{how}" }}\n'
    return f'[adapters.{name}.data.DEFAULT]\nadapter = "exits:{kind}"\n{parameters}{more}'


def metadata_adapter(kind: str, where: str, name: str) -> str:
    parameters = f'parameters = {{ where = "{where}" }}\n'
    return f'[adapters.{name}.metadata]\nadapter = "exits:{kind}"\n{parameters}' + echo(name, "good")


def serves_others(exchange: Exchange) -> bool:
    return served(exchange, "GOOD") == "U,1,1,good item1"


# -- contained -----------------------------------------------------------------------------------------------------

CALLS = [
    ("LeavingQuickly", "quick subscribe"),
    ("LeavingAsync", "async subscribe"),
    ("Leaving", "subscribe on a thread"),
    ("Leaving", "unsubscribe on a thread"),
    ("LeavingQuickly", "has_snapshot"),
]
WAYS = ["exit", "interrupt", "cancelled"]


def test_a_data_adapter_that_leaves_in_a_call_has_failed_in_this_call_and_others_go_on(tmp_path: Path) -> None:
    sets = {f"S{how}{number}": (*call, how) for how in WAYS for number, call in enumerate(CALLS)}
    content = "".join(data_adapter(kind, where, how, name=name) for name, (kind, where, how) in sets.items())
    with Faulty(tmp_path, content) as process:
        exchange = process.ready()
        for name, (_, where, _) in sets.items():
            with exchange.stream(name) as stream:
                assert first_value(exchange, stream).endswith("good item1")
                exchange.control(stream.session, reqId=2, op="delete", subId=1)
                line = process.log_until("data adapter failed")
            call = re.findall(r"\w*subscribe|has_snapshot", where)[0]
            assert f"adapter_set={name} adapter=DEFAULT call={call}" in line
            assert serves_others(exchange)
        # Each call stands for itself, as with any other exception.
        assert process.readiness(exchange.port) == (200, {"status": "ready"})
        code, _ = process.stop()
    assert code == 0


def test_an_adapter_that_leaves_in_a_task_or_callback_of_its_own_has_failed_and_others_go_on(tmp_path: Path) -> None:
    places = ["task", "callback"]
    sets = {f"S{how}{number}": (where, how) for how in WAYS[:2] for number, where in enumerate(places)}
    content = "".join(data_adapter("LeavingAsync", where, how, name=name) for name, (where, how) in sets.items())
    with Faulty(tmp_path, content) as process:
        exchange = process.ready()
        for name in sets:
            with exchange.stream(name) as stream:
                assert first_value(exchange, stream) == "U,1,1,good item1"
                assert f"adapter={name}/DEFAULT" in process.log_until("adapter tried to end the server")
                # Its own client is still served with what there was.
                assert exchange.control(stream.session, reqId=2, op="delete", subId=1) == ["REQOK,2"]
            assert serves_others(exchange)
        for port in (exchange.port, process.api_port):
            failed = [f"data adapter {name}/DEFAULT" for name in sets]
            assert process.readiness(port) == (503, {"status": "failed", "failed": failed})
        code, _ = process.stop()
    assert code == 0


@pytest.mark.parametrize("how", WAYS[:2])
def test_a_function_of_an_adapters_module_counts_as_the_adapters_own(tmp_path: Path, how: str) -> None:
    with Faulty(tmp_path, data_adapter("LeavingAsync", "function of the module", how)) as process:
        exchange = process.ready()
        assert served(exchange, "FAULTY") == "U,1,1,good item1"
        assert "adapter=FAULTY/DEFAULT" in process.log_until("adapter tried to end the server")
        assert serves_others(exchange)


def test_a_thread_of_an_adapter_that_ends_by_sys_exit_is_told_of(tmp_path: Path) -> None:
    with Faulty(tmp_path, data_adapter("LeavingAsync", "thread")) as process:
        exchange = process.ready()
        assert served(exchange, "FAULTY") == "U,1,1,good item1"
        line = process.log_until("thread ended by an exception")
        assert "thread=feeder adapter=FAULTY/DEFAULT" in line
        assert "SystemExit: 3" in line
        assert serves_others(exchange)


@pytest.mark.parametrize(
    ("where", "how"),
    [
        ("constructor", "exit"),
        ("constructor", "interrupt"),
        ("attach", "exit"),
        ("start", "exit"),
        ("start", "interrupt"),
        ("wait_until_ready", "exit"),
    ],
)
def test_a_data_adapter_that_leaves_at_the_start_stops_it_with_one_clear_line(
    tmp_path: Path, where: str, how: str
) -> None:
    with Faulty(tmp_path, data_adapter("Leaving", where, how)) as process:
        (line,) = process.errors().splitlines()
        assert process._process.returncode == 1
    assert "cannot start reason=" in line
    assert ("SystemExit: 3" if how == "exit" else "KeyboardInterrupt") in line


@pytest.mark.parametrize("where", ["constructor", "attach", "start", "wait_until_ready"])
def test_an_optional_data_adapter_that_leaves_at_the_start_is_tried_again(tmp_path: Path, where: str) -> None:
    with Faulty(tmp_path, data_adapter("Leaving", where, more="optional = true\n")) as process:
        exchange = process.ready()
        assert "SystemExit" in process.log_until("optional data adapter has not started")
        assert process.readiness(exchange.port) == (
            200,
            {"status": "degraded", "degraded": ["data adapter FAULTY/DEFAULT"]},
        )
        assert serves_others(exchange)


def test_an_adapter_that_leaves_at_the_end_does_not_change_the_exit_code(tmp_path: Path) -> None:
    with Faulty(tmp_path, data_adapter("Leaving", "stop")) as process:
        process.ready()
        code, log = process.stop()
    assert code == 0
    assert "data adapter failed" in log
    assert log.rstrip().endswith("stopped")


def test_a_metadata_adapter_that_leaves_in_a_call_refuses_this_one_and_others_go_on(tmp_path: Path) -> None:
    places = ["authenticate", "new_session", "items", "message", "selector", "session_closed"]
    sets = {f"{kind}{number}": (kind, where) for kind in ("Door", "QuickDoor") for number, where in enumerate(places)}
    content = "".join(metadata_adapter(kind, where, name) for name, (kind, where) in sets.items())
    with Faulty(tmp_path, content) as process:
        exchange = process.ready()
        for name, (_, where) in sets.items():
            with exchange.stream(name) as stream:
                if where in ("authenticate", "new_session"):
                    assert stream.head[0].startswith("CONERR,"), (where, stream.head)
                else:
                    leave_in_session(exchange, stream, where)
            line = process.log_until(" failed ")
            assert ("selector failed" if where == "selector" else "metadata adapter failed") in line
            assert f"adapter_set={name}" in line
            assert serves_others(exchange)
        code, _ = process.stop()
    assert code == 0


def leave_in_session(exchange: Exchange, stream: Stream, where: str) -> None:
    wish = {"group": "item1", "schema": "text", "mode": "MERGE", "snapshot": True, "selector": "odd"}
    (answer,) = exchange.control(stream.session, reqId=1, op="add", subId=1, **wish)
    assert answer.startswith("REQERR,1," if where == "items" else "REQOK,1"), answer
    if where == "message":
        exchange.request("msg", params(session=stream.session, reqId=2, message="hello", msg_prog=1, sequence="s"))
        assert stream.read_until("MSGFAIL")[-1].startswith("MSGFAIL,s,1,35,")
    if where == "session_closed":
        exchange.control(stream.session, reqId=3, op="destroy")


def test_ctrl_c_by_a_person_stops_the_server_in_order(tmp_path: Path) -> None:
    with Faulty(tmp_path, data_adapter("LeavingAsync", "task", "interrupt")) as process:
        exchange = process.ready()
        assert served(exchange, "FAULTY") == "U,1,1,good item1"
        process.log_until("adapter tried to end the server")
        process._process.send_signal(signal.SIGINT)
        log = process.errors()
        assert process._process.wait() == 0
    assert log.rstrip().endswith("stopped")


def naps(pid: int) -> int:
    """How often the main thread of a process has waited for something."""
    found = re.search(r"^voluntary_ctxt_switches:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1])


def test_a_second_signal_ends_a_server_whose_loop_is_blocked(tmp_path: Path) -> None:
    with Faulty(tmp_path, '[adapters.FAULTY.data.DEFAULT]\nadapter = "exits:Blocking"\n') as process:
        exchange = process.ready()
        with exchange.stream("FAULTY") as stream:
            assert subscribe(exchange, stream, "600000") == ["REQOK,1"]
            process.log_until("event loop is stalled adapter=FAULTY/DEFAULT")
            # The second one only when the first has woken the thread that sleeps, or the system may give it to another
            # thread, which wakes nobody. No third one: it would not wait until the line of the second is written.
            asleep = naps(process._process.pid)
            process._process.send_signal(signal.SIGTERM)
            wait_until(lambda: naps(process._process.pid) > asleep, "the first signal")
            process._process.send_signal(signal.SIGTERM)
            assert "stopped immediately" in process.errors()
            assert process._process.wait() == 1


# -- stalled -------------------------------------------------------------------------------------------------------


def test_a_blocking_adapter_is_named_with_its_stack_once_and_the_end_of_the_stall_is_told(tmp_path: Path) -> None:
    blocking = '[adapters.FAULTY.data.DEFAULT]\nadapter = "exits:Blocking"\n'
    with Faulty(tmp_path, blocking) as process:
        exchange = process.ready()
        with exchange.stream("FAULTY") as stream:
            # So long that the watchdog notices it early enough, however busy the machine is.
            assert subscribe(exchange, stream, "4000") == ["REQOK,1"]
            # Of others, such as imports on a slow machine, there may be some before.
            line = process.log_until("event loop is stalled adapter=FAULTY/DEFAULT")
            assert "time.sleep(int(item) / 1000)" in line
            end = process.log_until("event loop")
            found = re.search(r"event loop runs again stalled_seconds=([\d.]+)", end)
            assert found is not None, end
            assert float(found[1]) > 1
            assert stream.read_until("U")[-1] == "U,1,1,late"
        assert is_served(exchange, "GOOD")
