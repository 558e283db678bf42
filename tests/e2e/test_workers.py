"""One server of several processes on one machine: what one process does, they do together, and none is missed for long.

Rules of the fabric between them: tests/cluster. With published clients: tests/interop/test_workers.py.
"""

from __future__ import annotations

import os
import re
import signal
import socket as sockets
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from websockets.exceptions import ConnectionClosed

from penstock.cluster.owner import MAX_SILENCE
from penstock.services.cluster.hub import BEAT
from tests.conformance.phrases import create
from tests.services.push.stage import APPLICATION, PushClient
from tests.support.administration import ask, basic, write_users
from tests.support.apple import apple_token
from tests.support.command import PORTS, Command, run
from tests.support.process import READY
from tests.support.push_process import follow
from tests.support.raw import Exchange, Socket, params
from tests.support.worker_processes import WorkersProcess, is_gone, message, subscribe, until, workers_of

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkersProcess]:
    """For tests that do no harm to it."""
    settings = {"push.enabled": True, f'push.apple."{APPLICATION}".service_level': "test"}
    with WorkersProcess(tmp_path_factory.mktemp("workers"), settings) as server:
        yield server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WorkersProcess]:
    with WorkersProcess(tmp_path) as server:
        yield server


def both(server: WorkersProcess, adapter_set: str = "TEST") -> tuple[Socket, Socket]:
    return server.socket_at("w1", adapter_set), server.socket_at("w2", adapter_set)


def close(*clients: Socket) -> None:
    for client in clients:
        client.__exit__(None, None, None)


# -- what works as in one process --------------------------------------------------------------------------------------


def test_what_is_published_once_reaches_the_clients_of_all_workers(shared: WorkersProcess) -> None:
    one, two = both(shared)
    shared.publish("price", last="1")
    for client in (one, two):
        subscribe(client, "price", "last", data_adapter="HAND")
        assert client.read_until("U")[-1] == "U,1,1,1"
    for number in range(2, 50):
        shared.publish("price", last=str(number))
    for client in (one, two):
        assert [client.read_until("U")[-1] for _ in range(48)] == [f"U,1,1,{number}" for number in range(2, 50)]
    close(one, two)


def test_the_demo_is_there_in_all_its_modes(shared: WorkersProcess) -> None:
    for worker in ("w1", "w2"):
        client = shared.socket_at(worker, "WELCOME")
        subscribe(client, "item2 item11", "stock_name last_price", data_adapter="STOCKS")
        names = {client.read_until("U")[-1].split(",")[3].split("|")[0] for _ in range(2)}
        assert names == {"Ations Europe", "Fenwick Cement"}
        subscribe(client, "portfolio1", "key command qty", "COMMAND", 2, data_adapter="PORTFOLIO")
        client.read_until("EOS")
        close(client)


def test_a_message_through_one_worker_is_seen_by_the_clients_of_another(shared: WorkersProcess) -> None:
    one, two = both(shared, "WELCOME")
    subscribe(two, "chat_room", "message nick", "DISTINCT", data_adapter="CHAT")
    for number in range(1, 21):
        message(one, f"CHAT|hello {number}", number)
    done = [one.read_until("MSGDONE")[-1] for _ in range(20)]
    assert done == [f"MSGDONE,CHAT,{number}" for number in range(1, 21)]
    seen: list[str] = []
    while len(seen) < 20:
        line = two.read_until("U")[-1]
        seen += re.findall(r"hello \d+", line)
    assert seen == [f"hello {number}" for number in range(1, 21)]
    message(one, "NONSENSE", 21)
    assert one.read_until("MSGFAIL")[-1].startswith("MSGFAIL,CHAT,21,")
    close(one, two)


def test_requests_of_a_session_may_come_to_any_worker(shared: WorkersProcess) -> None:
    exchange = shared.exchange
    shared.publish("price", last="1")
    with exchange.stream("TEST", send_sync=False, keepalive_millis=30_000) as stream:
        # Each is a connection of its own, and the system chooses who gets it.
        for number in range(1, 21):
            asked = {"op": "add", "group": "price", "schema": "last", "mode": "MERGE", "snapshot": True}
            answer = exchange.control(stream.session, reqId=number, subId=number, data_adapter="HAND", **asked)
            assert answer == [f"REQOK,{number}"]
            assert stream.read_until("U")[-1] == f"U,{number},1,1"
        assert exchange.control(stream.session, reqId=21, op="destroy") == ["REQOK,21"]
        assert stream.read_until("END")[-1].startswith("END,31,")


