"""An adapter set tried before it is started: what `running` would fail with, without starting anything.

Not here: making the adapters (loading.py). Read next: docs/configuration.md, "Checking and showing".
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import isawaitable

from penstock.adapters.api import Adapter, DataAdapter
from penstock.adapters.loading import SetPlan
from penstock.adapters.running import StartFailure, data_failure, metadata_failure


async def try_set(plan: SetPlan) -> list[str]:
    """What is wrong with the optional data adapters; raises StartFailure in the words of a start."""
    adapters = plan.adapter_set
    await _try(adapters.metadata, lambda error: metadata_failure(adapters.name, error))
    for name, adapter in adapters.data.items():
        await _try_data(adapters.name, name, adapter)
    complaints = []
    for name, make in plan.optional.items():
        try:
            await _try_data(adapters.name, name, make())
        except StartFailure as failure:
            complaints.append(str(failure))
        except Exception as error:
            # A start would log it, and try again.
            complaints.append(str(error))
    return complaints


async def _try_data(adapter_set: str, name: str, adapter: DataAdapter) -> None:
    await _try(adapter, lambda error: data_failure(adapter_set, name, error))


async def _try(adapter: Adapter, failure: Callable[[Exception], StartFailure]) -> None:
    try:
        outcome = adapter.check_start()
        if isawaitable(outcome):
            await outcome
    except Exception as error:
        raise failure(error) from error
