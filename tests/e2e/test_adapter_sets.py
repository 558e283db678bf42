"""Adapter sets of the configuration file, in a real process: served, broken, optional, and reloaded on SIGHUP."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.command import run
from tests.support.raw import TIMEOUT, Exchange, Stream
from tests.support.set_process import FEED, Process, echo


def subscribe(exchange: Exchange, stream: Stream, item: str = "item1", data_adapter: str = "DEFAULT") -> list[str]:
    wish = {"group": item, "schema": "text", "mode": "MERGE", "snapshot": True, "data_adapter": data_adapter}
    return exchange.control(stream.session, reqId=1, op="add", subId=1, **wish)


def first_value(exchange: Exchange, stream: Stream, item: str = "item1", data_adapter: str = "DEFAULT") -> str:
    assert subscribe(exchange, stream, item, data_adapter) == ["REQOK,1"]
    return stream.read_until("U")[-1]


def served(exchange: Exchange, adapter_set: str) -> str:
    with exchange.stream(adapter_set) as stream:
        return first_value(exchange, stream)


def is_served(exchange: Exchange, adapter_set: str) -> bool:
    with exchange.stream(adapter_set) as stream:
        if stream.head[0].startswith("CONOK,"):
            return True
        assert stream.head[0].startswith("CONERR,2,")
        return False


@pytest.fixture
def port_without_listener() -> Iterator[socket.socket]:
    """Whoever connects to it is refused until the test listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        bound.settimeout(TIMEOUT)
        yield bound


# -- served --------------------------------------------------------------------------------------------------------


def test_an_adapter_in_a_file_next_to_the_configuration_serves_a_client(tmp_path: Path) -> None:
    with Process(tmp_path, echo("QUOTES", "hello") + echo("MORE", "bonjour")) as process:
        exchange = process.ready()
        assert served(exchange, "QUOTES") == "U,1,1,hello item1"
        assert served(exchange, "MORE") == "U,1,1,bonjour item1"
        code, log = process.stop()
    assert code == 0
    assert "ERROR" not in log


@pytest.mark.parametrize(("demo", "expected"), [("", False), ("[demo]\nenabled = true\n", True)])
def test_the_demo_sets_are_served_beside_others_only_when_asked_for(tmp_path: Path, demo: str, expected: bool) -> None:
    with Process(tmp_path, demo + echo("QUOTES", "hello")) as process:
        exchange = process.ready()
        assert is_served(exchange, "QUOTES")
        assert is_served(exchange, "WELCOME") is expected
        assert is_served(exchange, "DEMO") is expected


# -- broken --------------------------------------------------------------------------------------------------------

KEY = "conf/penstock.toml: adapters.Q.data.D"
BROKEN = [
    ('data.D]\nadapter = "fed:Echo"', f'{KEY}.adapter = \\"fed:Echo\\": expected a module in '),
    ('data.D]\nadapter = "feed:Ecco"', f'{KEY}.adapter = \\"feed:Ecco\\": expected a class of module feed'),
    ('data.D]\nadapter = "feed:Closed"', f'{KEY}.adapter = \\"feed:Closed\\": expected a subclass of '),
    ('data.D]\nadapter = "feed:Echo"', f"{KEY}.parameters.text: missing; Echo takes text, stopped"),
    ('data.D]\nadapter = "feed:Unmakable"', f"{KEY}: Unmakable cannot be made: ValueError: no such market (feed.py, "),
    ('data.D]\nadapter = "feed:Refusing"', "data adapter D of set Q failed: the feed is away"),
    ('metadata]\nadapter = "feed:Closed"', "metadata adapter of set Q failed: no users"),
]


@pytest.mark.parametrize(("table", "expected"), BROKEN)
def test_a_broken_adapter_stops_the_start_with_one_clear_line(tmp_path: Path, table: str, expected: str) -> None:
    with Process(tmp_path, f"[adapters.Q.{table}\n") as process:
        errors = process.errors()
        (line,) = errors.splitlines()
        assert "ERROR penstock.server cannot start reason=" in line
        assert expected in line
        assert process._process.returncode == 1


