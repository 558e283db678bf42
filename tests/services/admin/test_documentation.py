"""docs/administration.md, typed as it stands there: a file of users, a server, and every command of the page."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.services.admin.guard import PREFIX
from tests.conformance.phrases import batch
from tests.services.admin.site import AdminSite
from tests.support.process import READY
from tests.support.raw import Exchange, params

PAGE = Path(__file__).parents[3] / "docs" / "administration.md"
TEXT = PAGE.read_text("utf-8")
PATIENCE = 50.0


def block(mark: str) -> str:
    found = re.search(rf"```{mark}\n(.*?)```", TEXT, re.DOTALL)
    assert found is not None, mark
    return found[1]


class Typist:
    """Types what the page says, in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        program = Path(sys.executable).parent
        self.environment = {**os.environ, "PATH": f"{program}:{os.environ['PATH']}", "no_proxy": "127.0.0.1"}

    def type(self, commands: str) -> str:
        done = subprocess.run(
            ["sh", "-ec", commands],
            cwd=self.directory,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout


@pytest.mark.timeout(180)
def test_every_command_of_the_page_works_as_it_is_written(tmp_path: Path) -> None:
    typist = Typist(tmp_path)
    assert typist.type(block("sh users")).count("written") == 2
    # As on the page, but for the ports: those may be taken on the machine that runs the tests.
    (tmp_path / "penstock.toml").write_text(re.sub(r"port = \d+", "port = 0", block(r"toml penstock\.toml")))
    with (tmp_path / "errors").open("w") as errors:
        server = subprocess.Popen(
            ["sh", "-c", f"exec {block('sh server')}"],
            cwd=tmp_path,
            env=typist.environment,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    try:
        assert server.stdout is not None
        ready = READY.match(server.stdout.readline())
        assert ready is not None
        typist.environment["PENSTOCK_ADMIN_API"] = f"http://127.0.0.1:{ready[4]}"
        exchange = Exchange("127.0.0.1", int(ready[2]))
        with exchange.stream(adapter_set="WELCOME") as stream:
            subscription = {"reqId": 1, "op": "add", "subId": 1, "group": "item1", "schema": "last_price"}
            batch(exchange, stream.session, params(**subscription, mode="MERGE", data_adapter="STOCKS"))
            stream.read_until("CONF")
            shown = typist.type(block("sh look"))
            assert stream.session[:17] in shown
            assert "WELCOME/STOCKS" in shown
            login = block("sh look").splitlines()[0]
            typist.type(f"{login}\n{block('sh steer')}")
            lines = stream.read_until("END")
            told = [line for line in lines if line.startswith(("CONS", "CONF", "UNSUB", "END"))]
            assert sorted(told) == sorted(
                [
                    *("CONS,50", "CONF,1,2.0,filtered", "CONF,1,unlimited,filtered", "CONS,unlimited", "UNSUB,1"),
                    "END,48,The session was closed by an administrator",
                ]
            )
        asked = block("sh http").replace("127.0.0.1:8081", f"127.0.0.1:{ready[4]}").replace("\n", "; echo\n")
        answers = re.search(r"```sh http\n.*?```\n\n```\n(.*?)```", TEXT, re.DOTALL)
        assert answers is not None
        assert typist.type(asked) == answers[1]
        typist.type(f"{login}\n{block('sh server-wide')}")
        assert server.wait(PATIENCE) == 0
    finally:
        if server.poll() is None:
            server.kill()
        server.communicate()
    history = typist.type(block("sh history"))
    for action in ("set bandwidth", "reset frequency", "unsubscribe", "end session", "block", "reload", "drain"):
        assert f'"action":"{action}"' in history, history


def test_the_table_has_every_request_and_no_other(site: AdminSite) -> None:
    document = site.ask("GET", "/openapi.json").body
    assert document["servers"] == [{"url": PREFIX}]
    real = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    section = TEXT.partition("| request | what it does |")[2].partition("\n\n")[0]
    named = set()
    for cell in re.findall(r"^\| (.+?) \|", section, re.MULTILINE):
        wanted: list[str] = []
        for code in re.findall(r"`([^`]+)`", cell):
            method, _, path = code.partition(" ")
            wanted.append(method)
            if path:
                place = path.replace("SESSION", "{session}").replace("/N", "/{number}").replace("/ID", "/{id}")
                named |= {(each, place) for each in wanted}
                wanted = []
    assert named == real
