"""`penstock publish` against a real server; and what is wrong with a command line, in one sentence each."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import forge
from tests.support.process import ServerProcess

TOKEN = "0123456789abcdef"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    parameters = {"items": ["barn", "shed"], "tokens": [TOKEN]}
    settings: dict[str, object] = {
        f"adapters.FARM.data.DEFAULT.parameters.{key}": value for key, value in parameters.items()
    }
    settings["adapters.FARM.data.DEFAULT.adapter"] = "ingest"
    with ServerProcess(tmp_path_factory.mktemp("server"), settings) as running:
        yield running


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_TOKEN", TOKEN)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def publish(server: ServerProcess, *arguments: str, given: str = "") -> tuple[int, str]:
    """Exit code and standard error; nothing is ever printed elsewhere."""
    options = ["--api", f"http://127.0.0.1:{server.api_port}"]
    done = forge.run(["publish", *arguments, *options], environment=dict(os.environ), given=given)
    assert done.stdout == ""
    return done.returncode, done.stderr


def seen(server: ServerProcess, item: str) -> dict[str, str]:
    done = forge.run(
        ["watch", "FARM", item, "--fields", "temperature door", "--count", "1", "--json", "--url", server.url]
    )
    assert done.returncode == 0, done.stderr
    fields: dict[str, str] = json.loads(done.stdout)["fields"]
    return fields


def test_values_on_the_command_line_are_seen_by_clients(server: ServerProcess) -> None:
    assert publish(server, "FARM", "barn", "temperature=21.5", "door=a=b") == (0, "")
    assert seen(server, "barn") == {"temperature": "21.5", "door": "a=b"}


def test_lines_on_standard_input_are_published_also_the_last_without_an_end(server: ServerProcess) -> None:
    lines = (
        '{"item": "shed", "fields": {"temperature": 1}}\n{"item": "shed", "fields": {"temperature": 2, "door": "x"}}'
    )
    assert publish(server, "FARM", given=lines) == (0, "")
    assert seen(server, "shed") == {"temperature": "2", "door": "x"}


def test_a_refused_line_is_named_by_its_number_and_the_others_are_published(server: ServerProcess) -> None:
    lines = '{"item": "shed", "fields": {"temperature": 7}}\nnonsense\n{"item": "elsewhere"}\n'
    code, err = publish(server, "FARM", given=lines)
    assert code == 1
    said = err.splitlines()
    assert said[0].startswith("penstock: FARM/DEFAULT: line 2: ")
    assert said[1].startswith("penstock: FARM/DEFAULT: line 3: ")
    assert said[2] == "penstock: 1 accepted, 2 refused"
    assert seen(server, "shed")["temperature"] == "7"


def test_a_wrong_token_is_refused_and_not_repeated(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_TOKEN", "wrong-wrong-wrong")
    code, err = publish(server, "FARM", "barn", "temperature=1")
    assert (code, err.count("\n")) == (1, 1)
    assert "wrong-wrong" not in err


def test_an_adapter_that_there_is_not_is_named(server: ServerProcess) -> None:
    code, err = publish(server, "FARM", "barn", "temperature=1", "--adapter", "OTHER")
    assert (code, err) == (1, "penstock: FARM/OTHER: There is no ingest adapter OTHER in set FARM\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["FARM", "barn"], "no values: expected FIELD=VALUE after the item, such as price=12.5"),
        (["FARM", "barn", "warm"], "'warm': expected FIELD=VALUE, such as price=12.5"),
        (["FARM", "barn", "=1"], "'=1': expected FIELD=VALUE, such as price=12.5"),
        (["FARM", "barn", "a=1", "--token-file", "/no/such"], "/no/such cannot be read: No such file or directory"),
        (["FARM", "barn", "a=1", "--ca", "/no/such"], "/no/such cannot be read: No such file or directory"),
    ],
)
def test_a_mistake_is_one_sentence(arguments: list[str], sentence: str) -> None:
    done = forge.run(["publish", *arguments], environment=dict(os.environ))
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"penstock: {sentence}\n")


def test_without_a_token_it_says_where_one_is_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PENSTOCK_TOKEN")
    done = forge.run(["publish", "FARM", "barn", "a=1"], environment=dict(os.environ))
    assert done.stderr == (
        "penstock: no token: expected --token-file FILE or the environment variable PENSTOCK_TOKEN\n"
    )


def test_no_server_is_one_sentence_and_exit_code_3() -> None:
    done = forge.run(["publish", "FARM", "barn", "a=1", "--api", "http://127.0.0.1:1"], environment=dict(os.environ))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        "penstock: http://127.0.0.1:1: the API port does not answer: nothing listens there (connection refused)\n"
    )