def test_adapters_that_have_started_are_stopped_when_another_one_fails(tmp_path: Path) -> None:
    good = '[adapters.A.data.D]\nadapter = "feed:Echo"\nparameters = { text = "", stopped = "stopped.txt" }\n'
    same_set = '[adapters.B.data.GOOD]\nadapter = "feed:Echo"\nparameters = { text = "", stopped = "other.txt" }\n'
    with Process(tmp_path, good + same_set + '[adapters.B.data.WRONG]\nadapter = "feed:Refusing"\n') as process:
        assert "the feed is away" in process.errors()
    assert (tmp_path / "conf" / "stopped.txt").read_text() == "stopped"
    assert (tmp_path / "conf" / "other.txt").read_text() == "stopped"


def test_an_adapter_that_takes_for_ever_to_start_does_not_keep_the_process_from_stopping(
    tmp_path: Path, port_without_listener: socket.socket
) -> None:
    port_without_listener.listen()
    port = port_without_listener.getsockname()[1]
    told = f'[adapters.A.data.D]\nadapter = "feed:Remote"\nparameters = {{ port = {port} }}\n'
    with Process(tmp_path, told + '[adapters.B.data.D]\nadapter = "feed:Patient"\n') as process:
        # The set before it has started, so its own turn has come or is about to.
        port_without_listener.accept()[0].close()
        code, log = process.stop()
    assert code == 0
    assert "stopped before it was ready" in log


@pytest.mark.parametrize(
    ("call", "complaint"), [("subscribe", "busy"), ("stop", "data adapter has not stopped in time")]
)
def test_an_adapter_that_hangs_does_not_keep_the_process_from_stopping(
    tmp_path: Path, call: str, complaint: str
) -> None:
    stuck = f'[adapters.Q.data.DEFAULT]\nadapter = "feed:Stuck"\nparameters = {{ call = "{call}" }}\n'
    with Process(tmp_path, stuck) as process:
        assert served(process.ready(), "Q") == "U,1,1,stuck item1"
        code, log = process.stop()
    assert code == 0
    assert complaint in log
    assert "exiting although threads are still busy" in log


def test_check_imports_the_adapters(tmp_path: Path) -> None:
    (tmp_path / "feed.py").write_text(FEED)
    (tmp_path / "penstock.toml").write_text(echo("QUOTES", "hello"))
    done = run(tmp_path, "config", "check", "--config", "penstock.toml")
    assert (done.returncode, done.stdout, done.stderr) == (0, "penstock: penstock.toml: ok\n", "")
    (tmp_path / "penstock.toml").write_text('[adapters.Q.data.D]\nadapter = "feed:Ecco"\n')
    done = run(tmp_path, "config", "check", "--config", "penstock.toml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        'penstock: penstock.toml: adapters.Q.data.D.adapter = "feed:Ecco": expected a class of module feed'
    )
    found = json.loads(run(tmp_path, "config", "check", "--config", "penstock.toml", "--json").stdout)
    assert (found["ok"], found["key"]) == (False, "adapters.Q.data.D.adapter")


