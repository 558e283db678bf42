"""Who is replaced, after how many starts somebody is given up, and what becomes of the server then."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

PATIENCE = 60.0


class Supervised:
    """The program `supervised`; `plan` says what each start of a worker comes to."""

    def __init__(self, folder: Path, edges: int = 1, **plan: str) -> None:
        for name, words in plan.items():
            (folder / name).write_text(words)
        self.errors = folder / "errors"
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.cluster.supervised", str(folder), str(edges)],
                cwd=Path(__file__).parents[2],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self) -> tuple[int, str]:
        output, _ = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, output

    def stop(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGTERM)
        return self.end()

    def log(self) -> str:
        return self.errors.read_text()


def test_all_are_ready_before_it_says_so_and_what_comes_before_the_stop_is_done(tmp_path: Path) -> None:
    run = Supervised(tmp_path, edges=2)
    assert run.line() == "ready"
    assert run.stop() == (0, "before stop\n")
    assert " ERROR " not in run.log()
    # Edges know the ports of the hub, and lines of workers say whose they are.
    assert run.log().count("begun worker=w") == 2
    assert 'word=ready ports="{\\"api\\":4711}"' in run.log()


def test_a_worker_that_dies_is_replaced_as_often_as_it_is_ready_before(tmp_path: Path) -> None:
    run = Supervised(tmp_path, w1="ready-die " * 8, hub="ready-die ready-die")
    assert run.line() == "ready"
    while run.log().count("begun worker=w1") < 9 or run.log().count("begun worker=hub") < 3:
        assert run.process.poll() is None
    assert run.stop()[0] == 0
    assert "no further attempts" not in run.log()
    assert run.log().count('worker ended and is replaced worker=w1 ended="exit code 3"') == 8


def test_an_edge_that_cannot_be_started_is_given_up_and_the_others_go_on(tmp_path: Path) -> None:
    run = Supervised(tmp_path, edges=2, w1="ready-wait die die die fail die die")
    assert run.line() == "ready"
    (tmp_path / "die").touch()
    while "no further attempts" not in run.log():
        assert run.process.poll() is None
    assert "worker cannot be started, no further attempts worker=w1 starts=5 " in run.log()
    assert 'worker ended and is replaced worker=w1 reason="it is Monday"' in run.log()
    # The hub is told, because it is asked for the status.
    while "heard worker=hub what=WorkerGivenUp" not in run.log():
        assert run.process.poll() is None
    assert run.stop() == (0, "before stop\n")
    assert run.log().count("begun worker=w1") == 6


def test_the_next_hub_is_told_of_workers_that_were_given_up_before(tmp_path: Path) -> None:
    run = Supervised(tmp_path, edges=2, w1="ready-wait die die die die die", hub="ready-wait-longer")
    assert run.line() == "ready"
    (tmp_path / "die").touch()
    while "no further attempts" not in run.log():
        assert run.process.poll() is None
    (tmp_path / "die-later").touch()
    while "given_up=" not in run.log():
        assert run.process.poll() is None
    (begun,) = [line for line in run.log().splitlines() if "given_up=" in line]
    assert "worker=hub" in begun
    assert "w1" in begun.partition("given_up=")[2]
    assert run.stop() == (0, "before stop\n")


def test_a_hub_that_cannot_be_replaced_ends_the_server(tmp_path: Path) -> None:
    run = Supervised(tmp_path, hub="ready-wait die die die die die")
    assert run.line() == "ready"
    (tmp_path / "die").touch()
    assert run.end() == (1, "before stop\n")
    assert "worker cannot be started, no further attempts worker=hub starts=5 " in run.log()


@pytest.mark.parametrize("name", ["hub", "w1"])
def test_a_reason_at_the_first_start_ends_it_at_once(tmp_path: Path, name: str) -> None:
    run = Supervised(tmp_path, 1, **{name: "fail"})
    assert run.end() == (1, "")
    errors = [line for line in run.log().splitlines() if " ERROR " in line]
    assert len(errors) == 1
    assert errors[0].endswith('cannot start reason="it is Monday"')


@pytest.mark.parametrize("name", ["hub", "w1"])
def test_deaths_at_the_first_start_end_it_after_five(tmp_path: Path, name: str) -> None:
    run = Supervised(tmp_path, 1, **{name: "die die die die die"})
    assert run.end() == (1, "")
    assert run.log().count(f"begun worker={name} ") == 5
