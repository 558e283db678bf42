"""Phrases of Ditto's conformance tests: rows as test parameters, and things that several subjects share."""

from __future__ import annotations

from typing import Any

from _pytest.mark import ParameterSet

from tests.conformance import phrases
from tests.doors.ditto.world import ALL, World

NO_READ = {"grant": [], "revoke": ["READ"]}
ALL_OF_IT = {"thing:/": ALL, "policy:/": ALL}


def row(name: str, *values: object) -> ParameterSet:
    """Test parameters that show the row `ditto.NAME` of docs/conformance.md."""
    return phrases.row(f"ditto.{name}", *values)


def policy(**readers: dict[str, Any]) -> dict[str, Any]:
    """One under which its owner may do everything, and each reader what is granted to it."""
    entries = {name: entry(name, resources) for name, resources in readers.items()}
    return {"policyId": "ns:policy", "entries": {"OWNER": entry("owner", ALL_OF_IT), **entries}}


def entry(user: str, resources: dict[str, Any]) -> dict[str, Any]:
    return {"subjects": {f"nginx:{user}": {"type": "t"}}, "resources": resources}


def shared(world: World, **readers: dict[str, Any]) -> None:
    """A thing under such a policy."""
    peer = world.connect()
    assert peer.command("create", value=policy(**readers), id="ns:policy", group="policies")["status"] == 201
    assert peer.command("create", value={"policyId": "ns:policy", "attributes": {"x": 1}})["status"] == 201