def test_check_warns_of_an_optional_adapter_that_cannot_be_imported(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text('[adapters.Q.data.D]\nadapter = "later:Later"\noptional = true\n')
    done = run(tmp_path, "config", "check", "--config", "penstock.toml")
    assert (done.returncode, done.stdout) == (0, "penstock: penstock.toml: ok\n")
    assert done.stderr.startswith(
        "penstock: warning: optional adapter would be retried: penstock.toml: adapters.Q.data.D.adapter"
    )
    assert done.stderr.endswith("there is no later\n")
    found = json.loads(run(tmp_path, "config", "check", "--config", "penstock.toml", "--json").stdout)
    assert found["ok"] is True
    assert "there is no later" in found["warnings"][0]


# -- optional ------------------------------------------------------------------------------------------------------


def test_an_optional_adapter_comes_up_once_its_source_is_there(
    tmp_path: Path, port_without_listener: socket.socket
) -> None:
    port = port_without_listener.getsockname()[1]
    late = f'[adapters.QUOTES.data.LATE]\nadapter = "feed:Remote"\nparameters = {{ port = {port} }}\noptional = true\n'
    with Process(tmp_path, echo("QUOTES", "hello") + late) as process:
        exchange = process.ready()
        with exchange.stream("QUOTES") as stream:
            assert subscribe(exchange, stream, data_adapter="LATE") == ["REQERR,1,17,Data Adapter not found"]
            warning = process.log_until("optional data adapter has not started")
            assert "adapter_set=QUOTES adapter=LATE" in warning
            assert "refused" in warning
            # The client's text is what published clients expect; the log has the rest.
            assert "LATE is not a data adapter of set QUOTES; it has DEFAULT" in process.log_until("request refused")
            port_without_listener.listen()
            process.log_until("optional data adapter has started")
            assert first_value(exchange, stream, data_adapter="LATE") == "U,1,1,remote item1"
        assert process.stop()[0] == 0


def test_an_optional_adapter_that_is_there_is_up_when_the_server_is_ready(
    tmp_path: Path, port_without_listener: socket.socket
) -> None:
    port_without_listener.listen()
    port = port_without_listener.getsockname()[1]
    late = f'[adapters.Q.data.DEFAULT]\nadapter = "feed:Remote"\nparameters = {{ port = {port} }}\noptional = true\n'
    with Process(tmp_path, late) as process:
        assert served(process.ready(), "Q") == "U,1,1,remote item1"


def test_an_optional_adapter_comes_up_once_its_module_is_there(tmp_path: Path) -> None:
    late = '[adapters.Q.data.DEFAULT]\nadapter = "later:Later"\noptional = true\n'
    with Process(tmp_path, late) as process:
        exchange = process.ready()
        assert "there is no later" in process.log_until("optional data adapter has not started")
        source = (
            'from feed import Echo\nclass Later(Echo):\n    def __init__(self):\n        super().__init__("late")\n'
        )
        # Under another name first, so that the process never sees half of it.
        (tmp_path / "conf" / "later.txt").write_text(source)
        (tmp_path / "conf" / "later.txt").rename(tmp_path / "conf" / "later.py")
        process.log_until("optional data adapter has started")
        assert served(exchange, "Q") == "U,1,1,late item1"


def test_an_optional_adapter_that_takes_for_ever_to_start_does_not_keep_the_others_waiting(tmp_path: Path) -> None:
    slow = '[adapters.Q.data.SLOW]\nadapter = "feed:Patient"\noptional = true\n'
    with Process(tmp_path, slow + echo("Q", "hello")) as process:
        assert served(process.ready(), "Q") == "U,1,1,hello item1"
        assert process.stop()[0] == 0


# -- reload --------------------------------------------------------------------------------------------------------


def test_a_reload_ends_the_sessions_of_changed_and_removed_sets_and_of_no_others(tmp_path: Path) -> None:
    before = echo("SAME", "one") + echo("CHANGED", "one") + echo("GONE", "one")
    with Process(tmp_path, before) as process, ExitStack() as stack:
        exchange = process.ready()
        same, changed, gone = (stack.enter_context(exchange.stream(name)) for name in ("SAME", "CHANGED", "GONE"))
        assert first_value(exchange, same) == "U,1,1,one item1"
        assert first_value(exchange, changed) == "U,1,1,one item1"
        process.reload(echo("SAME", "one") + echo("CHANGED", "two") + echo("NEW", "three"))
        assert changed.read_until("END")[-1] == "END,32,The adapter set CHANGED has been changed"
        assert gone.read_until("END")[-1] == "END,32,The adapter set GONE has been removed"
        assert 'new="[\\"NEW\\"]" changed="[\\"CHANGED\\"]" gone="[\\"GONE\\"]"' in process.log_until("reloaded")
        process.log_until("adapter set started adapter_set=CHANGED")
        process.log_until("adapter set started adapter_set=NEW")
        assert served(exchange, "CHANGED") == "U,1,1,two item1"
        assert served(exchange, "NEW") == "U,1,1,three item1"
        assert not is_served(exchange, "GONE")
        assert exchange.control(same.session, reqId=2, op="delete", subId=1) == ["REQOK,2"]
        assert first_value(exchange, same, "item2") == "U,1,1,one item2"
        code, log = process.stop()
        assert same.read_until("END")[-1] == "END,48,The server is shutting down"
    assert code == 0
    assert "ERROR" not in log


def test_a_reload_of_the_same_configuration_changes_nothing(tmp_path: Path) -> None:
    with Process(tmp_path, echo("SAME", "one")) as process:
        exchange = process.ready()
        with exchange.stream("SAME") as stream:
            process.reload("# only written in another way\n" + echo("SAME", "one") + "optional = false\n")
            assert "new=[] changed=[] gone=[]" in process.log_until("reloaded")
            assert first_value(exchange, stream) == "U,1,1,one item1"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[adapters.NEW\n", "expected ']' at the end of a table declaration"),
        ('[stream]\nport = "abc"\n', 'stream.port = \\"abc\\": expected a whole number'),
        ('[adapters.NEW.data.D]\nadapter = "feed:Ecco"\n', "expected a class of module feed"),
        ('[adapters.NEW.data.D]\nadapter = "feed:Unmakable"\n', "no such market"),
    ],
)
def test_a_configuration_that_does_not_load_is_refused_and_everything_goes_on(
    tmp_path: Path, content: str, reason: str
) -> None:
    with Process(tmp_path, echo("SAME", "one")) as process:
        exchange = process.ready()
        with exchange.stream("SAME") as stream:
            process.reload(content)
            line = process.log_until("new configuration rejected, the old one stays in force")
            assert " ERROR " in line
            assert reason in line
            assert first_value(exchange, stream) == "U,1,1,one item1"
            process.reload(echo("SAME", "one") + echo("NEW", "two"))
            process.log_until("adapter set started adapter_set=NEW")
            assert served(exchange, "NEW") == "U,1,1,two item1"
        assert process.stop()[0] == 0


