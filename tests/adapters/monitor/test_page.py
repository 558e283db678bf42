"""docs/monitor.md: its example is played as it stands, and its tables have the items and fields that there are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from penstock.services.overview import LIBRARIES
from tests.adapters.monitor import test_adapter
from tests.support.process import READY

PAGE = (Path(__file__).parents[3] / "docs" / "monitor.md").read_text("utf-8")
BLOCKS = re.findall(r"^```([^\n]*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_example_works_as_it_stands(tmp_path: Path) -> None:
    (configuration,) = [text for info, text in BLOCKS if info == "toml penstock.toml"]
    serving, watching = [text for info, text in BLOCKS if info == "sh"]
    (tmp_path / "penstock.toml").write_text(configuration)
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    serving = serving.replace("--config penstock.toml", "--config penstock.toml --port 0 --api-port 0")
    with subprocess.Popen(
        ["sh", "-ec", serving.replace("penstock serve", "exec penstock serve")],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        ready = next(found for line in process.stdout if (found := READY.match(line)))
        at = f"--url http://127.0.0.1:{ready[2]}"
        done = subprocess.run(
            ["sh", "-e"],
            input=watching.replace("--adapter MONITOR", f"--adapter MONITOR {at}"),
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=50,
        )
        process.terminate()
        process.communicate(timeout=20)
    assert done.returncode == 0, done.stderr
    statistics, again, session = done.stdout.splitlines()
    assert "CLIENTS.SESSIONS" in statistics
    assert again
    assert "otto" in session
    assert "127.0.0.1" in session


def named_in(item: str) -> set[str]:
    """The fields that the page's row of an item names."""
    (row,) = re.findall(rf"^\| [^|]*`{item}`[^|]*\|([^\n]*)$", PAGE, re.MULTILINE)
    return set(re.findall(r"`([^`]+)`", row.rpartition("|")[0]))


def test_the_page_names_every_field_of_the_tables() -> None:
    assert set(test_adapter.SESSION.split()) - {"key", "command"} == named_in("monitor_sessions")
    assert set(test_adapter.LINE) <= named_in("monitor_log_output") | named_in("monitor_log_error")


def test_the_page_says_that_there_is_a_field_for_each_library() -> None:
    assert "MAX_…API" in named_in("monitor_details")
    assert len(LIBRARIES) == 17
