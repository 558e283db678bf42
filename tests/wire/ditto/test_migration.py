"""What a migration may ask for; what becomes of a thing is in tests/twins/test_migration.py."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.migration import parse_migration

MODEL = "https://models.example/lamp.tm.jsonld"


@pytest.mark.parametrize(
    "patch",
    [
        {"attributes": None},
        {"attributes": {"maker": None}},
        {"features": {"lamp": None}},
        {"features": {"lamp": {"definition": None, "properties": {"on": None}}}},
        # What cannot be there need not be deleted, and may be.
        {"features": {"lamp": {"other": None}}},
    ],
)
def test_null_deletes_wherever_something_may_be(patch: dict[str, Any]) -> None:
    assert parse_migration({"thingDefinitionUrl": MODEL, "migrationPayload": patch}).patch == patch


@pytest.mark.parametrize("patch", [{"attributes": 1}, {"features": {"lamp": 1}}, {"policyId": "ns:p"}])
def test_what_else_is_in_a_patch_must_fit_a_thing(patch: dict[str, Any]) -> None:
    with pytest.raises(DittoError):
        parse_migration({"thingDefinitionUrl": MODEL, "migrationPayload": patch})