def test_a_session_is_recovered_by_way_of_any_worker(shared: WorkersProcess) -> None:
    shared.publish("price", last="1")
    for _ in range(6):
        exchange = shared.exchange
        with exchange.stream("TEST", send_sync=False, keepalive_millis=30_000) as stream:
            asked = {"op": "add", "group": "price", "schema": "last", "mode": "MERGE", "snapshot": True}
            exchange.control(stream.session, reqId=1, subId=1, data_adapter="HAND", **asked)
            # SUBOK, CONF and U.
            assert stream.read_until("U")[-1].startswith("U,1,1,")
        shared.publish("price", last="2")
        with exchange.http() as again:
            again.post("bind_session", params(session=stream.session, recovery_from=3, send_sync=False))
            assert again.read_head() == 200
            lines = again.read_until("U", "CONERR")
            assert lines[0].startswith(f"CONOK,{stream.session},")
            assert lines[-1] == "U,1,1,2"
        shared.publish("price", last="1")


def test_push_notifications_are_asked_for_through_any_worker_and_sent_once(shared: WorkersProcess) -> None:
    with PushClient(shared.exchange) as client:
        client.register(apple_token(7))
        subscription = follow(client)
        client.subscribe(f"SUB-{subscription}", "status")
        assert client.told("U")[2] == "ACTIVE"
        shared.publish("item1", x="13", y="")
        sent = f"Payload for subscription {subscription} with notification ID 1: "
        until(lambda: sent in shared.log, "the notification is sent")
        (line,) = [line for line in shared.log.splitlines() if sent in line]
        assert " worker=hub" in line


def test_refusals_of_the_hub_reach_the_client_in_the_same_words(shared: WorkersProcess) -> None:
    client = shared.socket_at("w1", "WELCOME")
    refused = subscribe(client, "no_such_item", "last_price", data_adapter="STOCKS")[-1]
    assert refused == "REQERR,1,21,STOCKS has no item no_such_item" or refused.startswith("REQERR,1,")
    assert "no_such_item" in refused
    assert subscribe(client, "item1", "last_price", number=2, data_adapter="NOBODY")[-1].startswith("REQERR,2,17,")
    close(client)
    with shared.exchange.socket() as stranger:
        assert stranger.create("NO_SUCH_SET")[-1].startswith("CONERR,2,")


def test_the_log_is_one_and_says_who_has_written(shared: WorkersProcess) -> None:
    client = shared.socket_at("w2")
    opened = re.compile(rf" session opened worker=w2 session={client.session[:17]} adapter_set=TEST ")
    until(lambda: opened.search(shared.log) is not None, "the line of the session")
    close(client)
    assert re.search(r" INFO  penstock\.server started worker=hub ", shared.log)
    assert all(re.match(r"\d{4}-\d\d-\d\dT\S+Z (INFO|WARN|ERROR) ", line) for line in shared.log.splitlines())


def test_workers_are_where_one_process_would_be(shared: WorkersProcess) -> None:
    assert set(shared.workers()) == {"hub", "w1", "w2"}
    assert READY.match(shared.ready)
    for port in (shared.port, shared.api_port):
        with Exchange("127.0.0.1", port).http() as http:
            http.get("/ready")
            assert http.read_head() == 200
            assert b'"ready"' in http.read_body()


# -- workers that die, or do not move ----------------------------------------------------------------------------------


def test_an_edge_that_is_killed_is_replaced_and_the_clients_of_others_see_nothing(server: WorkersProcess) -> None:
    one, two = both(server)
    server.publish("price", last="1")
    for client in (one, two):
        subscribe(client, "price", "last", data_adapter="HAND")
        client.read_until("U")
    server.replace_worker("w1")
    with pytest.raises(ConnectionClosed):
        one.read_until("nothing more")
    server.publish("price", last="2")
    # Nothing but that.
    assert two.read_line() == "U,1,1,2"
    again = server.socket_at("w1")
    subscribe(again, "price", "last", data_adapter="HAND")
    assert again.read_until("U")[-1] == "U,1,1,2"
    assert 'worker ended and is replaced worker=w1 ended="killed by SIGKILL"' in server.log
    close(two, again)
    assert server.stop() == 0


def test_a_hub_that_is_killed_is_replaced_and_clients_get_the_difference(server: WorkersProcess) -> None:
    one, two = both(server)
    server.publish("price", last="1", volume="7")
    for client in (one, two):
        subscribe(client, "price", "last volume", data_adapter="HAND")
        assert client.read_until("U")[-1] == "U,1,1,1|7"
    server.replace_worker("hub")
    server.publish("price", last="2", volume="7")
    for client in (one, two):
        # The session and the subscription are the same: only what has changed is sent.
        assert client.read_until("U", "END", "LOOP", "UNSUB")[-1] == "U,1,1,2|"
    # And they can still ask for more, of a hub that has never seen them.
    subscribe(one, "other", "last", number=2, data_adapter="HAND")
    server.publish("other", last="9")
    assert one.read_until("U")[-1] == "U,2,1,9"
    close(one, two)
    assert server.stop() == 0


