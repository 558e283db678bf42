"""What a server without an extra does: everything that needs none, and one sentence for the rest.

The extras are blocked here, in processes of their own. In environments that really lack them: tests/test_install.py.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from penstock import extras
from penstock.adapters.replay.rows import read
from penstock.config import ConfigError, load
from penstock.services.errors import StartError
from penstock.services.journal import check_extras
from penstock.store.errors import StoreError
from penstock.store.opening import check_store
from tests.support.process import READY

ROOT = Path(__file__).parents[1]

# What an extra brings cannot be imported, nor found.
WITHOUT = """
import sys, importlib.abc
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
import importlib.util as util
find = util.find_spec
util.find_spec = lambda name, *rest: None if name.partition(".")[0] in {names!r} else find(name, *rest)
from penstock.__main__ import main
main()
"""
JOURNAL = ("pyarrow", "numpy", "deltalake")


def start(cwd: Path, *arguments: str, without: tuple[str, ...] = JOURNAL) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WITHOUT.format(names=without), *arguments],
        cwd=cwd,
        env=os.environ | {"PENSTOCK_BUILD": "interpreted"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(cwd: Path, *arguments: str, without: tuple[str, ...] = JOURNAL) -> tuple[int, str, str]:
    process = start(cwd, *arguments, without=without)
    out, err = process.communicate(timeout=100)
    return process.returncode, out, err


def test_every_extra_that_the_sentences_name_is_one_of_the_package() -> None:
    named = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert {"lake", "tlex", "postgres", "spark", "push", "cluster", "compiled"} <= named.keys()
    found = {re.findall(r"penstock\[(\w+)\]", extras.lack_of(module))[0] for module in extras.MODULES}
    assert found <= named.keys()


def test_a_module_of_no_extra_is_not_explained() -> None:
    assert extras.lack_of("somebodys.module") == ""
    assert extras.lack_in(ModuleNotFoundError("x", name="somebodys.module")) == ""
    assert extras.lack_in(ModuleNotFoundError("x")) == ""


def test_a_command_that_needs_an_extra_says_which_in_one_sentence(tmp_path: Path) -> None:
    assert run(tmp_path, "history", "tail", "x") == (
        1,
        "",
        "penstock: the journal, twins and history cannot be used, because the extra journal is not installed: "
        "pip install 'penstock[journal]'\n",
    )


def test_a_server_without_the_journal_streams_and_says_what_it_lacks(tmp_path: Path) -> None:
    process = start(tmp_path, "demo", "--port", "0", "--api-port", "0", "--no-pipeline")
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]
    process.terminate()
    process.communicate(timeout=60)
    assert lines[0] == (
        "penstock: no journal, no twins and no history, because the extra journal is not installed: "
        "pip install 'penstock[journal]'\n"
    )
    assert READY.match(lines[2])
    assert not (tmp_path / "penstock-data" / "journal").exists()


@pytest.fixture
def without_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, where asking is enough to know."""
    for module in ("config.loading", "config.checks", "adapters.replay.rows", "adapters.ingest.requests"):
        monkeypatch.setattr(f"penstock.{module}.has_journal", lambda: False)


@pytest.mark.usefixtures("without_journal")
def test_the_configuration_says_why_there_is_no_journal() -> None:
    loaded = load(None, {})
    assert not loaded.config.journal.enabled
    assert loaded.origins["journal.enabled"] == "default without the extra journal"


@pytest.mark.usefixtures("without_journal")
@pytest.mark.parametrize(
    ("configuration", "sentence"),
    [
        (
            "[journal]\nenabled = true\n",
            "own.toml: journal.enabled = true: expected false, because the extra journal is not installed: "
            "pip install 'penstock[journal]'",
        ),
        (
            '[ditto]\nadapter_set = "A"\n[adapters.A.data.D]\nadapter = "ingest"\n',
            "the extra journal is not installed: pip install 'penstock[journal]': journal.enabled = false: "
            'expected true, because ditto.adapter_set = "A" (own.toml) is set',
        ),
        (
            '[adapters.A.data.D]\nadapter = "ingest"\njournal = { items = ["*"] }\n',
            "the extra journal is not installed: pip install 'penstock[journal]': journal.enabled = false: "
            "expected true, because adapters.A.data.D.journal.items is set (own.toml)",
        ),
    ],
)
def test_a_configuration_that_needs_the_journal_is_refused(
    configuration: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.toml").write_text(configuration)
    with pytest.raises(ConfigError) as refused:
        load(Path("own.toml"), {})
    assert str(refused.value) == sentence


@pytest.mark.usefixtures("without_journal")
def test_a_data_directory_with_a_journal_is_not_continued_without_it(tmp_path: Path) -> None:
    place = {"server.data_dir": str(tmp_path)}
    check_extras(load(None, place))
    (tmp_path / "journal").mkdir()
    with pytest.raises(StartError) as refused:
        check_extras(load(None, place))
    assert str(refused.value) == (
        f"the data directory {tmp_path} has a journal, and the extra journal is not installed: "
        "pip install 'penstock[journal]'; or set journal.enabled = false to go on without it"
    )
    check_extras(load(None, {**place, "journal.enabled": False}))


def test_a_lake_without_its_extra_stops_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = {"server.data_dir": str(tmp_path)}
    (tmp_path / "lake" / "_delta_log").mkdir(parents=True)
    check_extras(load(None, place))
    monkeypatch.setattr("penstock.services.journal.find_spec", lambda _name: None)
    with pytest.raises(StartError, match=r"has a lake, and the extra lake is not installed: pip install"):
        check_extras(load(None, place))


def test_a_database_in_postgresql_without_its_extra_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError) as refused:
        check_store("postgresql+psycopg://localhost/x", tmp_path)
    assert str(refused.value) == (
        "the database cannot be opened: the extra postgres is not installed: pip install 'penstock[postgres]'"
    )


@pytest.mark.usefixtures("without_journal")
def test_a_parquet_file_is_not_replayed_without_its_extra(tmp_path: Path) -> None:
    (tmp_path / "ticks.parquet").write_bytes(b"PAR1")
    with pytest.raises(OSError, match=r"Parquet files cannot be read, because the extra journal is not installed"):
        next(iter(read(tmp_path / "ticks.parquet", "parquet", ",", [])))


def test_on_windows_one_sentence_says_what_to_do(tmp_path: Path) -> None:
    script = (
        "import sys; sys.platform = 'win32'\n"
        "for name in ('fcntl', 'resource', 'termios', 'pwd', 'uvloop'): sys.modules[name] = None\n"
        "from penstock.__main__ import main; main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "serve"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("penstock: the server needs Linux or macOS; on Windows, install it in WSL")
    assert done.stderr.count("\n") == 1
