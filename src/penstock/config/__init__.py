"""The configuration: TOML in, one frozen, typed `Config` out, checked once at the start.

Not here: the command line that calls it (cli.py) and the server that uses it (server.py).
Read next: schema.py for the keys, loading.py for how they are read, docs/configuration.md for operators.
"""

from penstock.config.errors import ConfigError
from penstock.config.loading import Loaded, load
from penstock.config.rendering import as_json, as_toml
from penstock.config.schema import (
    AdapterSetSection,
    ApiSection,
    Config,
    CorsSection,
    DataSection,
    DemoSection,
    JournaledSection,
    JournalSection,
    LimitsSection,
    LogSection,
    MetadataSection,
    PipelineSection,
    ServerSection,
    SessionSection,
    StreamSection,
    TlsSection,
)

__all__ = [
    "AdapterSetSection",
    "ApiSection",
    "Config",
    "ConfigError",
    "CorsSection",
    "DataSection",
    "DemoSection",
    "JournalSection",
    "JournaledSection",
    "LimitsSection",
    "Loaded",
    "LogSection",
    "MetadataSection",
    "PipelineSection",
    "ServerSection",
    "SessionSection",
    "StreamSection",
    "TlsSection",
    "as_json",
    "as_toml",
    "load",
]