def test_a_reload_says_which_other_changes_need_a_restart(tmp_path: Path) -> None:
    with Process(tmp_path, echo("SAME", "one")) as process:
        process.ready()
        process.reload("limits.max_sessions = 5\nlog.format = 'json'\n" + echo("SAME", "one"))
        line = process.log_until("changes need a restart")
        assert "limits.max_sessions" in line
        assert "log.format" in line
        assert "stream.port" not in line, "the option of the command line still wins"


def test_a_set_that_does_not_start_on_a_reload_is_tried_again_on_the_next(
    tmp_path: Path, port_without_listener: socket.socket
) -> None:
    port = port_without_listener.getsockname()[1]
    late = f'[adapters.NEW.data.DEFAULT]\nadapter = "feed:Remote"\nparameters = {{ port = {port} }}\n'
    with Process(tmp_path, echo("SAME", "one")) as process:
        exchange = process.ready()
        process.reload(echo("SAME", "one") + late)
        assert "data adapter DEFAULT of set NEW failed: " in process.log_until("adapter set could not be started")
        assert not is_served(exchange, "NEW")
        assert is_served(exchange, "SAME")
        port_without_listener.listen()
        process.reload(echo("SAME", "one") + late)
        process.log_until("adapter set started adapter_set=NEW")
        assert served(exchange, "NEW") == "U,1,1,remote item1"


def test_a_set_that_takes_for_ever_to_start_can_be_taken_back(tmp_path: Path) -> None:
    with Process(tmp_path, echo("SAME", "one")) as process:
        exchange = process.ready()
        process.reload(echo("SAME", "one") + '[adapters.NEW.data.D]\nadapter = "feed:Patient"\n')
        process.log_until("configuration reloaded")
        process.reload(echo("SAME", "one") + echo("NEW", "two"))
        process.log_until("adapter set started adapter_set=NEW")
        assert served(exchange, "NEW") == "U,1,1,two item1"
        assert process.stop()[0] == 0


