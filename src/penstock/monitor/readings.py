"""All figures at one moment, and what they have grown by since the moment before; of several processes as of one.

A process that is replaced begins at nothing, and one that is gone says nothing: neither makes a sum go backwards. What
is made of it is in `sampler`.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.monitor.figures import HUB, WORKER, Family, Sample
from penstock.monitor.histogram import Labels


class Readings:
    """Of samples; histograms are looked at by `Span`. Names that nobody has said are 0."""

    def __init__(self) -> None:
        self._families: dict[str, tuple[Sample, ...]] = {}
        self._samples: dict[str, dict[Labels, float]] = {}
        # Without those of which nothing has changed.
        self._grown: dict[str, dict[Labels, float]] = {}
        # The last of each, also of processes that are gone; and what those had that were replaced.
        self._last: dict[str, dict[Labels, float]] = {}
        self._replaced: dict[str, float] = {}
        self._known: set[str] = set()

    def take(self, families: Iterable[Family]) -> None:
        """The next moment; families of one name are one."""
        is_first, known = not self._known, self._known.copy()
        families_before, samples_before = self._families, self._samples
        self._families = {}
        self._samples = {}
        self._grown = {}
        for name, _, _, samples, _ in families:
            self._families[name] = samples
            if samples == families_before.get(name):
                # Most of them, most of the time.
                self._samples[name] = samples_before[name]
                continue
            last = self._last.setdefault(name, {})
            now = self._samples[name] = {}
            grown = self._grown[name] = {}
            for value, labels in samples:
                now[labels] = value
                before = last.get(labels)
                if before is None:
                    worker = _worker(labels)
                    self._known.add(worker)
                    # A process that is met later may have counted for long: it counts from now on.
                    before = 0.0 if is_first or worker in known else value
                elif before == value:
                    grown[labels] = 0.0
                    continue
                if value < before:
                    self._replaced[name] = self._replaced.get(name, 0.0) + before
                    before = value
                grown[labels] = value - before
                last[labels] = value

    @property
    def processes(self) -> int:
        """Those that say how many threads they have."""
        return len(self._samples.get("penstock_process_threads", ()))

    def sum(self, name: str, label: str | None = None) -> float:
        """Of all samples, or of those that have a value for the one label that they have beside their worker."""
        samples = self._samples.get(name, {})
        if label is None:
            return sum(samples.values())
        return sum([value for labels, value in samples.items() if _value(labels) == label])

    def own(self, name: str) -> float:
        """Of the process that has the adapters: what there is once, and others have copies of."""
        return sum([value for labels, value in self._samples.get(name, {}).items() if _is_own(labels)])

    def least(self, name: str) -> float:
        return min(self._samples.get(name, {}).values(), default=0.0)

    def largest(self, name: str) -> float:
        return max(self._samples.get(name, {}).values(), default=0.0)

    def total(self, name: str) -> float:
        """Since the start: what processes have counted that are no more is in it."""
        return sum(self._last.get(name, {}).values()) + self._replaced.get(name, 0.0)

    def grown(self, name: str) -> float:
        return sum(self._grown.get(name, {}).values())

    def own_grown(self, name: str) -> float:
        return sum([value for labels, value in self._grown.get(name, {}).items() if _is_own(labels)])


def _worker(labels: Labels) -> str:
    """Empty if there is only one process."""
    return labels[-1][1] if labels and labels[-1][0] == WORKER else ""


def _is_own(labels: Labels) -> bool:
    return _worker(labels) in ("", HUB)


def _value(labels: Labels) -> str | None:
    others = [value for name, value in labels if name != WORKER]
    return others[0] if len(others) == 1 else None
