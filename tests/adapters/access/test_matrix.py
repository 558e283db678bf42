"""Everybody tries everything, over sockets, and only what is granted succeeds. The grants are written out by hand."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from penstock.adapters.access import AccessMetadata
from penstock.kernel.ports import SessionFacts
from tests.adapters.access.world import (
    AUDIENCE,
    AccessServer,
    ec_key,
    key_set,
    password_of,
    public,
    signed,
    write_users,
)
from tests.support.raw import CID, Exchange, Socket, params, tags

IN_THE_FILE = {
    "alice": ["trader"],
    "bob": ["analyst"],
    "carol": ["trader", "analyst"],
    "dave": [],
    "ops": ["admin"],
    # Names that would be patterns if anybody took them for some.
    "*": [],
    "trader": [],
}
BY_TOKEN = "mallory"
ANONYMOUS = ""
EVERYBODY = [*IN_THE_FILE, BY_TOKEN, ANONYMOUS]

RULES: list[dict[str, Any]] = [
    {"name": "no secrets", "roles": ["analyst"], "items": ["stock.secret"], "deny": True},
    {
        "name": "traders",
        "roles": ["trader"],
        "data_adapters": ["HAND"],
        "items": ["stock.*"],
        "modes": ["MERGE", "RAW"],
        "max_frequency": 2,
        "max_bandwidth": 50,
    },
    {"name": "own", "users": ["*"], "items": ["portfolio.{user}"], "modes": ["COMMAND"]},
    {"name": "analysts", "roles": ["analyst"], "items": ["stock.*", "news"], "modes": ["DISTINCT"]},
    {"name": "admins", "roles": ["admin"], "items": ["*"], "may_send_messages": True},
    {"name": "dave", "users": ["dave"], "data_adapters": ["PLAIN"], "items": ["stock.a"], "modes": ["RAW"]},
    {"name": "news", "items": ["news"], "modes": ["MERGE"], "max_bandwidth": 200},
    {"name": "orders", "users": ["alice", "mallory"], "may_send_messages": True},
]

ADAPTERS = ("HAND", "PLAIN")
ITEMS = (
    "stock",
    "stock.a",
    "stock.secret",
    "Stock.a",
    "my.stock.a",
    "news",
    "newsletter",
    "portfolio.",
    "portfolio.alice",
    "portfolio.bob",
    "portfolio.*",
    "portfolio.{user}",
    "portfolio.trader",
    "admin.log",
)
MODES = ("RAW", "MERGE", "DISTINCT", "COMMAND")

NEWS = {("HAND", "news"): {"MERGE"}, ("PLAIN", "news"): {"MERGE"}}
TRADING = {("HAND", "stock.a"): {"MERGE", "RAW"}, ("HAND", "stock.secret"): {"MERGE", "RAW"}}
ANALYSIS = {("HAND", "news"): {"DISTINCT"}, ("PLAIN", "news"): {"DISTINCT"}, ("PLAIN", "stock.a"): {"DISTINCT"}}

GRANTED: dict[str, dict[tuple[str, str], set[str]]] = {
    "alice": TRADING | NEWS | {(adapter, "portfolio.alice"): {"COMMAND"} for adapter in ADAPTERS},
    "bob": ANALYSIS
    | {("HAND", "stock.a"): {"DISTINCT"}}
    | {(adapter, "portfolio.bob"): {"COMMAND"} for adapter in ADAPTERS},
    "carol": ANALYSIS | {("HAND", "stock.a"): {"MERGE", "RAW"}},
    "dave": NEWS | {("PLAIN", "stock.a"): {"RAW"}},
    "ops": {(adapter, item): set(MODES) for adapter in ADAPTERS for item in ITEMS},
    "*": NEWS | {(adapter, "portfolio.*"): {"COMMAND"} for adapter in ADAPTERS},
    "trader": NEWS | {(adapter, "portfolio.trader"): {"COMMAND"} for adapter in ADAPTERS},
    BY_TOKEN: TRADING | NEWS,
    ANONYMOUS: NEWS,
}
MAY_SEND = {"alice", "ops", BY_TOKEN}
BANDWIDTH = dict.fromkeys(EVERYBODY, 200.0) | {"alice": 50.0, "carol": 50.0, BY_TOKEN: 50.0}

NO_SUCH_ITEM = "21"
NO_SUCH_MODE = "24"


class Desk(AccessMetadata):
    """Takes messages, and remembers who sent which."""

    def __init__(self, **parameters: Any) -> None:
        super().__init__(**parameters)
        self.taken: list[tuple[str | None, str]] = []

    def take_message(self, session: SessionFacts, text: str) -> str:
        self.taken.append((session.user, text))
        return f"taken from {session.user}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AccessServer]:
    directory: Path = tmp_path_factory.mktemp("access")
    (directory / "keys.json").write_bytes(key_set(public(ec_key(), kid="ec")))
    desk = Desk(
        users=write_users(directory / "users", IN_THE_FILE),
        tokens={"keys": "keys.json", "audience": AUDIENCE},
        directory=directory,
        rules=RULES,
        anonymous=True,
    )
    running = AccessServer(desk)
    with running:
        yield running


def credentials(name: str) -> dict[str, object]:
    if name == ANONYMOUS:
        return {}
    if name == BY_TOKEN:
        return {"password": signed(ec_key(), "ES256", "ec", sub=BY_TOKEN, roles=["trader"])}
    return {"user": name, "password": password_of(name)}


def enter(server: AccessServer, name: str) -> Socket:
    socket = Exchange(server.host, server.port).socket()
    head = socket.create("TEST", **credentials(name))
    assert head[0].startswith("CONOK,"), head
    return socket


def ask(socket: Socket, number: int, **parameters: object) -> list[str]:
    """The fields of the answer to a control request."""
    socket.send("control", params(reqId=number, **parameters))
    return socket.read_until("REQOK", "REQERR", "ERROR")[-1].split(",")


def subscribe(socket: Socket, number: int, adapter: str, group: str, mode: str) -> str | None:
    """Try it, and give it up again; None if it succeeds, else the code of the error."""
    wish = {"data_adapter": adapter, "group": group, "schema": "key command x", "mode": mode, "snapshot": False}
    answer = ask(socket, number, op="add", subId=number, **wish)
    if answer[0] == "REQERR":
        return answer[2]
    assert answer == ["REQOK", str(number)]
    assert socket.read_until("SUBOK", "SUBCMD")[-1].split(",")[1] == str(number)
    assert ask(socket, number, op="delete", subId=number) == ["REQOK", str(number)]
    assert socket.read_until("UNSUB")[-1] == f"UNSUB,{number}"
    return None


def test_the_matrix_is_large_enough() -> None:
    assert len(EVERYBODY) * len(ADAPTERS) * len(ITEMS) * len(MODES) >= 1_000
    granted = sum(len(modes) for rights in GRANTED.values() for modes in rights.values())
    assert 100 < granted < 200


@pytest.mark.parametrize("name", EVERYBODY)
def test_of_all_items_in_all_modes_only_those_granted_can_be_subscribed(server: AccessServer, name: str) -> None:
    rights = GRANTED[name]
    expected: dict[tuple[str, str, str], str | None] = {}
    for adapter, item, mode in product(ADAPTERS, ITEMS, MODES):
        allowed = rights.get((adapter, item))
        refusal = NO_SUCH_ITEM if allowed is None else NO_SUCH_MODE
        expected[adapter, item, mode] = None if allowed is not None and mode in allowed else refusal
    before = {"HAND": len(server.adapter.history), "PLAIN": len(server.plain.history)}
    with enter(server, name) as socket:
        found = {
            (adapter, item, mode): subscribe(socket, number, adapter, item, mode)
            for number, (adapter, item, mode) in enumerate(expected, 1)
        }
        socket.send("control", params(reqId=0, op="destroy"))
        socket.read_until("END")
    assert found == expected
    # What is refused never gets as far as the data adapter.
    for adapter, hand in (("HAND", server.adapter), ("PLAIN", server.plain)):
        asked = {item for call, item in hand.history[before[adapter] :] if call == "subscribe"}
        assert asked == {item for owner, item in rights if owner == adapter}


@pytest.mark.parametrize("name", EVERYBODY)
def test_one_item_too_many_spoils_a_group(server: AccessServer, name: str) -> None:
    mode = {"bob": "DISTINCT", "carol": "DISTINCT"}.get(name, "MERGE")
    everything = None if name == "ops" else NO_SUCH_ITEM
    with enter(server, name) as socket:
        assert subscribe(socket, 1, "HAND", "news news", mode) is None
        assert subscribe(socket, 2, "HAND", "news admin.log", mode) == everything
        assert subscribe(socket, 3, "HAND", "admin.log news", mode) == everything
        assert subscribe(socket, 4, "HAND", "news\tadmin.log", mode) == everything


def test_an_item_that_does_not_exist_is_refused_in_the_same_words(server: AccessServer) -> None:
    with enter(server, "dave") as socket:
        answers = []
        for number, item in enumerate(("stock.secret", "no.such.item"), 1):
            wish = {"group": item, "schema": "x", "mode": "MERGE", "data_adapter": "HAND"}
            answers.append(",".join(ask(socket, number, op="add", subId=1, **wish)[2:]).replace(item, "…"))
        assert answers[0] == answers[1]


@pytest.mark.parametrize("name", EVERYBODY)
def test_only_those_who_may_can_send_messages(server: AccessServer, name: str) -> None:
    desk: Any = server.metadata
    text = f"hello from {name or 'nobody'}"
    with enter(server, name) as socket:
        socket.send("msg", params(reqId=1, message=text, msg_prog=1, sequence="orders"))
        outcome = socket.read_until("MSGDONE", "MSGFAIL")[-1]
        if name in MAY_SEND:
            assert outcome == "MSGDONE,orders,1"
        else:
            assert outcome == "MSGFAIL,orders,1,34,This user may not send messages"
    assert ((name or None, text) in desk.taken) == (name in MAY_SEND)


@pytest.mark.parametrize("name", EVERYBODY)
def test_everybody_has_the_bandwidth_of_the_first_rule_that_says_one(server: AccessServer, name: str) -> None:
    # For `ops` and others too the last to say something is the rule for everybody.
    limit = BANDWIDTH[name]
    with enter(server, name) as socket:
        for asked, given in (("unlimited", limit), ("1000", limit), ("10.5", 10.5)):
            socket.send("control", params(reqId=1, op="constrain", requested_max_bandwidth=asked))
            line = socket.read_until("CONS")[-1]
            assert float(line.split(",")[1]) == given


@pytest.mark.parametrize(("name", "limit"), [("alice", "2"), ("carol", "2"), (BY_TOKEN, "2"), ("ops", None)])
def test_a_frequency_limit_holds_when_asked_again(server: AccessServer, name: str, limit: str | None) -> None:
    with enter(server, name) as socket:
        wish = {"data_adapter": "HAND", "group": "stock.a", "schema": "x", "mode": "MERGE"}
        assert ask(socket, 1, op="add", subId=1, requested_max_frequency=100, **wish)[0] == "REQOK"
        frequencies = [socket.read_until("CONF")[-1].split(",")[2]]
        assert ask(socket, 2, op="reconf", subId=1, requested_max_frequency=50)[0] == "REQOK"
        frequencies.append(socket.read_until("CONF")[-1].split(",")[2])
        expected = [100.0, 50.0] if limit is None else [float(limit)] * 2
        assert [float(found) for found in frequencies] == expected


@pytest.mark.parametrize("name", [*IN_THE_FILE, BY_TOKEN, "nobody"])
def test_of_all_passwords_only_the_own_one_lets_a_user_in(server: AccessServer, name: str) -> None:
    passwords: dict[str, str] = {owner: password_of(owner) for owner in IN_THE_FILE}
    passwords[BY_TOKEN] = str(credentials(BY_TOKEN)["password"])
    passwords[ANONYMOUS] = ""
    admitted = []
    exchange = Exchange(server.host, server.port)
    for owner, password in passwords.items():
        with exchange.http() as http:
            http.post("create_session", f"{params(adapter_set='TEST', user=name, password=password)}&LS_cid={CID}")
            http.read_head()
            line = http.read_line()
        if line.startswith("CONOK,"):
            admitted.append(owner)
        else:
            assert line == "CONERR,1,User/password check failed"
    assert admitted == ([] if name == "nobody" else [name])


def test_what_is_granted_is_also_delivered_and_only_to_those_who_have_it(server: AccessServer) -> None:
    with enter(server, "alice") as alice, enter(server, "dave") as dave:
        wish = {"data_adapter": "HAND", "group": "stock.a", "schema": "x", "mode": "MERGE", "snapshot": False}
        assert ask(alice, 1, op="add", subId=1, **wish)[0] == "REQOK"
        assert ask(dave, 1, op="add", subId=1, **wish)[:3] == ["REQERR", "1", NO_SUCH_ITEM]
        alice.read_until("SUBOK")
        server.update("stock.a", x="17")
        assert alice.read_until("U")[-1] == "U,1,1,17"
        # Whatever came for dave would have come before this.
        dave.send("control", params(reqId=2, op="constrain", requested_max_bandwidth="unlimited"))
        assert tags(dave.read_until("REQOK")).count("U") == 0
