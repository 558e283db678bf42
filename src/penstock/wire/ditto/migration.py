"""What a migration of a thing to another definition asks for: the value of a `migrate` command, the body of its POST.

What becomes of the thing is in the rules of twins. Upstream documentation: HTTP API, "migrateDefinition".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.wire.ditto.definition import check_definition
from penstock.wire.ditto.document import Json, expect
from penstock.wire.ditto.errors import FIELD_MISSING, UNKNOWN_PATH, wrong_type
from penstock.wire.ditto.pointer import Pointer, parse_pointer
from penstock.wire.ditto.resource import Part, Resource, check_value
from penstock.wire.ditto.rql import Query, parse_rql

# Conditions of one migration.
MAX_CONDITIONS: Final = 100

_NAMES: Final = (
    "thingDefinitionUrl",
    "migrationPayload",
    "patchConditions",
    "initializeMissingPropertiesFromDefaults",
    "thingId",
)


@dataclass(frozen=True, slots=True)
class Migration:
    """`patch` is applied after the definition; a part of it whose condition is not true is left out."""

    definition: str
    patch: dict[str, Json]
    conditions: tuple[tuple[Pointer, Query], ...] = ()
    # Whether properties that are missing get their values from the model.
    is_filled: bool = False


def parse_migration(value: Json) -> Migration:
    """Raises `json.invalid`, `json.field.missing`, `things:definition.identifier.invalid`, and what is in the patch."""
    given = expect(value, dict, "/")
    for name in given:
        if name not in _NAMES:
            raise UNKNOWN_PATH.of(f"/{name}", description=f"A migration has {', '.join(_NAMES[:-1])}.")
    if "thingDefinitionUrl" not in given:
        raise FIELD_MISSING.of("/thingDefinitionUrl")
    definition = expect(given["thingDefinitionUrl"], str, "/thingDefinitionUrl")
    check_definition(definition)
    patch = expect(given.get("migrationPayload", {}), dict, "/migrationPayload")
    for name in patch:
        if name not in ("attributes", "features"):
            raise UNKNOWN_PATH.of(
                f"/migrationPayload/{name}", description="A migration changes attributes and features."
            )
    check_value(Resource(Part.THING, ()), _without_nulls(patch))
    filled = given.get("initializeMissingPropertiesFromDefaults", False)
    return Migration(
        definition,
        patch,
        _conditions(given.get("patchConditions", {})),
        expect(filled, bool, "/initializeMissingPropertiesFromDefaults"),
    )


def _conditions(value: Json) -> tuple[tuple[Pointer, Query], ...]:
    given = expect(value, dict, "/patchConditions")
    if len(given) > MAX_CONDITIONS:
        raise wrong_type(f"{len(given)} conditions", "/patchConditions", f"JsonObject of at most {MAX_CONDITIONS}")
    return tuple(
        [
            (parse_pointer(place.removeprefix("thing:")), parse_rql(expect(text, str, f"/patchConditions/{place}")))
            for place, text in given.items()
        ]
    )


def _without_nulls(patch: Json) -> Json:
    """Null deletes, so it is valid wherever something may be."""
    if type(patch) is not dict:
        return patch
    return {name: _without_nulls(each) for name, each in patch.items() if each is not None}
