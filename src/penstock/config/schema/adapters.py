"""Adapter sets and their adapters: `[adapters.NAME]` and what is under it.

Not here: the journal that items go to (journal.py); what adapters do with their parameters is theirs to check.
Read next: adapters/loading.py, which makes adapters of these tables.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from penstock.config.schema.values import AdapterPath, Line, Positive, about


class MetadataSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The metadata adapter of the set: it decides who may see what. Without this table it is `literal`."""

    adapter: Annotated[AdapterPath, about("The class to import, or the name of a ready-made adapter.")] = "literal"
    parameters: Annotated[
        Mapping[str, Any],
        Meta(extra={"allowed": "a table"}),
        about("Keyword arguments of the class."),
    ] = {}

    def __post_init__(self) -> None:
        force_setattr(self, "parameters", MappingProxyType(self.parameters))

    def __hash__(self) -> int:
        return hash((self.adapter, *self.parameters))


class JournaledSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which events of the data adapter are journaled. Without this table, none are."""

    items: Annotated[
        tuple[Line, ...],
        Meta(extra={"allowed": 'a list of item names, with "*" for any characters'}),
        about(
            "Items that are journaled. An item named without `*` is subscribed at the adapter from the start, so "
            "that its history has no gaps. A pattern with `*` journals what is published anyway."
        ),
    ] = ()
    policy: Annotated[
        Literal["ack", "interval", "off"],
        about(
            "When events are written to the disk: `ack` at once, `interval` soon, `off` when the operating system "
            "decides."
        ),
    ] = "interval"


class DataSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A data adapter of the set. Clients ask for it by this name; those that name none get `DEFAULT`."""

    adapter: Annotated[AdapterPath, about("The class to import, or the name of a ready-made adapter.")]
    parameters: Annotated[
        Mapping[str, Any],
        Meta(extra={"allowed": "a table"}),
        about("Keyword arguments of the class."),
    ] = {}
    optional: Annotated[
        bool,
        about(
            "Whether the set is served without this adapter if the adapter fails to start; the start is then retried."
        ),
    ] = False
    journal: JournaledSection = JournaledSection()

    def __post_init__(self) -> None:
        force_setattr(self, "parameters", MappingProxyType(self.parameters))

    def __hash__(self) -> int:
        return hash((self.adapter, *self.parameters, self.optional, self.journal))


class AdapterSetSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An adapter set. Clients ask for it by this name."""

    timeout_millis: Annotated[
        Positive, about("Time-out of calls to the metadata adapter; after it, the client's request is refused.")
    ] = 10_000
    metadata: MetadataSection = MetadataSection()
    data: Mapping[Line, DataSection] = {}

    def __post_init__(self) -> None:
        force_setattr(self, "data", MappingProxyType(self.data))

    def __hash__(self) -> int:
        return hash((self.timeout_millis, self.metadata, *self.data.items()))
