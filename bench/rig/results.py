"""Where figures go: to the terminal, and as Markdown into `bench/.build/results`, for `write`.

A benchmark makes a Report, adds tables and remarks, and saves it in the end.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence

from bench.rig.build import BUILD
from bench.rig.machine import Others, cores, facts, not_quiet, share_now
from bench.rig.table import print_table

RESULTS = BUILD / "results"


class Report:
    """`name` is that of the benchmark."""

    # Miniatures leave the results of the last full run alone.
    is_kept = True

    def __init__(self, name: str) -> None:
        self._name = name
        self._before = share_now() if self.is_kept else 0.0
        if busy := not_quiet({"before": self._before}):
            print(f"{name}{busy}", flush=True)
        self._others = Others()
        self._parts: list[str] = []
        self.good = True

    def table(self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """The first cell of a row is its name; `columns` has no title for the names."""
        print_table(title, columns, rows)
        lines = [f"**{title}**", "", f"| | {' | '.join(columns)} |", f"|{'---|' * (len(columns) + 1)}"]
        lines += [f"| {' | '.join(cells)} |" for cells in rows]
        self._parts.append("\n".join(lines))

    def remark(self, text: str) -> None:
        print(f"  {text}")
        self._parts.append(text)

    def failure(self, where: str, reason: str) -> None:
        """Something was wrong or missing: the run does not count as good."""
        self.good = False
        self.remark(f"FAILED at {where}: {reason}")

    def failures(self, where: str, reasons: Counter[str]) -> None:
        """Reasons with their numbers, the most frequent first; nothing when there are none."""
        for reason, count in reasons.most_common(10):
            self.failure(where, f"{count:,} × {reason}")

    def save(self) -> bool:
        """Write what there is; returns whether all was right."""
        if self.is_kept:
            RESULTS.mkdir(parents=True, exist_ok=True)
            head = self._head()
            print(head, flush=True)
            (RESULTS / f"{self._name}.md").write_text("\n\n".join([head, *self._parts]) + "\n")
        return self.good

    def is_quiet(self) -> bool:
        """Whether others have left the machine alone until now."""
        return not self._busy()

    def _busy(self) -> str:
        return not_quiet({"before": self._before, "during the run": self._others.share()})

    def _head(self) -> str:
        """Where, when and how: the machine, whether it was quiet before and meanwhile, the day, the command."""
        busy = self._busy()
        command = " ".join(["python -m bench", *sys.argv[1:]])
        return f"{facts(cores())}{busy}; {time.strftime('%Y-%m-%d', time.gmtime())}; `{command}`."
