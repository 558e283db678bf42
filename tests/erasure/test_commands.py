"""`penstock history erase` as people type it: a thing of a real server is forgotten, and the server goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.services.errors import StartError
from tests.doors.ditto.site import Site
from tests.support.command import run

ENTITY = "DITTO/THINGS/ns:anna"
POLICY = "DITTO/POLICIES/ns:anna"


def history(directory: Path, *arguments: str) -> tuple[int, str, str]:
    done = run(directory, "history", *arguments, "--config", "penstock.toml", "--data-dir", "data")
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A server that has run: two things, of which one is a person, and a feed that has both as items."""
    with Site(tmp_path) as site:
        alice = site.of("alice")
        for name in ("anna", "carl"):
            assert alice.put(f"/things/ns:{name}", json={"attributes": {"street": f"{name}s-oak"}}).status_code == 201
            for number in range(3):
                alice.put(f"/things/ns:{name}/attributes/n", json=number)
    return tmp_path


def test_a_thing_is_forgotten_and_the_server_goes_on(site: Path) -> None:
    code, out, err = history(site, "erase", ENTITY, POLICY, "--yes", "--by", "root", "--reference", "request 17")
    assert (code, err) == (0, "")
    assert out.splitlines()[-2:] == [
        f"penstock: {POLICY}: 1 events erased",
        f"penstock: {ENTITY}: 4 events erased",
    ]
    found = [path for path in (site / "data").rglob("*") if path.is_file() and b"annas-oak" in path.read_bytes()]
    assert found == []
    code, out, _ = history(site, "erased", ENTITY, "--json")
    assert code == 0
    record = json.loads(out)
    assert (record["by"], record["events"], record["reference"]) == ("root", 4, "request 17")
    assert history(site, "erased", "DITTO/THINGS/ns:carl")[0] == 1
    assert len(history(site, "erased")[1].splitlines()) == 2
    verified = run(site, "journal", "verify", "--data-dir", "data")
    assert (verified.returncode, verified.stdout.strip().endswith("ok")) == (0, True)
    with Site(site) as again:
        alice = again.of("alice")
        assert alice.get("/things/ns:anna").status_code == 404
        carl = alice.get("/things/ns:carl?fields=_revision,attributes").json()
        assert carl == {"_revision": 4, "attributes": {"street": "carls-oak", "n": 2}}
        past = alice.get("/things/ns:carl", headers={"at-historical-revision": "2"}).json()
        assert past["attributes"] == {"street": "carls-oak", "n": 0}
        assert alice.put("/things/ns:anna", json={}).status_code == 201
        assert alice.get("/things/ns:anna?fields=_revision").json() == {"_revision": 1}
        # Beside a server it is refused. (One in a process of its own has the whole directory as well.)
        code, _, err = history(site, "erase", ENTITY, "--yes")
        where = (site / "data" / "journal").resolve()
        assert (code, err) == (1, f"penstock: the journal in {where} is being written by another process\n")


def test_what_is_wrong_is_told_in_one_line_and_nothing_is_erased(site: Path) -> None:
    for arguments, code, words in (
        ((), 2, "no erasure was interrupted; name an entity"),
        (("admin",), 2, "admin: expected SET/ADAPTER/ITEM"),
        (("DITTO/THINGS/ns:nobody", "--yes"), 1, "DITTO/THINGS/ns:nobody: no such events; nothing was erased"),
    ):
        found, _, err = history(site, "erase", *arguments)
        assert (found, err) == (code, f"penstock: {words}\n")
    assert history(site, "show", ENTITY)[0] == 0
    code, _, err = history(site, "erased")
    assert (code, err) == (1, "penstock: no erasure is recorded\n")


def test_one_that_was_interrupted_is_finished_without_naming_anybody(site: Path) -> None:
    note = {"id": "1", "events": {ENTITY: 4}, "by": "root", "reference": "", "begun": 0}
    (site / "data" / "journal" / "erasing").write_text(json.dumps(note))
    with pytest.raises(StartError, match="has not finished; run `penstock history erase` without an entity"):
        Site(site).__enter__()
    assert history(site, "erase") == (0, f"penstock: {ENTITY}: 4 events erased\n", "")
    assert history(site, "show", ENTITY)[0] == 1
    with Site(site) as again:
        assert again.of("alice").get("/things/ns:anna").status_code == 404
