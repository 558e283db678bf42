"""The configuration: TOML in, one frozen, typed `Config` out, checked once at the start.

Not here: the command line that calls it (cli.py) and the server that uses it (server.py).
Read next: schema/ for the keys, loading.py for how they are read, docs/configuration.md for operators.
"""

from penstock.config.errors import ConfigError
from penstock.config.loading import Loaded, load
from penstock.config.rendering import as_json, as_toml
from penstock.config.schema.adapters import AdapterSetSection, DataSection, MetadataSection
from penstock.config.schema.config import Config
from penstock.config.schema.limits import LimitsSection
from penstock.config.schema.listeners import CertificateSection, ProxiesSection
from penstock.config.schema.pages import PagesSection
from penstock.config.schema.ports import CorsSection
from penstock.config.schema.push import AppleSection, GoogleSection, PushSection, WebSection
from penstock.config.schema.session import SessionSection
from penstock.config.schema.tlex import TlexLimitsSection, TlexSection

__all__ = [
    "AdapterSetSection",
    "AppleSection",
    "CertificateSection",
    "Config",
    "ConfigError",
    "CorsSection",
    "DataSection",
    "GoogleSection",
    "LimitsSection",
    "Loaded",
    "MetadataSection",
    "PagesSection",
    "ProxiesSection",
    "PushSection",
    "SessionSection",
    "TlexLimitsSection",
    "TlexSection",
    "WebSection",
    "as_json",
    "as_toml",
    "load",
]
