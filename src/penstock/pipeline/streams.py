"""What people see of a process that runs Spark: its own lines, and on a terminal a line of figures that is rewritten.

Everything else that the process and its children print is Spark's, and goes to a file. Not here: what is said (runner).
"""

from __future__ import annotations

import io
import logging
import os
import sys
from pathlib import Path

from penstock import log
from penstock.config import Config
from penstock.durable import OWNER_FILE

# What Spark and its workers have to say; older words are dropped when there are too many.
SPARK_LOG = "spark.log"
SPARK_LOG_BYTES = 10 * 1024 * 1024

# Empties the row of a terminal from the cursor on.
CLEAR = "\x1b[K"

# Columns of a terminal that does not say.
USUAL_WIDTH = 80


class Streams:
    """From now on the process's output belongs to Spark and goes to a file; only our own lines reach people."""

    def __init__(self, path: Path, config: Config) -> None:
        if path.exists() and path.stat().st_size > SPARK_LOG_BYTES:
            path.replace(path.with_suffix(".log.1"))
        sys.stdout.flush()
        sys.stderr.flush()
        self._output, self._errors = os.dup(1), os.dup(2)
        self._terminal = os.isatty(self._output)
        self._people = _opened(self._output)
        spark = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, OWNER_FILE)
        os.dup2(spark, 1)
        os.dup2(spark, 2)
        os.close(spark)
        # The log keeps the stream that it finds now; whatever else is printed in this process is Spark's.
        own, sys.stderr = sys.stderr, _opened(self._errors)
        # Not into the log's file: that belongs to the server, which moves it away when it is full.
        log.configure(config.log.level, config.log.format, config.log.max_repeats, levels=config.log.levels)
        sys.stderr = own
        # Libraries (py4j above all) log whole stack traces of what we tell in a line.
        logging.getLogger("py4j").setLevel(logging.WARNING)
        root = logging.getLogger()
        for handler in root.handlers:
            handler.addFilter(logging.Filter("penstock"))
        others = logging.FileHandler(path, encoding="utf-8")
        others.addFilter(lambda record: not record.name.startswith("penstock"))
        root.addHandler(others)

    def announce(self, text: str) -> None:
        """Progress for people, on standard output."""
        self._print(f"pipeline: {text}\n")

    def result(self, text: str) -> None:
        """A line of what was asked for, as it is; raises BrokenPipeError when nobody reads it any more."""
        self._people.write(f"{text}\n")
        self._people.flush()

    def show(self, text: str) -> None:
        """Figures, in place of those before; only on a terminal. Lines of others are written over them."""
        if self._terminal:
            # A row that is wrapped could not be rewritten.
            width = self._width()
            row = f"pipeline: {text}"
            self._print((row if len(row) < width else f"{row[: width - 2]}…") + "\r")

    def give_back(self) -> None:
        """The output is the process's again, without figures."""
        if self._terminal:
            self._print("")
        os.dup2(self._output, 1)
        os.dup2(self._errors, 2)

    def _width(self) -> int:
        """Of the terminal, which may say nothing of it, or be gone."""
        try:
            return os.get_terminal_size(self._output).columns or USUAL_WIDTH
        except OSError:
            return USUAL_WIDTH

    def _print(self, text: str) -> None:
        try:
            self._people.write(text)
            self._people.flush()
        except OSError:
            # Nobody reads it.
            return


class _OverFigures(io.TextIOWrapper):
    """Whatever is written to the terminal begins with an empty row."""

    def write(self, text: str, /) -> int:
        return super().write(CLEAR + text)


def _opened(descriptor: int) -> io.TextIOWrapper:
    """A stream of its own to where a descriptor leads; on a terminal one that clears figures away."""
    kind = _OverFigures if os.isatty(descriptor) else io.TextIOWrapper
    stream = os.fdopen(os.dup(descriptor), "wb")
    return kind(stream, encoding="utf-8", errors="replace", line_buffering=True)
