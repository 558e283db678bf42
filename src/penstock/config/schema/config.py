"""The whole configuration, one field for each section.

Not here: the sections, a module for each group of them beside this one.
Read next: values.py for the sorts of value, keys.py, which walks over all of it.
"""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import force_setattr

from penstock.config.schema.adapters import AdapterSetSection
from penstock.config.schema.admin import AdminSection
from penstock.config.schema.cluster import ClusterSection
from penstock.config.schema.ditto import DittoSection
from penstock.config.schema.journal import JournalSection
from penstock.config.schema.lake import LakeSection
from penstock.config.schema.limits import LimitsSection
from penstock.config.schema.listeners import ListenerSection
from penstock.config.schema.pages import PagesSection
from penstock.config.schema.pipeline import PipelineSection
from penstock.config.schema.ports import ApiSection, CorsSection, StreamSection
from penstock.config.schema.push import PushSection
from penstock.config.schema.server import DemoSection, LogSection, ServerSection
from penstock.config.schema.session import SessionSection
from penstock.config.schema.tlex import TlexSection
from penstock.config.schema.values import Line


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole configuration. `Config()` is the defaults; one built by hand is not checked."""

    server: ServerSection = ServerSection()
    stream: StreamSection = StreamSection()
    api: ApiSection = ApiSection()
    listeners: Mapping[Line, ListenerSection] = {}
    limits: LimitsSection = LimitsSection()
    session: SessionSection = SessionSection()
    cors: CorsSection = CorsSection()
    pages: PagesSection = PagesSection()
    log: LogSection = LogSection()
    demo: DemoSection = DemoSection()
    journal: JournalSection = JournalSection()
    lake: LakeSection = LakeSection()
    pipeline: PipelineSection = PipelineSection()
    tlex: TlexSection = TlexSection()
    ditto: DittoSection = DittoSection()
    admin: AdminSection = AdminSection()
    push: PushSection = PushSection()
    cluster: ClusterSection = ClusterSection()
    adapters: Mapping[Line, AdapterSetSection] = {}

    def __post_init__(self) -> None:
        force_setattr(self, "listeners", MappingProxyType(self.listeners))
        force_setattr(self, "adapters", MappingProxyType(self.adapters))

    def __hash__(self) -> int:
        fixed = [getattr(self, name) for name in self.__struct_fields__ if name not in ("adapters", "listeners")]
        return hash((*fixed, *self.listeners.items(), *self.adapters.items()))
