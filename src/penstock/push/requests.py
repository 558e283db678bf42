"""What clients ask of push subscriptions, after the metadata adapter has granted it: typed, independent of protocols.

Formats and triggers have been checked and converted (`format`, `trigger`); what the registry checks is the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from penstock.push.records import Flow


class Keep(Enum):
    """The value of a parameter that is not to be changed, where None means something else."""

    KEEP = "KEEP"


@dataclass(frozen=True, slots=True)
class Activation:
    """A new subscription, or all the parameters of one that is changed."""

    flow: Flow
    format: str
    trigger: str | None = None
    # None: unlimited. The defaults of omitted ones depend on the mode, and are the door's.
    buffer_size: int | None = None
    max_frequency: float | None = None
    # The one that is changed.
    subscription: str | None = None
    # Whether one with the same base parameters is changed, if there is one.
    coalescing: bool = False


@dataclass(frozen=True, slots=True)
class Reconfiguration:
    """Changes of how a subscription notifies. What it follows is named again, as a check."""

    subscription: str
    adapter_set: str
    data_adapter: str
    group: str
    schema: str
    mode: str
    # None: as it was.
    format: str | None = None
    # None: as it was; empty: without a trigger from now on.
    trigger: str | None = None
    # None: unlimited.
    max_frequency: float | Keep | None = Keep.KEEP
