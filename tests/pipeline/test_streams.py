"""What people see of a process that runs Spark: on a terminal figures that are rewritten, elsewhere lines alone."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import sys
from pathlib import Path
from penstock.config import load
from penstock.log import get
from penstock.pipeline.streams import Streams
streams = Streams(Path(sys.argv[1]), load(None, {}).config)
streams.announce("running")
streams.show("candles 42/s, 0.2 s behind")
streams.show("candles 41/s, 0.1 s behind " + "and more " * 20)
get("penstock.pipeline.runner").warning("query is behind")
print("what Spark prints", flush=True)
get("py4j.java_gateway").error("what py4j logs")
streams.show("candles 40/s")
streams.give_back()
print("the end")
"""

PATIENCE = 30.0


def printed_on_a_terminal(command: list[str]) -> str:
    """By a process whose output and errors are a terminal, one that does not say how wide it is."""
    master, terminal = pty.openpty()
    with subprocess.Popen(command, stdout=terminal, stderr=terminal, stdin=terminal) as process:
        os.close(terminal)
        got = b""
        while True:
            try:
                more = os.read(master, 65_536)
            except OSError:
                # The last who had it open is gone.
                break
            got += more
        assert process.wait(PATIENCE) == 0, got
    os.close(master)
    return got.decode()


def test_on_a_terminal_figures_are_one_line_that_is_rewritten(tmp_path: Path) -> None:
    written = printed_on_a_terminal([sys.executable, "-c", SCRIPT, str(tmp_path / "spark.log")])
    first, second, *rest = written.split("\r\n")
    assert first == "\x1b[Kpipeline: running"
    # Each begins where the one before began, and whatever else is written as well.
    one, two, line = second.split("\r")
    assert one == "\x1b[Kpipeline: candles 42/s, 0.2 s behind"
    assert two.startswith("\x1b[Kpipeline: candles 41/s, 0.1 s behind and more")
    assert len(two.removeprefix("\x1b[K")) < 80
    assert line.startswith("\x1b[K")
    assert line.endswith("query is behind")
    assert rest == ["\x1b[Kpipeline: candles 40/s\r\x1b[Kthe end", ""]


def test_elsewhere_there_are_lines_and_no_figures(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "spark.log")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    assert done.stdout == "pipeline: running\nthe end\n"
    (line,) = done.stderr.splitlines()
    assert line.endswith("penstock.pipeline.runner query is behind")


def test_what_spark_and_its_libraries_say_is_in_a_file(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "spark.log")]
    subprocess.run(command, capture_output=True, timeout=PATIENCE, check=True)
    said = (tmp_path / "spark.log").read_text()
    assert "what Spark prints" in said
    assert "what py4j logs" in said
    assert "candles" not in said