LATE = """
import os
from pathlib import Path
from penstock.adapters import DataAdapter


class Late(DataAdapter):
    def __init__(self, away: Path) -> None:
        self.away = away

    def start(self) -> None:
        if self.away.exists():
            raise OSError("no feed today")

    def subscribe(self, item: str) -> None:
        self.update(item, {"hub": str(os.getpid())}, snapshot=True)
"""


def test_an_optional_adapter_that_is_late_at_the_next_hub_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text(LATE)
    away = tmp_path / "away"
    late = "adapters.TEST.data.LATE"
    settings = {f"{late}.adapter": "late:Late", f"{late}.optional": True, f"{late}.parameters.away": str(away)}
    with WorkersProcess(tmp_path, settings) as server:
        client = server.socket_at("w1")
        subscribe(client, "gold", "hub", data_adapter="LATE")
        assert client.read_until("U")[-1] == f"U,1,1,{server.workers()['hub']}"
        server.publish("price", last="1")
        subscribe(client, "price", "last", number=2, data_adapter="HAND")
        assert client.read_until("U")[-1] == "U,2,1,1"
        away.touch()
        server.replace_worker("hub")
        server.publish("price", last="2")
        # The worker has asked for the other item before this one.
        assert client.read_until("U", "UNSUB")[-1] == "U,2,1,2"
        assert "no feed today" in server.log
        away.unlink()
        assert client.read_until("U", "UNSUB")[-1] == f"U,1,1,{server.workers()['hub']}"
        close(client)
        assert server.stop() == 0


@pytest.mark.parametrize("worker", ["w1", "hub"])
def test_a_worker_that_was_frozen_goes_on_where_the_others_are(server: WorkersProcess, worker: str) -> None:
    one, two = both(server)
    server.publish("price", last="1")
    for client in (one, two):
        subscribe(client, "price", "last", data_adapter="HAND")
        client.read_until("U")
    server.signal_worker(worker, signal.SIGSTOP)
    try:
        if worker == "w1":
            server.publish("price", last="2")
            assert two.read_until("U")[-1] == "U,1,1,2"
        # As long as it takes for it to count as gone: this is about real processes and their clocks.
        time.sleep((MAX_SILENCE + 2) * BEAT)
    finally:
        server.signal_worker(worker, signal.SIGCONT)
    server.publish("price", last="3")
    for client in (one, two):
        last = ""
        while last != "3":
            line = client.read_until("U", "END", "LOOP", "UNSUB")[-1]
            if client is one and worker == "w1" and line.startswith("END,48,"):
                # The hub has told the adapter that the session is over: the client is to open another one.
                break
            assert line.startswith("U,1,1,"), line
            last = line.rpartition(",")[2]
    again = server.socket_at("w1")
    subscribe(again, "price", "last", data_adapter="HAND")
    assert again.read_until("U")[-1] == "U,1,1,3"
    close(one, two, again)
    assert server.stop() == 0


# -- another configuration ---------------------------------------------------------------------------------------------


def test_a_reload_brings_and_takes_adapter_sets_at_all_workers(server: WorkersProcess) -> None:
    stays = both(server)
    server.publish("price", last="1")
    for client in stays:
        subscribe(client, "price", "last", data_adapter="HAND")
        client.read_until("U")
    configuration = server.directory / "penstock.toml"
    first = configuration.read_text()
    more = "".join(
        [
            'adapters.MORE.data.HAND.adapter = "ingest"\n',
            'adapters.MORE.data.HAND.parameters.items = ["*"]\n',
            'adapters.MORE.data.HAND.parameters.tokens = ["fedcba9876543210"]\n',
        ]
    )
    configuration.write_text(first + more)
    server.send_signal(signal.SIGHUP)
    until(lambda: server.log.count("adapter set served worker=w") >= 2 and served(server, "MORE"), "MORE is served")
    comers = both(server, "MORE")
    configuration.write_text(first)
    server.send_signal(signal.SIGHUP)
    for client in comers:
        assert client.read_until("END")[-1] == "END,32,The adapter set MORE has been removed"
    configuration.write_text("nonsense")
    server.send_signal(signal.SIGHUP)
    until(lambda: "new configuration rejected" in server.log, "it is rejected")
    configuration.write_text(first)
    server.publish("price", last="2")
    for client in stays:
        assert client.read_line() == "U,1,1,2"
    close(*stays)
    assert server.stop() == 0


