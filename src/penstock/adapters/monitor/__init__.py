"""The MONITOR data adapter: what the server knows of itself, as items (General Concepts 4.2.1, and more)."""

from penstock.adapters.monitor.adapter import MonitorAdapter
from penstock.adapters.monitor.overview import Overview

__all__ = ["MonitorAdapter", "Overview"]
