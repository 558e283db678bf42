"""docs/access.md: its example is played, its tables are those of the code."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.adapters.access import AccessError, AccessMetadata
from penstock.adapters.access.commands import app
from penstock.adapters.access.rules import Rule, Rules
from penstock.adapters.access.tokens import TokenChecker, TokenSettings
from penstock.kernel.item import Mode
from penstock.kernel.ports import DeviceFacts, PushFacts
from tests.adapters.access.world import AccessServer, facts, password_of, write_users
from tests.support.background import Question
from tests.support.process import READY
from tests.support.raw import CID, Exchange, params

PAGE = (Path(__file__).parents[3] / "docs" / "access.md").read_text("utf-8")
BLOCKS = [(info, text) for info, text in re.findall(r"^```([^\n]*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)]


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def first_cells(text: str) -> list[str]:
    return re.findall(r"^\| `([^`|]+)` \|", text, re.MULTILINE)


def attempts(title: str) -> list[list[str]]:
    rows = re.findall(r"^\|(.*)\|$", section(title), re.MULTILINE)
    return [[cell.strip() for cell in row.split("|")] for row in rows[2:]]


def files() -> dict[str, str]:
    return {info.split()[1]: text for info, text in BLOCKS if len(info.split()) == 2}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The example at work, as the page says: users by the shell, then `penstock serve`."""
    directory = tmp_path_factory.mktemp("desk")
    for name, text in files().items():
        (directory / name).write_text(text)
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    (commands,) = [text for info, text in BLOCKS if info == "sh"]
    subprocess.run(["sh", "-e"], input=commands.encode(), cwd=directory, env=environment, check=True, timeout=50)
    command = ["penstock", "serve", "--config", "penstock.toml", "--port", "0", "--api-port", "0"]
    with subprocess.Popen(
        command, cwd=directory, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        found = READY.match(process.stdout.readline())
        assert found is not None, process.stderr.read()
        yield int(found[2])
        process.terminate()
        process.communicate(timeout=20)


def test_the_example_has_all_its_parts() -> None:
    assert set(files()) == {"desk.py", "penstock.toml", "push.toml"}
    assert len(attempts("A complete example")) == 11
    assert len(attempts("Push notifications")) == 7


@pytest.mark.parametrize(("user", "password", "item", "mode", "answer"), attempts("A complete example"))
def test_the_example_answers_as_its_table_says(
    port: int, user: str, password: str, item: str, mode: str, answer: str
) -> None:
    assert play(port, user, password, item, mode) == answer


def play(port: int, user: str, password: str, item: str, mode: str) -> str:
    given = {name: value for name, value in (("user", user), ("password", password)) if value}
    exchange = Exchange("127.0.0.1", port)
    with exchange.http() as http:
        http.post("create_session", f"{params(adapter_set='DESK', **given)}&LS_cid={CID}")
        http.read_head()
        first = http.read_line().split(",")
        if first[0] == "CONERR":
            assert first[1] == "1"
            return "not admitted"
        wish = {"op": "add", "subId": 1, "group": item, "schema": "key command value", "mode": mode, "snapshot": True}
        (outcome,) = exchange.control(first[1], reqId=1, **wish)
        if outcome.startswith("REQERR"):
            return outcome.split(",")[2]
        lines = http.read_until("U")
        (frequency,) = [line.split(",")[2] for line in lines if line.startswith("CONF,")]
        return frequency if frequency == "unlimited" else f"{float(frequency):g}"


@pytest.mark.parametrize(("user", "roles", "application", "item", "answer"), attempts("Push notifications"))
def test_the_rules_for_push_answer_as_their_table_says(
    tmp_path: Path, user: str, roles: str, application: str, item: str, answer: str
) -> None:
    rules = tomllib.loads(files()["push.toml"])["adapters"]["DESK"]["metadata"]["parameters"]["rules"]
    users = write_users(tmp_path / "users", {"ada": ["trader"], "bob": []})
    given = {"user": user, "password": password_of(user)} if user else {}
    assert user != "ada" or roles == "trader"
    device = DeviceFacts("Apple", application, "token")
    push = PushFacts("HAND", Mode.MERGE, item, "value", (item,), ("value",), "{}", None)
    questions: list[Question] = [
        lambda authority, session: authority.register_device(session, device),
        lambda authority, session: authority.change_device_token(session, device, "new"),
        lambda authority, session: authority.activate_push(session, device, push),
    ]
    with (
        AccessServer(AccessMetadata(users=users, anonymous=True, rules=rules)) as server,
        Exchange(server.host, server.port).stream(**given) as stream,
    ):
        answers = [server.ask_authority(stream.session, question) for question in questions]
    codes = ["allowed" if each is None else str(each[0]) for each in answers]
    assert codes == {"allowed": ["allowed"] * 3, "43": ["43"] * 3, "21": ["allowed", "allowed", "21"]}[answer]


def test_the_tables_name_all_parameters_and_keys() -> None:
    parameters = list(inspect.signature(AccessMetadata).parameters)
    assert first_cells(section("Parameters")) == parameters
    assert first_cells(section("Tokens")) == [field.name for field in msgspec.structs.fields(TokenSettings)]
    assert first_cells(section("Rules")) == [field.name for field in msgspec.structs.fields(Rule)]


def test_the_defaults_are_those_of_the_code() -> None:
    tokens = section("Tokens")
    for field in msgspec.structs.fields(TokenSettings):
        if field.name in ("leeway_seconds", "refresh_seconds"):
            assert re.search(rf"^\| `{field.name}` .* Default: {field.default:g}\. \|$", tokens, re.MULTILINE)
        if field.name in ("user_claim", "roles_claim"):
            assert re.search(rf"^\| `{field.name}` .* Default: `{field.default}`\. \|$", tokens, re.MULTILINE)


def test_the_commands_are_those_of_the_command_line() -> None:
    named = {cell.split()[2] for cell in first_cells(section("Users"))}
    assert named == {
        command.name or command.callback.__name__ for command in app.registered_commands if command.callback
    }


def test_the_table_of_tokens_is_one_that_the_code_takes() -> None:
    (text,) = [text for info, text in BLOCKS if info == "toml"]
    TokenChecker(tomllib.loads(text)["adapters"]["DESK"]["metadata"]["parameters"]["tokens"], Path())


def test_the_mistake_is_told_as_the_page_says() -> None:
    rules: list[dict[str, Any]] = tomllib.loads(files()["penstock.toml"])["adapters"]["DESK"]["metadata"]["parameters"][
        "rules"
    ]
    rules[1]["modes"] = ["COMAND"]
    with pytest.raises(AccessError) as raised:
        Rules(rules)
    assert f"```text\n{raised.value}\n```" in section("Rules")


def test_the_subclass_takes_messages() -> None:
    (text,) = [text for info, text in BLOCKS if info == "python"]
    names: dict[str, Any] = {}
    exec(text, names)
    metadata = names["DeskMetadata"](users=Path("users"), rules=[{"users": ["ada"], "may_send_messages": True}])
    assert metadata.message(facts("ada"), "hello") == "ada said hello"