def test_a_server_with_a_set_that_is_still_starting_can_be_stopped(tmp_path: Path) -> None:
    with Process(tmp_path, echo("SAME", "one")) as process:
        process.ready()
        process.reload(echo("SAME", "one") + '[adapters.NEW.data.D]\nadapter = "feed:Patient"\n')
        process.log_until("configuration reloaded")
        code, log = process.stop()
    assert code == 0
    assert "ERROR" not in log


def test_the_demo_sets_go_when_others_come(tmp_path: Path) -> None:
    with Process(tmp_path, "") as process:
        exchange = process.ready()
        with exchange.stream("WELCOME") as stream:
            process.reload(echo("NEW", "one"))
            assert stream.read_until("END")[-1] == "END,32,The adapter set WELCOME has been removed"
        process.log_until("adapter set started adapter_set=NEW")
        assert served(exchange, "NEW") == "U,1,1,one item1"
        process.reload("")
        process.log_until("adapter set started adapter_set=WELCOME")
        assert is_served(exchange, "WELCOME")


def test_a_metadata_adapter_hears_of_the_end_of_every_session_before_it_is_stopped(tmp_path: Path) -> None:
    witness = '[adapters.Q.metadata]\nadapter = "feed:Witness"\nparameters = {{ file = "witness.txt", version = {} }}\n'
    users = [f"user{number}" for number in range(50)]
    with Process(tmp_path, witness.format(1)) as process, ExitStack() as stack:
        exchange = process.ready()
        streams = [stack.enter_context(exchange.stream("Q", user=user)) for user in users]
        process.reload(witness.format(2))
        for stream in streams:
            assert stream.read_until("END")[-1] == "END,32,The adapter set Q has been changed"
        process.log_until("adapter set started adapter_set=Q")
        lines = (tmp_path / "conf" / "witness.txt").read_text().splitlines()
        assert sorted(lines[:-1]) == sorted(f"{user} has gone" for user in users)
        assert lines[-1] == "stopped"


def test_a_data_adapter_hears_that_nobody_wants_its_items_before_it_is_stopped(tmp_path: Path) -> None:
    told = '[adapters.Q.data.DEFAULT]\nadapter = "feed:Echo"\nparameters = {{ text = "{}", stopped = "told.txt" }}\n'
    items = [f"item{number}" for number in range(50)]
    with Process(tmp_path, told.format("one")) as process:
        exchange = process.ready()
        with exchange.stream("Q") as stream:
            assert first_value(exchange, stream, " ".join(items)).startswith("U,1,")
            process.reload(told.format("two"))
            process.log_until("adapter set started adapter_set=Q")
        words = (tmp_path / "conf" / "told.txt").read_text().split(" ")
    assert sorted(words[:-1]) == sorted(items)
    assert words[-1] == "stopped"


def test_a_client_that_is_on_its_way_into_a_set_that_goes_is_refused(
    tmp_path: Path, port_without_listener: socket.socket
) -> None:
    port_without_listener.listen()
    port = port_without_listener.getsockname()[1]
    slow = f'[adapters.Q.metadata]\nadapter = "feed:Slow"\nparameters = {{ port = {port}, version = 1 }}\n'
    with Process(tmp_path, slow) as process:
        exchange = process.ready()
        with exchange.http() as http:
            http.post("create_session", "LS_adapter_set=Q&LS_cid=mgQkwtwdysogQz2BJ4Ji%20kOj2Bg")
            connection, _ = port_without_listener.accept()
            with connection:
                process.reload(slow.replace("version = 1", "version = 2"))
                process.log_until("adapter set started adapter_set=Q")
            http.read_head()
            assert http.read_until("CONOK", "CONERR")[-1].startswith("CONERR,2,")
        code, log = process.stop()
    assert code == 0
    assert "ERROR" not in log
