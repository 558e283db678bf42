"""docs/pipeline.md, followed to the letter: its files are written, its commands typed, its chart opened in a browser.

The words behind the language of a block are those of docs/adapters.md; `spark` and `plant` are terminals, too. What
stands below the first part is not a tutorial, and looked at in `test_pipeline_pages`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Page

from penstock.history.reader import History
from penstock.journal.reader import JournalReader
from tests.e2e.test_adapters_tutorial import BLOCK, START, alike
from tests.e2e.test_adapters_tutorial import Reader as Person
from tests.support.browser import Watch, chromium
from tests.support.process import READY

PAGE = Path(__file__).parents[2] / "docs" / "pipeline.md"
REFERENCE = "## The source"

# Seconds for Spark to come up and publish; it needs some ten, and more on a machine that has other work.
SPARK_PATIENCE = 300.0
# Milliseconds for some minutes more to arrive at the page.
PATIENCE = 120_000
# Seconds for all that a process leaves behind to end.
END_PATIENCE = 30.0

pytestmark = [pytest.mark.spark, pytest.mark.browser, pytest.mark.timeout(480)]


def blocks() -> list[tuple[str, str, str]]:
    found: list[tuple[str, str, str]] = BLOCK.findall(PAGE.read_text().partition(REFERENCE)[0])
    return found


class SparkProgram:
    """The program of the page, which is a JVM as well. What both say is in a file, for whoever wants to know why."""

    def __init__(self, folder: Path, command: str, **environment: str) -> None:
        self._said = folder / "averages.log"
        with self._said.open("w") as said:
            self._process = subprocess.Popen(
                ["sh", "-c", f"exec {command}"],
                cwd=folder,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
            )

    def check(self) -> None:
        assert self._process.poll() is None, self._said.read_text()

    def close(self) -> None:
        """Ctrl-C, which must be enough for all of it."""
        if self._is_there():
            os.killpg(self._process.pid, signal.SIGINT)
        try:
            assert self._process.wait(END_PATIENCE) == 0, self._said.read_text()
            assert self._said.read_text().splitlines()[-1] == "penstock: stopping Spark…"
            deadline = time.monotonic() + END_PATIENCE
            while self._is_there():
                assert time.monotonic() < deadline, "the JVM is left behind"
                threading.Event().wait(0.05)
        finally:
            if self._is_there():
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _is_there(self) -> bool:
        try:
            os.killpg(self._process.pid, 0)
        except ProcessLookupError:
            return False
        return True


class Plant(Person):
    """Somebody who follows the page in an empty folder."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        super().__init__(folder, stack)
        self.spark: SparkProgram | None = None

    def follow(self, language: str, place: str, text: str) -> None:
        if (language, place) == ("sh", "spark"):
            self.spark = SparkProgram(self.folder, text.strip(), PATH=self._path)
            self._stack.callback(self.spark.close)
        elif (language, place) == ("sh", "stream"):
            self.wait_for_items()
            super().follow(language, place, text)
        else:
            super().follow(language, place, text)

    def start(self, text: str) -> None:
        """The same command, on free ports the first time."""
        assert text.strip() == START
        options = f"--port {self.ports['8080'] or 0} --api-port {self.ports['8081'] or 0}"
        server = self._terminals["server"] = self.terminal(f"exec {START} {options}")
        match = READY.fullmatch(server.line())
        assert match is not None
        self.ports = {"8080": match[2], "8081": match[4]}

    def restart(self) -> None:
        self._terminals["server"].interrupt()
        self.start(START)

    def published(self, machine: str) -> list[str]:
        """The minutes of a machine, in the order in which they were journaled."""
        data = self.folder / "penstock-data"
        events = History(data / "journal", data / "lake").events(f"PLANT/AVERAGES/temperature.{machine}")
        return [json.loads(event.value or "")["time"][11:16] for event in events]

    def wait_for_items(self) -> None:
        """`Once Spark is up`, as the page says: the journal has six averages and the mark of their batch."""
        journal = JournalReader(self.folder / "penstock-data" / "journal")
        deadline = time.monotonic() + SPARK_PATIENCE
        while journal.poll() < 7:
            assert self.spark is not None
            self.spark.check()
            assert time.monotonic() < deadline
            threading.Event().wait(0.05)

    def find(self, place: str, shown: list[str]) -> None:
        """All that is shown, figures included, for they are those of the file."""
        for line in shown:
            while (printed := self._terminals[place].line()) != line:
                assert printed.split(",")[0] in ("CONOK", "SERVNAME", "CLIENTIP", "NOOP", "CONS", "PROBE"), printed


def minute(number: int) -> str:
    """Of those that the readings are about, as the chart writes it."""
    return f"{6 + number // 60:02}:{number % 60:02}"


def points(page: Page, machine: str) -> int:
    count: int = page.evaluate(f"document.querySelector('#{machine}').points.length")
    return count


def test_from_a_csv_file_to_a_live_chart(tmp_path: Path) -> None:
    found = blocks()
    assert [place for _, place, _ in found if "." in place] == [
        "readings.csv",
        "penstock.toml",
        "token.txt",
        "averages.py",
        "chart.html",
        "plant.py",
    ]
    plant = next(number for number, block in enumerate(found) if block[:2] == ("sh", "plant"))
    with ExitStack() as stack:
        reader = Plant(tmp_path, stack)
        for block in found[:plant]:
            reader.follow(*block)
        watch = Watch(stack.enter_context(stack.enter_context(chromium()).new_context()))
        page = watch.page
        page.goto((tmp_path / "chart.html").as_uri())
        # The file's three minutes, from the snapshot.
        page.wait_for_function("document.querySelector('#press')?.points.length === 3")
        page.wait_for_function("document.querySelector('#lathe')?.points.length === 3")
        assert page.text_content("#legend") == "lathe 70.75 °C · press 65.25 °C at 06:02"
        reader.follow(*found[plant])
        # And then minute by minute: through Spark, the server and the browser.
        page.wait_for_function("document.querySelector('#press').points.length >= 6", timeout=PATIENCE)
        assert points(page, "lathe") >= 6
        assert alike(page.text_content("#legend") or "") == "lathe N °C · press N °C at N:N"
        assert watch.complaints() == []
        # "Stop the server instead: the program waits, the page too, and both carry on."
        reader.restart()
        later = minute(len(list((tmp_path / "readings").glob("*.csv"))) + 5)
        page.wait_for_function(
            f"document.querySelector('#legend').textContent.slice(-5) >= '{later}'", timeout=PATIENCE
        )
        assert watch.complaints(server_was_away=True) == []
        # Each minute is in one file, and so has been published once, whatever was stopped.
        minutes = reader.published("press")
        assert minutes == [minute(number) for number in range(len(minutes))]
    assert found[plant + 1 :] == [], "what follows the last step is not followed"
