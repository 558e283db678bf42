"""What `penstock demo` sets beyond the defaults of every server: a quiet log, push notifications, a hub for lights.

A configuration file comes before this, key by key; one with adapter sets gets none of it. Who simulates the traffic
lights is in `penstock.devices`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec

from penstock.config.keys import KeyPath
from penstock.services.push.demo import demo_push

# What the hub's database needs beyond what every server has.
DATABASE = "sqlalchemy"


def demo_defaults() -> Mapping[KeyPath, object]:
    """Values by the path of their keys."""
    return {**_log(), **demo_push(), **_traffic()}


def _log() -> Mapping[KeyPath, object]:
    # On the terminal are the lines that people need; what devices and clients do all the time would push them away.
    return {("log", "level"): "warning"}


def _traffic() -> Mapping[KeyPath, object]:
    if find_spec(DATABASE) is None:
        return {}
    # Any port: clients are told which by the API port, and the usual one may be taken.
    return {("tlex", "enabled"): True, ("tlex", "port"): 0, ("demo", "traffic"): True}
