"""Chapter 5 of the text protocol's specification, and the workflows of chapter 2, typed as into telnet.

The commands are the chapter's own: GET, HTTP/1.0, a blank line, no header at all. Where the specification says that
updates start or stop, this is read from the stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from types import TracebackType

import pytest

from penstock.testing.text6_push import EndOfSnapshot, Loop, Probe, Push, Update, parse_push
from penstock.wire.text6.values import decode_values
from tests.support.process import ServerProcess
from tests.support.raw import Exchange, Http

# The feed at a pace at which minutes pass in seconds; probes come often enough to be seen.
FAST = {"demo.pace": 50, "session.min_keepalive_millis": 100, "session.default_keepalive_millis": 100}

CREATE = (
    "GET /lightstreamer/create_session.txt?LS_op2=create&LS_cid=mgQkwtwdysogQz2BJ4Ji%20k0j2Bg"
    "&LS_adapter_set=WELCOME&LS_user= HTTP/1.0"
)
CREATE_SHORT = CREATE.replace(" HTTP", "&LS_content_length=2000 HTTP")
BIND_SHORT = "GET /lightstreamer/bind_session.txt?LS_session=<id>&LS_content_length=2000 HTTP/1.0"
CONTROL = "GET /lightstreamer/control.txt?LS_session=<id>"
STOCKS = "&LS_data_adapter=STOCKS"
THREE = "&LS_schema=last_price+pct_change+time"
ELEVEN = "&LS_schema=last_price+time+pct_change+bid_quantity+bid+ask+ask_quantity+min+max+ref_price+open_price"
SNAPSHOT = "&LS_mode=MERGE&LS_snapshot=true HTTP/1.0"
DELETE_1 = f"{CONTROL}&LS_table=1&LS_op=delete HTTP/1.0"
DELETE_2 = f"{CONTROL}&LS_table=2&LS_op=delete HTTP/1.0"


class Shell:
    """A telnet of which the stream connection is kept open."""

    def __init__(self, telnet: Telnet, command: str) -> None:
        self.http = telnet.type(command)
        assert self.http.read_line() == "OK"
        name, _, self.session = self.http.read_line().partition(":")
        assert name == "SessionId"
        # Other headers, possibly including many Preamble lines.
        while self.http.read_line():
            pass
        self.values: dict[tuple[int, int], tuple[str | None, ...]] = {}

    def __enter__(self) -> Shell:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.http.close()

    def push(self) -> Push:
        return parse_push(self.http.read_line())

    def updates(self, fields: dict[int, int]) -> Iterator[tuple[int, int, tuple[str | None, ...]]]:
        """Updates as they come, decoded; `fields` is how many each table has. Of no other table may there be any."""
        while True:
            push = self.push()
            if isinstance(push, Probe):
                continue
            assert isinstance(push, Update), push
            key = push.table, push.item
            self.values[key] = decode_values(push.values, self.values.get(key), fields[push.table])
            yield push.table, push.item, self.values[key]

    def read_past(self, table: int, fields: dict[int, int]) -> None:
        """Read until an update of the table has come: everything before it was on the way already."""
        for number, _, _ in self.updates(fields):
            if number == table:
                return


class Telnet:
    """Auxiliary connections, one for each command."""

    def __init__(self, process: ServerProcess) -> None:
        self._exchange = Exchange(process.host, process.port)

    def type(self, command: str, session: str = "") -> Http:
        http = self._exchange.http()
        http.send(f"{command.replace('<id>', session)}\r\n\r\n".encode())
        assert http.read_head() == 200, http.read_body()
        return http

    def answer(self, command: str, session: str = "") -> str:
        """What the server says before it closes the connection."""
        with self.type(command, session) as http:
            return http.read_body().decode("ascii")


@pytest.fixture
def telnet(process: ServerProcess) -> Telnet:
    return Telnet(process)


def expect_stopped(
    telnet: Telnet, shell: Shell, before: dict[int, int], after: dict[int, int], marker: int = 9
) -> None:
    """From now on there are updates of the tables in `after` only; those in `before` may still be on the way.

    A new table, `marker`, shows where the stream is.
    """
    add = f"{CONTROL}&LS_table={marker}&LS_op=add{STOCKS}&LS_id=item25{THREE}{SNAPSHOT}"
    assert telnet.answer(add, shell.session) == "OK\r\n"
    shell.read_past(marker, {**before, marker: 3})
    seen = [number for _, (number, _, _) in zip(range(20), shell.updates({**after, marker: 3}), strict=False)]
    assert marker in seen


def read_until_seen(shell: Shell, fields: dict[int, int], wanted: set[tuple[int, int]]) -> None:
    """Read until each of these items of tables has had an update that is not its first."""
    counts = dict.fromkeys(wanted, 0)
    for number, item, _ in shell.updates(fields):
        counts[number, item] += 1
        if min(counts.values()) > 1:
            return


@pytest.mark.config(FAST)
def test_5_2_1_basic_workflow(telnet: Telnet) -> None:
    with Shell(telnet, CREATE) as shell:
        # "Before the first Control Connection the server sends some probe messages."
        assert [shell.push() for _ in range(3)] == [Probe()] * 3
        add = f"{CONTROL}&LS_table=2&LS_op=add{STOCKS}&LS_id=item2+item11+item18{ELEVEN}{SNAPSHOT}"
        assert telnet.answer(add, shell.session) == "OK\r\n"
        read_until_seen(shell, {2: 11}, {(2, 1), (2, 2), (2, 3)})
        assert telnet.answer(DELETE_2, shell.session) == "OK\r\n"
        expect_stopped(telnet, shell, {2: 11}, {})


@pytest.mark.config(FAST)
def test_5_2_2_double_subscription(telnet: Telnet) -> None:
    with Shell(telnet, CREATE) as shell:
        for number, item in ((1, "item2"), (2, "item18")):
            add = f"{CONTROL}&LS_table={number}&LS_op=add{STOCKS}&LS_id={item}{THREE}{SNAPSHOT}"
            assert telnet.answer(add, shell.session) == "OK\r\n"
        read_until_seen(shell, {1: 3, 2: 3}, {(1, 1), (2, 1)})
        assert telnet.answer(DELETE_1, shell.session) == "OK\r\n"
        expect_stopped(telnet, shell, {1: 3, 2: 3}, {2: 3})
        shell.read_past(2, {2: 3, 9: 3})
        assert telnet.answer(DELETE_2, shell.session) == "OK\r\n"
        expect_stopped(telnet, shell, {2: 3, 9: 3}, {9: 3}, marker=10)


@pytest.mark.config(FAST)
def test_5_2_3_field_schema_change(telnet: Telnet) -> None:
    with Shell(telnet, CREATE) as shell:
        add = f"{CONTROL}&LS_table=1&LS_op=add{STOCKS}&LS_id=item2{THREE}{SNAPSHOT}"
        assert telnet.answer(add, shell.session) == "OK\r\n"
        read_until_seen(shell, {1: 3}, {(1, 1)})
        assert telnet.answer(DELETE_1, shell.session) == "OK\r\n"
        add = f"{CONTROL}&LS_table=2&LS_op=add{STOCKS}&LS_id=item2{ELEVEN}{SNAPSHOT}"
        assert telnet.answer(add, shell.session) == "OK\r\n"
        shell.read_past(2, {1: 3, 2: 11})
        read_until_seen(shell, {2: 11}, {(2, 1)})
        assert telnet.answer(DELETE_2, shell.session) == "OK\r\n"
        expect_stopped(telnet, shell, {2: 11}, {})


@pytest.mark.config(FAST)
def test_5_2_4_snapshot_synchronization(telnet: Telnet) -> None:
    with Shell(telnet, CREATE) as shell:
        add = f"{CONTROL}&LS_table=1&LS_op=add_silent{STOCKS}&LS_id=item2{THREE}&LS_mode=MERGE HTTP/1.0"
        assert telnet.answer(add, shell.session) == "OK\r\n"
        # "The server only sends probe messages", though the item changes many times meanwhile.
        assert [shell.push() for _ in range(5)] == [Probe()] * 5
        assert telnet.answer(f"{CONTROL}&LS_table=1&LS_op=start HTTP/1.0", shell.session) == "OK\r\n"
        read_until_seen(shell, {1: 3}, {(1, 1)})
        assert telnet.answer(DELETE_1, shell.session) == "OK\r\n"
        expect_stopped(telnet, shell, {1: 3}, {})


@pytest.mark.config(FAST)
def test_5_2_5_multiple_subscriptions_of_the_same_item(telnet: Telnet) -> None:
    with Shell(telnet, CREATE) as shell:
        fields = {1: 3, 2: 11}
        for number, schema in ((1, THREE), (2, ELEVEN)):
            add = f"{CONTROL}&LS_table={number}&LS_op=add{STOCKS}&LS_id=item2{schema}{SNAPSHOT}"
            assert telnet.answer(add, shell.session) == "OK\r\n"
        shell.read_past(2, fields)
        found: dict[int, list[tuple[str | None, ...]]] = {1: [], 2: []}
        for number, _, values in shell.updates(fields):
            # Table 2 has time and change the other way round.
            found[number].append(values if number == 1 else (values[0], values[2], values[1]))
            if len(found[1]) > 20 and found[1][-1] == found[2][-1]:
                break
        first = [values for values, _ in groupby(found[1])]
        second = [values for values, _ in groupby(found[2])]
        # The first of either may have come before both were there.
        assert first[-15:] == second[-15:]
        assert telnet.answer(DELETE_1, shell.session) == "OK\r\n"
        assert telnet.answer(DELETE_2, shell.session) == "OK\r\n"
        expect_stopped(telnet, shell, fields, {})


@pytest.mark.config(FAST)
def test_2_5_a_connection_that_is_used_up_is_replaced_without_loss(telnet: Telnet) -> None:
    add = f"{CONTROL}&LS_table=1&LS_op=add{STOCKS}&LS_id=item2{THREE}&LS_mode=RAW HTTP/1.0"
    with Shell(telnet, CREATE) as whole:
        assert telnet.answer(add, whole.session) == "OK\r\n"
        shell = Shell(telnet, CREATE_SHORT)
        assert telnet.answer(add, shell.session) == "OK\r\n"
        parts: list[tuple[str | None, ...]] = []
        loops = 0
        while loops < 3:
            push = shell.push()
            if isinstance(push, Loop):
                loops += 1
                values = shell.values
                shell.http.close()
                # The session knows what this client has, and kept what came meanwhile.
                shell = Shell(telnet, BIND_SHORT.replace("<id>", shell.session))
                shell.values = values
            elif isinstance(push, Update):
                shell.values[1, 1] = decode_values(push.values, shell.values.get((1, 1)), 3)
                parts.append(shell.values[1, 1])
        shell.http.close()
        all_of_it: list[tuple[str | None, ...]] = []
        for _, _, found in whole.updates({1: 3}):
            all_of_it.append(found)
            if all_of_it[-len(parts) :] == parts:
                break
            assert len(all_of_it) < 10 * len(parts), "the updates of the short connections have a gap"
        assert len(parts) > 50


@pytest.mark.config({**FAST, "session.session_timeout_millis": 100})
def test_2_5_a_client_that_binds_too_late_starts_again(telnet: Telnet) -> None:
    add = f"{CONTROL}&LS_table=1&LS_op=add{STOCKS}&LS_id=item2{THREE}{SNAPSHOT}"
    with Shell(telnet, CREATE) as shell:
        assert telnet.answer(add, shell.session) == "OK\r\n"
        assert telnet.answer(f"{CONTROL}&LS_op=force_rebind HTTP/1.0", shell.session) == "OK\r\n"
        while not isinstance(shell.push(), Loop):
            pass
        # Asking does not keep it alive.
        while telnet.answer(f"{CONTROL}&LS_op=constrain HTTP/1.0", shell.session) == "OK\r\n":
            pass
        bind = "GET /lightstreamer/bind_session.txt?LS_session=<id> HTTP/1.0"
        assert telnet.answer(bind, shell.session) == "SYNC ERROR\r\n"
    with Shell(telnet, CREATE) as shell:
        assert telnet.answer(add, shell.session) == "OK\r\n"
        read_until_seen(shell, {1: 3}, {(1, 1)})


@pytest.mark.config(FAST)
def test_2_6_an_external_snapshot_of_merged_data_is_completed_without_a_gap(telnet: Telnet) -> None:
    with Shell(telnet, CREATE) as shell, Shell(telnet, CREATE) as source:
        silent = f"{CONTROL}&LS_table=1&LS_op=add_silent{STOCKS}&LS_id=item2{THREE}&LS_mode=MERGE HTTP/1.0"
        assert telnet.answer(silent, shell.session) == "OK\r\n"
        add = f"{CONTROL}&LS_table=1&LS_op=add{STOCKS}&LS_id=item2{THREE}&LS_mode=RAW HTTP/1.0"
        assert telnet.answer(add, source.session) == "OK\r\n"
        seen = [values for _, (_, _, values) in zip(range(5), source.updates({1: 3}), strict=False)]
        assert telnet.answer(f"{CONTROL}&LS_table=1&LS_op=start HTTP/1.0", shell.session) == "OK\r\n"
        _, _, first = next(shell.updates({1: 3}))
        # What is gathered is the state at the start, not an older one: the source comes across it from here on.
        assert first == seen[-1] or any(values == first for _, _, values in source.updates({1: 3}))


@pytest.mark.config(FAST)
def test_2_6_an_external_snapshot_of_distinct_data_misses_no_event(telnet: Telnet) -> None:
    chat = f"{CONTROL}&LS_table=1&LS_data_adapter=CHAT&LS_id=chat_room&LS_schema=message&LS_mode=DISTINCT"
    with Shell(telnet, CREATE) as shell, Shell(telnet, CREATE) as other:
        assert telnet.answer(f"{chat}&LS_op=add_silent HTTP/1.0", shell.session) == "OK\r\n"
        assert telnet.answer(f"{chat}&LS_op=add&LS_snapshot=true HTTP/1.0", other.session) == "OK\r\n"
        for number in range(5):
            say = f"GET /lightstreamer/send_message.txt?LS_session=<id>&LS_message=CHAT%7Cline+{number} HTTP/1.0"
            assert telnet.answer(say, shell.session) == "OK\r\n"
        seen: list[Push] = []
        while len(seen) < 5:
            seen += [push for push in [other.push()] if not isinstance(push, Probe | EndOfSnapshot)]
        assert seen == [Update(1, 1, f"line {number}") for number in range(5)]
        assert telnet.answer(f"{CONTROL}&LS_table=1&LS_op=start HTTP/1.0", shell.session) == "OK\r\n"
        found = [values for _, (_, _, values) in zip(range(5), shell.updates({1: 1}), strict=False)]
        assert found == [(f"line {number}",) for number in range(5)]
