"""The adapter API: data adapters publish items, a metadata adapter decides who may see what.

Subclass `DataAdapter` and `MetadataAdapter`; `AdapterSet` puts them together. The demo sets in `demo` are examples to
read.
"""

from penstock.adapters.api import AdapterSet, DataAdapter, MetadataAdapter
from penstock.kernel.errors import Reason, Refusal
from penstock.kernel.ports import ClientFacts, Customizer, DeviceFacts, PushFacts

__all__ = [
    "AdapterSet",
    "ClientFacts",
    "Customizer",
    "DataAdapter",
    "DeviceFacts",
    "MetadataAdapter",
    "PushFacts",
    "Reason",
    "Refusal",
]
