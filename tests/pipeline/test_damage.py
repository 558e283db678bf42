"""Damaged places of a journal reach people: noted by the tasks that met them, told by the runner and by the command."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.journal.damage import Damage
from penstock.pipeline import reports
from penstock.pipeline.place import Place
from penstock.pipeline.runner import DONE, Runner, Task
from penstock.pipeline.status import QueryStatus, read, write
from tests.pipeline.test_runner import PATIENCE, QUICK, Job, Spark
from tests.pipeline.test_source import damage
from tests.pipeline.world import make_journal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST = Damage("00000001.segment", 8_192, 500, 11, 20, "checksum")
SECOND = Damage("00000001.segment", 9_000, 12, None, None, "checksum")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    found = Place(tmp_path, "http://127.0.0.1:1")
    found.journal.mkdir()
    found.status_dir.mkdir()
    return found


def test_the_runner_tells_each_place_once_and_counts_them(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    reports.tell(place.damage, FIRST)
    job = Job()
    runner = Runner(
        *(Spark(), [Task("history", job.start)], place.journal, place.status_dir),
        restart=True,
        damage=place.damage,
        pace=QUICK,
    )
    codes: list[int] = []
    thread = threading.Thread(target=lambda: codes.append(runner.run()), daemon=True)
    thread.start()

    def until_counted(count: int) -> None:
        for _ in range(int(PATIENCE / 0.005)):
            if [found.status.damaged for found in read(place.status_dir)] == [count]:
                return
            threading.Event().wait(0.005)
        raise AssertionError(read(place.status_dir))

    until_counted(1)
    reports.tell(place.damage, SECOND)
    reports.tell(place.damage, FIRST)
    until_counted(2)
    runner.stop()
    thread.join(PATIENCE)
    assert codes == [DONE]
    told = [record for record in caplog.records if record.message == "journal damaged"]
    assert [record.levelname for record in told] == ["ERROR", "ERROR"]
    assert [record.__dict__["fields"]["place"] for record in told] == [str(FIRST), str(SECOND)]


def test_notes_that_are_none_are_passed_over(tmp_path: Path) -> None:
    reports.tell(tmp_path, FIRST)
    (tmp_path / "broken.damage.json").write_text("{")
    (tmp_path / "foreign.damage.json").write_text('{"file": 7}')
    assert reports.told(tmp_path) == [FIRST]


def test_status_shows_what_could_not_be_read(place: Place) -> None:
    write(place.status_dir, QueryStatus(name="history", state="stopped", damaged=2))
    reports.tell(place.damage, FIRST)
    reports.tell(place.damage, SECOND)
    arguments = ["pipeline", "status", "--data-dir", str(place.data_dir)]
    lines = CliRunner().invoke(app, arguments).stdout.splitlines()
    assert lines[2:] == [
        f"The journal is damaged in 2 places, which queries step over; notes are in {place.damage}:",
        f"    {FIRST}",
        f"    {SECOND}",
    ]
    (found,) = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)
    assert found["damaged"] == 2


def test_status_shows_the_first_of_many_places(place: Place) -> None:
    write(place.status_dir, QueryStatus(name="history", state="stopped"))
    for number in range(25):
        reports.tell(place.damage, Damage("00000001.segment", 8_192 + number, 1, number, number, "checksum"))
    lines = CliRunner().invoke(app, ["pipeline", "status", "--data-dir", str(place.data_dir)]).stdout.splitlines()
    assert len(lines) == 2 + 1 + 10 + 1
    assert lines[-1] == "    … and 15 more"


def test_jobs_leave_notes_where_the_runner_looks_for_them(spark: SparkSession, tmp_path: Path) -> None:
    from penstock.pipeline.jobs import history

    path = make_journal(tmp_path / "journal", [("a", "update", f"value-{n}-") for n in range(1, 31)], frame=10)
    damage(path, 15)
    place = Place(tmp_path, "http://127.0.0.1:1")
    history.start(spark, place, history.Settings(), once=True).awaitTermination()
    assert [(note.first, note.last) for note in reports.told(place.damage)] == [(11, 20)]
