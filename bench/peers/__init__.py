"""The servers that are measured side by side: for each a module with how it is got and how it is started.

What they speak is known to the load: bench/native/peers.c. A peer that cannot be had says why and is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.rig.child import Program


@dataclass(frozen=True, slots=True, eq=False)
class Peer:
    """`install` returns the version, or raises Unavailable; `start` gets a directory of its own and the core to run on.

    `options` are those that the load takes for it.
    """

    name: str
    speaks: str
    about: str
    install: Callable[[], str]
    start: Callable[[Path, int | None], Program]
    options: Mapping[str, Any] = field(default_factory=dict)
