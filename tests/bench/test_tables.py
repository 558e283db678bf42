"""The tables of docs/performance.md come from the benchmarks: each saves what it prints, and has a place in a page."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
import uvloop

from bench import __main__ as command
from bench.rig import write
from bench.rig.machine import Cores
from bench.scenarios import smoke

# In miniature, some that are quick, and need neither a JVM nor a broker.
SMALL = {
    "adapters-ari": "--updates 1000 --rounds 1",
    "journal": "--events 2000 --commits 20 --rounds 1",
    "notifications": "--seconds 0.2 --rounds 1 --open 10",
    "triggers": "--triggers 2000 --items 5 --seconds 4",
    "wire-size": "--updates 200",
}


def results(name: str) -> list[str]:
    return command.RESULT_NAMES.get(name, [name])


def test_every_benchmark_has_one_place_in_a_page() -> None:
    places = [name for page in write.PAGES for name in write.places(page.read_text("utf-8"))]
    assert sorted(places) == sorted([name for names in map(results, command.BENCHES) for name in names])


def test_the_page_lists_every_benchmark() -> None:
    listed = re.findall(r"^\| `([a-z-]+)` \|", write.PAGES[0].read_text("utf-8"), re.MULTILINE)
    assert [name for name in listed if name in command.BENCHES] == listed
    assert set(listed) == set(command.BENCHES)


@pytest.mark.parametrize("name", command.BENCHES)
def test_no_benchmark_only_prints_its_tables(name: str) -> None:
    """Of those too that need a JVM, minutes or a broker."""
    source = inspect.getsource(command.BENCHES[name])
    assert f'Report("{results(name)[-1]}")' in source
    assert "print_table" not in source or name == "capacity", "the calculator prints what it also saves"


@pytest.mark.parametrize("name", SMALL)
def test_a_benchmark_saves_its_tables_for_its_place(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bench.rig.results.RESULTS", tmp_path)
    monkeypatch.setattr("sys.argv", ["bench", name, *SMALL[name].split()])
    bench = command.BENCHES[name]
    assert uvloop.run(bench.run(smoke.parse(bench, SMALL[name]), Cores())), capsys.readouterr().out
    saved = (tmp_path / f"{name}.md").read_text()
    assert re.search(r"^\| \| .+ \|\n\|---\|.*\n\| .+ \|$", saved, re.MULTILINE)
    head = saved.partition("\n")[0]
    assert re.search(r"; Python 3\.\d+\.\d+, .*; 20\d\d-\d\d-\d\d; ", head)
    assert head.endswith(f"; `python -m bench {name} {SMALL[name]}`.")


def test_every_benchmark_has_a_deadline_and_the_words_that_start_it() -> None:
    for name in command.BENCHES:
        step = command.step(name)
        assert step.deadline >= 60
        assert step.command[-1 - len(command.WORDS.get(name, []))] == name
        assert [path.stem for path in step.results] == results(name)