def served(server: WorkersProcess, name: str) -> bool:
    lines = [line for line in server.log.splitlines() if "adapter set served" in line and f"adapter_set={name}" in line]
    return {word for line in lines for word in line.split() if word.startswith("worker=")} == {"worker=w1", "worker=w2"}


# -- the end -----------------------------------------------------------------------------------------------------------


def test_a_stop_ends_clients_and_all_processes(tmp_path: Path) -> None:
    with WorkersProcess(tmp_path) as server:
        clients = both(server)
        pids = list(server.workers().values())
        server.send_signal(signal.SIGTERM)
        for client in clients:
            assert client.read_until("END")[-1] == "END,48,The server is shutting down"
        assert server.wait() == 0
        assert all(is_gone(pid) for pid in pids)
        assert " ERROR " not in server.log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(tmp_path: Path, number: signal.Signals) -> None:
    with WorkersProcess(tmp_path) as server:
        pids = list(server.workers().values())
        server.signal_worker("w1", signal.SIGSTOP)
        server.send_signal(number)
        until(lambda: "stopping worker=w2" in server.log, "it stops")
        server.send_signal(number)
        assert server.wait() == 1
        until(lambda: all(is_gone(pid) for pid in pids), "no worker is left")


def test_workers_end_with_their_supervisor(tmp_path: Path) -> None:
    with WorkersProcess(tmp_path) as server:
        pids = list(server.workers().values())
        server.kill()
        until(lambda: all(is_gone(pid) for pid in pids), "no worker is left")
    # The data directory and the ports are free again.
    with WorkersProcess(tmp_path) as server:
        assert server.stop() == 0


# -- looking into all of them, and steering them -----------------------------------------------------------------------


@pytest.fixture
def steered(tmp_path: Path) -> Iterator[WorkersProcess]:
    """It has administrators."""
    write_users(tmp_path / "users")
    with WorkersProcess(tmp_path, {"admin.users": str(tmp_path / "users")}) as server:
        yield server


def metric(server: WorkersProcess, name: str) -> dict[str, float]:
    """By worker."""
    with urlopen(f"http://127.0.0.1:{server.api_port}/metrics", timeout=20) as answer:
        text = answer.read().decode()
    return {worker: float(value) for worker, value in re.findall(rf'(?m)^{name}{{worker="(\w+)"}} (\S+)$', text)}


def test_figures_and_status_are_of_all_processes_also_after_one_was_replaced(steered: WorkersProcess) -> None:
    one, two = both(steered)
    for client in (one, two):
        subscribe(client, "price", "last", data_adapter="HAND")
    until(lambda: metric(steered, "penstock_sessions") == {"hub": 0, "w1": 1, "w2": 1}, "figures of all")
    found = ask(steered.api_port, "GET", "/cluster").body
    nodes = [(each["name"], each["role"], each["items"] > 0) for each in found["nodes"]]
    assert nodes == [("hub", "hub", True), ("w1", "edge", True), ("w2", "edge", True)]
    assert all(0 < each["lag_millis"] < 5_000 for each in found["nodes"][1:])
    steered.replace_worker("w1")
    until(lambda: metric(steered, "penstock_sessions") == {"hub": 0, "w1": 0, "w2": 1}, "figures of the new one")
    steered.replace_worker("hub")
    until(lambda: metric(steered, "penstock_sessions") == {"hub": 0, "w1": 0, "w2": 1}, "figures of the new hub")
    after = ask(steered.api_port, "GET", "/cluster").body
    assert int(after["epoch"]) > int(found["epoch"])
    close(one, two)


def test_sessions_are_listed_limited_and_ended_at_all_workers(steered: WorkersProcess) -> None:
    clients = both(steered)
    listed = ask(steered.api_port, "GET", "/sessions").body
    # There may be others, whose clients have gone a moment ago.
    assert {each["session"] for each in listed["sessions"]} >= {client.session[:17] for client in clients}
    for client in clients:
        path = f"/sessions/{client.session[:17]}"
        assert ask(steered.api_port, "PUT", f"{path}/bandwidth", {"max_kbps": 50}).body["max_kbps"] == 50
        assert client.read_until("CONS")[-1] == "CONS,50"
        assert ask(steered.api_port, "DELETE", path, {"code": -9, "message": "Bye"}).status == 204
        assert client.read_until("END")[-1] == "END,-9,Bye"
        assert ask(steered.api_port, "GET", path).status == 404
    close(*clients)


