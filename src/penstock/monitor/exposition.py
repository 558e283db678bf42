"""Exposition: figures as text for Prometheus, in its own format (0.0.4) or as OpenMetrics (1.0), as it is asked for.

What figures there are is up to those who have them (`figures`). Specification: prometheus.io, "Exposition formats";
OpenMetrics 1.0.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from itertools import accumulate

from penstock.monitor.figures import Family, Kind, merged
from penstock.monitor.histogram import BOUNDS, Histogram, Labels

PLAIN = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

# Families written in one go, before others have their turn: updates of clients wait meanwhile. What all of them cost is
# in docs/performance.md, "Monitoring".
SLICE = 25

_LABEL = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
# In the plain format quotes in a help text mean themselves.
_PLAIN_HELP = str.maketrans({"\\": r"\\", "\n": r"\n"})


def chosen_format(accept: str | None) -> str:
    """The format that an Accept header asks for; the plain one where it prefers neither."""
    wishes: dict[str, float] = {}
    for wish in (accept or "").lower().split(","):
        kind, *parameters = [part.strip() for part in wish.split(";")]
        values = dict([parameter.partition("=")[::2] for parameter in parameters])
        if values.get("version", "1.0.0") != "1.0.0" and kind == "application/openmetrics-text":
            continue
        wishes[kind] = max(wishes.get(kind, 0.0), _quality(values.get("q")))
    others = max([wishes.get(kind, 0.0) for kind in ("text/plain", "text/*", "*/*")])
    wanted = wishes.get("application/openmetrics-text", 0.0)
    return OPEN_METRICS if wanted and wanted >= others else PLAIN


def _quality(text: str | None) -> float:
    try:
        quality = 1.0 if text is None else float(text)
    except ValueError:
        return 0.0
    return quality if 0.0 <= quality <= 1.0 else 0.0


async def exposition(families: Iterable[Family], format: str) -> bytes:
    """All of it; in slices, so that nothing else has to wait for long."""
    parts = []
    for number, family in enumerate(merged(families)):
        if number and number % SLICE == 0:
            await asyncio.sleep(0)
        parts.append(written(family, format))
    if format == OPEN_METRICS:
        parts.append("# EOF\n")
    # Names come from configurations: half a surrogate pair is no reason to show nothing.
    return "".join(parts).encode("utf-8", "replace")


def written(family: Family, format: str) -> str:
    """One family."""
    name, kind, help, samples, histograms = family
    is_open = format == OPEN_METRICS
    sample_name = name + SUFFIXES.get(kind, "")
    # The plain format knows no suffix but as a part of the name, and no info.
    shown_name = name if is_open else sample_name
    shown_kind = "gauge" if kind is Kind.INFO and not is_open else kind.value
    lines = [
        f"# HELP {shown_name} {help.translate(_LABEL if is_open else _PLAIN_HELP)}",
        f"# TYPE {shown_name} {shown_kind}",
        *[f"{sample_name}{_labels(labels)} {number(value)}" for value, labels in samples],
    ]
    for histogram, labels in histograms:
        lines += _buckets(name, histogram, labels)
    return "\n".join(lines) + "\n"


SUFFIXES = {Kind.COUNTER: "_total", Kind.INFO: "_info"}


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join([f'{name}="{value.translate(_LABEL)}"' for name, value in labels]) + "}"


def _buckets(name: str, histogram: Histogram, labels: Labels) -> list[str]:
    # A copy: another thread may add while they are written, and the count must be that of the last bucket.
    below = list(accumulate(histogram.counts.copy()))
    bounds = [*[f"{bound:.6g}" if bound < 1 else f"{bound:.1f}" for bound in BOUNDS], "+Inf"]
    return [
        *[
            f"{name}_bucket{_labels((*labels, ('le', bound)))} {count}"
            for bound, count in zip(bounds, below, strict=True)
        ],
        f"{name}_sum{_labels(labels)} {number(histogram.sum)}",
        f"{name}_count{_labels(labels)} {below[-1]}",
    ]


def number(value: float) -> str:
    """Whole numbers as such; both formats write infinity and what is not a number in the same way."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))
