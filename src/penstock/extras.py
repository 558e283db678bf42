"""Extras: packages that not every server needs, and the one sentence for those who need one that is not installed.

The list of their packages is in pyproject.toml. Read next: docs/install.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from types import MappingProxyType

JOURNAL = "journal"

# Which extra brings a module, and what is missing without it.
MODULES: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "pyarrow": (JOURNAL, "the journal, twins and history"),
        "numpy": (JOURNAL, "the journal, twins and history"),
        "deltalake": ("lake", "the lake"),
        "psycopg": ("postgres", "a database in PostgreSQL"),
        "pyspark": ("spark", "Spark"),
        "pandas": ("spark", "Spark"),
        "hpack": ("push", "push notifications by Apple, Google and browsers"),
        "nats": ("cluster", "a cluster over NATS"),
    }
)


def lack_of(module: str) -> str:
    """What cannot be had without this module, and what to do about it; empty for one that no extra has."""
    extra, what = MODULES.get(module.partition(".")[0], ("", ""))
    return f"the extra {extra} is not installed: {command(extra)}" if what else ""


def lack_in(error: ModuleNotFoundError) -> str:
    """The whole sentence for a command that has failed for it; empty if a module is missing that no extra has."""
    extra, what = MODULES.get((error.name or "").partition(".")[0], ("", ""))
    return f"{what} cannot be used, because the extra {extra} is not installed: {command(extra)}" if what else ""


def command(extra: str) -> str:
    return f"pip install 'penstock[{extra}]'"


def has_journal() -> bool:
    """Whether a journal can be kept and read."""
    return find_spec("pyarrow") is not None