def test_a_block_holds_at_a_worker_that_comes_later(steered: WorkersProcess) -> None:
    assert ask(steered.api_port, "PUT", "/blocks", {"scope": "adapter_set", "name": "TEST"}).status == 200
    steered.replace_worker("w1")
    steered.replace_worker("w2")

    def is_blocked() -> bool:
        lines = steered.exchange.request("create_session", create(polling=True))
        return lines[0].startswith("CONERR,10,")

    until(is_blocked, "blocked")
    assert all(is_blocked() for _ in range(20))
    assert ask(steered.api_port, "DELETE", "/blocks?scope=adapter_set&name=TEST").body == []
    until(lambda: not is_blocked(), "let in again")


def test_a_drain_ends_the_sessions_of_all_workers_and_then_the_server(steered: WorkersProcess) -> None:
    pids = list(steered.workers().values())
    clients = both(steered)
    assert ask(steered.api_port, "POST", "/drain", {"seconds": 1, "stop": True}).body["sessions"] >= 2
    for client in clients:
        assert client.read_until("END")[-1] == "END,48,The server is shutting down"
    assert steered.wait() == 0
    assert all(is_gone(pid) for pid in pids)
    close(*clients)


# -- what stops the start ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--port", "--api-port"])
def test_a_port_in_use_is_said_as_by_one_process(tmp_path: Path, option: str) -> None:
    with sockets.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        other = "--api-port" if option == "--port" else "--port"
        done = run(tmp_path, "serve", "--workers", "2", option, str(port), other, "0")
    assert (done.returncode, done.stdout) == (1, "")
    errors = [line for line in done.stderr.splitlines() if " ERROR " in line]
    assert len(errors) == 1, done.stderr
    assert f"cannot listen on 127.0.0.1:{port}: " in errors[0]


def test_an_adapter_that_does_not_start_is_said_as_by_one_process(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text(
        "from penstock.adapters.api import DataAdapter\n"
        "class Broken(DataAdapter):\n"
        "    def start(self):\n        raise OSError('no feed today')\n"
        "    def subscribe(self, item): ...\n    def unsubscribe(self, item): ...\n"
    )
    (tmp_path / "penstock.toml").write_text('[adapters.MINE.data.FEED]\nadapter = "broken:Broken"\n')
    done = run(tmp_path, "serve", *PORTS, "--workers", "1", "--config", "penstock.toml")
    assert (done.returncode, done.stdout) == (1, "")
    assert "data adapter FEED of set MINE failed: no feed today" in done.stderr


@pytest.mark.parametrize("workers", ["-1", "257", "many"])
def test_a_wrong_number_of_workers_is_a_wrong_option(tmp_path: Path, workers: str) -> None:
    done = run(tmp_path, "serve", "--workers", workers)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f'penstock: --workers = "{workers}": expected a whole number from 0 to 256\n'


def test_a_second_server_on_the_same_data_directory_does_not_start(shared: WorkersProcess, tmp_path: Path) -> None:
    data = str(shared.directory / "data")
    done = run(tmp_path, "serve", *PORTS, "--workers", "1", "--data-dir", data)
    assert done.returncode == 1
    assert f"the data directory {data} is in use by another penstock process" in done.stderr


def test_the_demo_with_workers_says_where_it_is_once_all_are_there(tmp_path: Path) -> None:
    with Command(tmp_path, "demo", *PORTS, "--no-pipeline", "--workers", "2", "--log-level", "info") as command:
        page = command.line()
        ready = READY.fullmatch(command.line())
        assert ready is not None
        assert page == f"penstock: the page is at http://127.0.0.1:{ready[2]}/"
        told = re.fullmatch(r"penstock: administrator admin, password (\S+) .*", command.line())
        assert told is not None
        with Exchange("127.0.0.1", int(ready[2])).http() as http:
            http.get("/")
            assert http.read_head() == 200
        # The next hub knows the administrator that people were told of.
        os.kill(workers_of(command.pid)["hub"], signal.SIGKILL)
        until(lambda: "worker replaced worker=hub" in command.errors, "another hub")
        assert ask(int(ready[4]), "GET", "/me", authorization=basic("admin", told[1])).body["role"] == "admin"
        pids = list(workers_of(command.pid).values())
        assert len(pids) == 3
        assert command.stop() == (0, "")
    assert all(is_gone(pid) for pid in pids)
    assert not [name for name in os.listdir(tmp_path) if name not in ("penstock-data", "stderr.txt")]
