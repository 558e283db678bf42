"""`penstock init`: what it writes is accepted and served as it is, in each case."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from penstock.init import CASES
from tests.support import forge
from tests.support.forge import Forked
from tests.support.process import READY

# Other tests run beside this one.
FREE_PORTS = {"port = 8080": "port = 0   ", "port = 8081": "port = 0   ", "port = 8090": "port = 0   "}


@contextmanager
def served(place: Path) -> Iterator[tuple[str, str]]:
    """The addresses of stream and API."""
    text = (place / "penstock.toml").read_text()
    for fixed, free in FREE_PORTS.items():
        text = text.replace(fixed, free)
    (place / "penstock.toml").write_text(text)
    with (place / "log").open("w") as log:
        process = Forked(["serve", "--config", "penstock.toml"], place, stderr=log)
    try:
        found = READY.match(process.stdout.readline())
        assert found is not None, (place / "log").read_text()
        yield f"http://{found[1]}:{found[2]}", f"http://{found[1]}:{found[4]}"
    finally:
        process.terminate()
        process.wait(60)
        process.stdin.close()
        process.stdout.close()


@pytest.mark.parametrize("case", CASES)
def test_each_case_is_accepted_as_it_is_written_and_for_its_owner_only(case: str, tmp_path: Path) -> None:
    done = forge.run(["init", case, str(tmp_path / "new")])
    assert (done.returncode, done.stderr) == (0, "")
    assert f"penstock: wrote {tmp_path / 'new' / 'penstock.toml'}\n" in done.stdout
    assert all(path.stat().st_mode & 0o077 == 0 for path in (tmp_path / "new").iterdir())
    checked = forge.run(["config", "check", "--config", "penstock.toml"], tmp_path / "new")
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "penstock: penstock.toml: ok\n", "")


def test_the_market_takes_what_is_published_with_its_token(tmp_path: Path) -> None:
    forge.run(["init", "market", str(tmp_path)])
    with served(tmp_path) as (stream, api):
        done = forge.run(
            ["publish", "MARKET", "acme", "price=12.5", "--api", api, "--token-file", "publish.token"], tmp_path
        )
        assert (done.returncode, done.stderr) == (0, "")
        shown = forge.run(["watch", "MARKET", "acme", "--fields", "price", "--count", "1", "--json", "--url", stream])
    assert json.loads(shown.stdout)["fields"] == {"price": "12.5"}


def test_twins_are_for_the_user_who_is_told(tmp_path: Path) -> None:
    said = forge.run(["init", "twins", str(tmp_path)]).stdout
    told = re.search(r"user (\S+), password (\S+) ", said)
    assert told is not None
    login = base64.b64encode(f"{told[1]}:{told[2]}".encode()).decode()
    headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}
    with served(tmp_path) as (_, api):
        url = f"{api}/api/2/things/org.example:lamp"
        with urlopen(Request(url, b'{"attributes": {"watts": 7}}', headers, method="PUT"), timeout=30) as answer:
            assert answer.status == 201


def test_the_hub_of_traffic_lights_answers(tmp_path: Path) -> None:
    forge.run(["init", "traffic", str(tmp_path)])
    with served(tmp_path) as (_, api), urlopen(f"{api}/api/v1/openapi.json", timeout=30) as answer:
        assert "/sessions" in str(json.load(answer)["paths"])


def test_an_adapter_of_ones_own_is_there_to_be_changed(tmp_path: Path) -> None:
    forge.run(["init", "adapter", str(tmp_path)])
    with served(tmp_path) as (stream, _):
        shown = forge.run(["watch", "QUOTES", "acme", "--fields", "price", "--count", "2", "--json", "--url", stream])
    assert [float(json.loads(line)["fields"]["price"]) > 0 for line in shown.stdout.splitlines()] == [True, True]


def test_nothing_is_overwritten_and_a_mistake_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text("mine")
    done = forge.run(["init", "market", str(tmp_path)])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (f"penstock: {tmp_path / 'penstock.toml'} already exists; expected a directory without it\n")
    assert [path.name for path in tmp_path.iterdir()] == ["penstock.toml"]
    done = forge.run(["init", "shop"])
    assert (done.returncode, done.stderr) == (
        2,
        "penstock: 'shop' is not known; expected one of market, twins, traffic, adapter\n",
    )
    done = forge.run(["init", "market", str(tmp_path / "penstock.toml" / "below")])
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
