"""Contexts: kept for their owner only, used by the commands that ask a server, and never sent to another one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import typer

from penstock.cli import _ask
from penstock.client.contexts import ContextError, Contexts, ServerContext, place, read, write
from tests.support import forge


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("PENSTOCK_CONTEXT", raising=False)
    return tmp_path


def penstock(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return forge.run(arguments, environment=dict(os.environ), given=given)


def test_what_is_added_is_listed_without_its_password_in_a_file_for_its_owner() -> None:
    done = penstock(
        *("context", "add", "prod", "https://push.example.com", "--user", "otto", "--password-stdin"), given="s3cret\n"
    )
    assert (done.returncode, done.stdout) == (0, "penstock: context prod: https://push.example.com\n")
    listed = penstock("context", "list")
    assert listed.stdout == "* prod  https://push.example.com  user=otto\n"
    assert place().stat().st_mode & 0o777 == 0o600
    assert place().parent.stat().st_mode & 0o777 == 0o700
    assert read(place()).named("prod").password == "s3cret"


def test_text_of_any_kind_is_read_as_it_was_written() -> None:
    odd = Contexts({"a.b": ServerContext("http://h", user='quo"te\\\n', password="päß\x07")}, "a.b")
    write(place(), odd)
    assert read(place()) == odd


def test_a_command_asks_the_server_that_is_used_and_another_if_it_is_told_to() -> None:
    penstock("context", "add", "one", "http://127.0.0.1:1")
    penstock("context", "add", "two", "http://127.0.0.1:2")
    watch = ("watch", "A", "b", "--fields", "c")
    assert penstock(*watch).stderr.startswith("penstock: http://127.0.0.1:1: nothing listens there")
    assert penstock("--context", "two", *watch).stderr.startswith("penstock: http://127.0.0.1:2: nothing listens")
    assert penstock("context", "use", "two").returncode == 0
    assert penstock(*watch).stderr.startswith("penstock: http://127.0.0.1:2: nothing listens")
    assert penstock("context", "remove", "two").returncode == 0
    assert penstock("context", "list").stdout == "  one  http://127.0.0.1:1\n"


@pytest.mark.parametrize(
    ("options", "applies"), [((), True), (("--url", "http://h"), False), (("--url=http://h",), False)]
)
def test_user_and_password_of_a_context_are_not_sent_to_an_address_on_the_command_line(
    options: tuple[str, ...], applies: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(place(), Contexts({"prod": ServerContext("http://127.0.0.1:1", user="otto", password="x")}, "prod"))
    monkeypatch.setattr("sys.argv", ["penstock", "watch", "A", "b", *options])
    monkeypatch.setenv("PENSTOCK_ADMIN_PASSWORD", "mine")
    context = SimpleNamespace(default_map=None)
    _ask(cast(typer.Context, context), None)
    found = {"url": "http://127.0.0.1:1", "user": "otto", "password": "x"}
    assert (context.default_map or {}).get("watch") == (found if applies else None)
    assert os.environ["PENSTOCK_ADMIN_PASSWORD"] == "mine"


def test_a_context_and_an_address_together_are_refused() -> None:
    penstock("context", "add", "prod", "http://127.0.0.1:1")
    done = penstock("--context", "prod", "watch", "A", "b", "--fields", "c", "--url", "http://127.0.0.1:2")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "penstock: --context prod names a server, and so does --url or --api; expected one of them\n"
    )


def test_a_file_that_others_can_read_is_refused() -> None:
    write(place(), Contexts({"prod": ServerContext("http://h")}, "prod"))
    place().chmod(0o644)
    with pytest.raises(ContextError, match=r"can be read by others, and secrets are in it: chmod 600 "):
        read(place())


@pytest.mark.parametrize("content", ["not toml", "contexts = 1", '[contexts.a]\napi = "x"', "[contexts]\na = 1"])
def test_a_file_that_is_no_file_of_contexts_is_one_sentence(content: str) -> None:
    place().parent.mkdir()
    place().write_text(content)
    place().chmod(0o600)
    with pytest.raises(ContextError, match=r"is not a file of contexts; delete it, and add them again"):
        read(place())


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["use", "nowhere"], "there is no context nowhere; known: none (penstock context add nowhere URL)"),
        (["remove", "nowhere"], "there is no context nowhere; known: none (penstock context add nowhere URL)"),
        (
            ["add", "a b", "http://h"],
            "'a b': expected a name of letters, digits, '-', '_' and '.', at most 64 characters",
        ),
        (
            ["add", "a", "http://otto:pw@h"],
            "'http://h': user and password must be given separately, not in the address",
        ),
    ],
)
def test_a_mistake_is_one_sentence(arguments: list[str], sentence: str) -> None:
    done = penstock("context", *arguments)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"penstock: {sentence}\n")
