"""Ready-made data adapters that show a part of the server are introduced to it before they are started.

Which part that is, the caller knows. Read next: `tlex.board`, `monitor.overview`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from penstock.adapters.api import DataAdapter
from penstock.adapters.loading import SetPlan

Introduce = Callable[[DataAdapter], None]


def introduced(plan: SetPlan, introduce: Introduce) -> SetPlan:
    """The same plan, all of whose data adapters have been introduced; also those that are made later."""
    for adapter in plan.adapter_set.data.values():
        introduce(adapter)
    return SetPlan(plan.adapter_set, {name: partial(_made, make, introduce) for name, make in plan.optional.items()})


def _made(make: Callable[[], DataAdapter], introduce: Introduce) -> DataAdapter:
    adapter = make()
    introduce(adapter)
    return adapter
