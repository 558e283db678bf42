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
    """What the data adapter publishes and the journal keeps. Without this table it is nothing."""

    items: Annotated[
        tuple[Line, ...],
        Meta(extra={"allowed": 'a list of item names, with "*" for any characters'}),
        about(
            "Items that are journaled. One named without `*` is kept subscribed at the adapter from the start, so that"
            " its history has no gaps; a pattern journals what is published anyway."
        ),
    ] = ()
    policy: Annotated[
        Literal["ack", "interval", "off"],
        about("When events are on the disk: `ack` at once, `interval` soon, `off` when the system likes."),
    ] = "interval"


class DataSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A data adapter of the set, under the name that clients ask for; those that ask for none get `DEFAULT`."""

    adapter: Annotated[AdapterPath, about("The class to import, or the name of a ready-made adapter.")]
    parameters: Annotated[
        Mapping[str, Any],
        Meta(extra={"allowed": "a table"}),
        about("Keyword arguments of the class."),
    ] = {}
    optional: Annotated[
        bool, about("Whether the set is served without the adapter when it fails to start; it is then tried again.")
    ] = False
    journal: JournaledSection = JournaledSection()

    def __post_init__(self) -> None:
        force_setattr(self, "parameters", MappingProxyType(self.parameters))

    def __hash__(self) -> int:
        return hash((self.adapter, *self.parameters, self.optional, self.journal))


class AdapterSetSection(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An adapter set, under the name that clients ask for."""

    timeout_millis: Annotated[
        Positive, about("Calls of the metadata adapter that take longer are given up, and the client is refused.")
    ] = 10_000
    metadata: MetadataSection = MetadataSection()
    data: Mapping[Line, DataSection] = {}

    def __post_init__(self) -> None:
        force_setattr(self, "data", MappingProxyType(self.data))

    def __hash__(self) -> int:
        return hash((self.timeout_millis, self.metadata, *self.data.items()))
