"""What the path of a command or an event names: the whole thing or policy, or one of their parts.

Which values a part accepts is here as well. What a command does to it is in `twin`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from penstock.wire.ditto.definition import check_definition
from penstock.wire.ditto.document import Json, expect, text_of
from penstock.wire.ditto.errors import FIELD_MISSING, UNKNOWN_PATH, DittoError, wrong_type
from penstock.wire.ditto.ids import parse_policy_id, parse_thing_id
from penstock.wire.ditto.kinds import EntityGroup
from penstock.wire.ditto.pointer import Pointer, check_key, check_keys, parse_pointer, print_pointer
from penstock.wire.ditto.policy_errors import LABEL_INVALID
from penstock.wire.ditto.subject import check_subject


class Part(StrEnum):
    """The parts, by the name that their errors have."""

    THING = "thing"
    POLICY_ID = "policyId"
    DEFINITION = "definition"
    ATTRIBUTES = "attributes"
    ATTRIBUTE = "attribute"
    FEATURES = "features"
    FEATURE = "feature"
    FEATURE_DEFINITION = "feature.definition"
    PROPERTIES = "feature.properties"
    PROPERTY = "feature.property"
    DESIRED_PROPERTIES = "feature.desiredProperties"
    DESIRED_PROPERTY = "feature.desiredProperty"
    POLICY = "policy"
    ENTRIES = "entries"
    ENTRY = "entry"
    SUBJECTS = "subjects"
    SUBJECT = "subject"
    RESOURCES = "resources"
    RESOURCE = "resource"
    IMPORTABLE = "importable"
    ALLOWED_ADDITIONS = "allowedAdditions"
    ENTRY_NAMESPACES = "namespaces"
    REFERENCES = "references"
    IMPORTS = "imports"
    IMPORT = "import"
    IMPORTED_ENTRIES = "import.entries"
    TRANSITIVE_IMPORTS = "transitiveImports"


@dataclass(frozen=True, slots=True)
class Resource:
    """A part, and where it is in the document."""

    part: Part
    pointer: Pointer

    @property
    def feature(self) -> str | None:
        """The ID of the feature that it is, or is in."""
        return self.pointer[1] if self.part.startswith("feature") and len(self.pointer) > 1 else None

    @property
    def inner(self) -> Pointer:
        """The rest of the pointer, below the attributes or the properties."""
        if self.part is Part.ATTRIBUTE:
            return self.pointer[1:]
        return self.pointer[3:] if self.part in (Part.PROPERTY, Part.DESIRED_PROPERTY) else ()

    @property
    def is_of_policy(self) -> bool:
        """Whether it is a policy, or a part of one."""
        return self.part in _OF_POLICIES


# Parts of a policy's entry that are a whole, beside its subjects and resources.
OF_ENTRIES = (Part.IMPORTABLE, Part.ALLOWED_ADDITIONS, Part.ENTRY_NAMESPACES, Part.REFERENCES)
OF_IMPORTS = (Part.IMPORTS, Part.IMPORT, Part.IMPORTED_ENTRIES, Part.TRANSITIVE_IMPORTS)
_OF_POLICIES = (
    Part.POLICY,
    Part.ENTRIES,
    Part.ENTRY,
    Part.SUBJECTS,
    Part.SUBJECT,
    Part.RESOURCES,
    Part.RESOURCE,
    *OF_ENTRIES,
    *OF_IMPORTS,
)


def parse_resource(group: EntityGroup, path: str) -> Resource:
    """Raises `protocoladapter:unknown.path`, or `json.pointer.invalid` if it is not a path."""
    if group is EntityGroup.POLICIES:
        return _policy_resource(path)
    pointer = parse_pointer(path)
    part = _thing_part(pointer)
    if part is None or group is not EntityGroup.THINGS:
        raise UNKNOWN_PATH.of(path)
    return Resource(part, pointer)


def known_resource(group: EntityGroup, path: str) -> Resource | None:
    """The same for a path that was stored; None for an unknown one."""
    try:
        return parse_resource(group, path)
    except DittoError:
        return None


def _thing_part(pointer: Pointer) -> Part | None:
    if not pointer:
        return Part.THING
    first, count = pointer[0], len(pointer)
    if first == "attributes":
        return Part.ATTRIBUTES if count == 1 else Part.ATTRIBUTE
    if first == "features":
        return _feature_part(pointer, count)
    if count > 1:
        return None
    return {"definition": Part.DEFINITION, "policyId": Part.POLICY_ID}.get(first)


def _feature_part(pointer: Pointer, count: int) -> Part | None:
    if count <= 2:
        return Part.FEATURES if count == 1 else Part.FEATURE
    third = pointer[2]
    if third == "properties":
        return Part.PROPERTIES if count == 3 else Part.PROPERTY
    if third == "desiredProperties":
        return Part.DESIRED_PROPERTIES if count == 3 else Part.DESIRED_PROPERTY
    return Part.FEATURE_DEFINITION if third == "definition" and count == 3 else None


_POLICY_PARTS = (Part.POLICY, Part.ENTRIES, Part.ENTRY)


def _policy_resource(path: str) -> Resource:
    """The keys of resources and subjects may have slashes in them, as in `/entries/E/resources/thing:/attributes`."""
    parts = path.removeprefix("/").split("/", 3)
    if parts[0] == "imports":
        return _import_resource(path)
    if parts[0] not in ("", "entries"):
        raise UNKNOWN_PATH.of(path)
    if len(parts) < 4 or parts[3] == "":
        pointer = parse_pointer(path)
        if len(pointer) < len(_POLICY_PARTS):
            return Resource(_POLICY_PARTS[len(pointer)], pointer)
        if pointer[2] in ("subjects", "resources", *OF_ENTRIES):
            return Resource(Part(pointer[2]), pointer)
        raise UNKNOWN_PATH.of(path)
    if parts[2] not in ("subjects", "resources"):
        raise UNKNOWN_PATH.of(path)
    part = Part.SUBJECT if parts[2] == "subjects" else Part.RESOURCE
    return Resource(part, (*parse_pointer("/".join(parts[:3])), parts[3]))


def _import_resource(path: str) -> Resource:
    pointer = parse_pointer(path)
    if len(pointer) <= 2:
        return Resource(Part.IMPORTS if len(pointer) == 1 else Part.IMPORT, pointer)
    part = {"entries": Part.IMPORTED_ENTRIES, "transitiveImports": Part.TRANSITIVE_IMPORTS}.get(pointer[2])
    if part is None or len(pointer) > 3:
        raise UNKNOWN_PATH.of(path)
    return Resource(part, pointer)


def check_value(resource: Resource, value: Json) -> None:
    """Refuse a value that its part does not accept: `json.invalid`, `json.key.invalid`, or that an ID is invalid."""
    place = print_pointer(resource.pointer)
    part = resource.part
    # The last key of a policy's path may have slashes: it is checked with its value.
    for key in resource.pointer[:3] if part in _OF_POLICIES else resource.pointer:
        check_key(key)
    if part is Part.ENTRY or part in OF_ENTRIES:
        check_label(resource.pointer[1])
    elif part is Part.IMPORT:
        parse_policy_id(resource.pointer[1])
    if part is Part.THING:
        _check_thing(expect(value, dict, place))
    elif part is Part.POLICY_ID:
        parse_policy_id(expect(value, str, place))
    elif part is Part.DEFINITION:
        _check_definition(value, place)
    elif part is Part.FEATURE_DEFINITION:
        _check_feature_definition(value, place)
    elif part is Part.FEATURES:
        _check_features(value, place)
    elif part is Part.FEATURE:
        _check_feature(value, place)
    elif part in (Part.ATTRIBUTES, Part.PROPERTIES, Part.DESIRED_PROPERTIES):
        _check_object(value, place)
    elif part in (Part.ATTRIBUTE, Part.PROPERTY, Part.DESIRED_PROPERTY):
        check_keys(value)
    elif part is Part.SUBJECT:
        _check_subjects({resource.pointer[3]: value}, place)
    elif part is Part.RESOURCE:
        _check_resources({resource.pointer[3]: value}, place)
    else:
        _check_policy_part(part, value, place)


def _check_thing(thing: dict[str, Json]) -> None:
    for name, value in thing.items():
        if name == "thingId":
            parse_thing_id(expect(value, str, "/thingId"))
        elif name == "policyId":
            parse_policy_id(expect(value, str, "/policyId"))
        elif name == "definition":
            _check_definition(value, "/definition")
        elif name == "attributes":
            _check_object(value, "/attributes")
        elif name == "features":
            _check_features(value, "/features")
        elif name == "_policy":
            _check_policy(value, "/_policy")
        elif not name.startswith("_"):
            raise UNKNOWN_PATH.of(f"/{name}", description="A thing has no such field.")


def _check_object(value: Json, place: str) -> None:
    """Null is accepted as an object: there are attributes, or properties, but nothing is known about them."""
    if value is not None:
        expect(value, dict, place)
        check_keys(value)


def _check_definition(value: Json, place: str) -> None:
    if value is not None:
        check_definition(expect(value, str, place))


def _check_feature_definition(value: Json, place: str) -> None:
    if value is None:
        return
    if not expect(value, list, place):
        raise wrong_type("[]", place, "JsonArray with at least one element")
    for each in value:
        check_definition(expect(each, str, place))


def _check_features(value: Json, place: str) -> None:
    if value is None:
        return
    for name, feature in expect(value, dict, place).items():
        check_key(name)
        _check_feature(feature, f"{place}/{name}")


def _check_feature(value: Json, place: str) -> None:
    if value is None:
        return
    for name, inside in expect(value, dict, place).items():
        if name in ("properties", "desiredProperties"):
            _check_object(inside, f"{place}/{name}")
        elif name == "definition":
            _check_feature_definition(inside, f"{place}/definition")
        elif not name.startswith("_"):
            raise UNKNOWN_PATH.of(f"{place}/{name}", description="A feature has no such field.")


# -- policies ----------------------------------------------------------------------------------------------------------

_RESOURCE_TYPES = ("thing", "policy", "message")
_IMPORTABLE = ("implicit", "explicit", "never")
_ADDITIONS = ("subjects", "resources", "namespaces")
# Labels that resolved policies give to entries of other policies.
_TAKEN_LABELS = ("imported", "nsimported")
_PATTERN = re.compile(r"\*|[a-zA-Z]\w*(?:[.-][a-zA-Z]\w*)*(?:\.\*)?", re.ASCII)


def check_label(label: str) -> None:
    """Raises `policies:label.invalid`."""
    check_key(label)
    if label.startswith(_TAKEN_LABELS):
        raise LABEL_INVALID.of(label)


def is_namespace_pattern(text: str) -> bool:
    """Whether this is a namespace, `namespace.*`, or `*`."""
    return _PATTERN.fullmatch(text) is not None


def _check_policy_part(part: Part, value: Json, place: str) -> None:
    if part is Part.POLICY:
        _check_policy(value, place)
    elif part is Part.ENTRIES:
        _check_entries(value, place)
    elif part is Part.ENTRY:
        _check_entry(value, place)
    elif part is Part.SUBJECTS:
        _check_subjects(value, place)
    elif part is Part.RESOURCES:
        _check_resources(value, place)
    elif part is Part.IMPORTS:
        _check_imports(value, place)
    elif part is Part.IMPORT:
        _check_import(value, place)
    elif part is Part.IMPORTED_ENTRIES:
        _check_texts(value, place)
    elif part is Part.TRANSITIVE_IMPORTS:
        _check_policy_ids(value, place)
    else:
        _check_entry_field(part, value, place)


def _check_policy(value: Json, place: str) -> None:
    policy = expect(value, dict, place)
    if "policyId" in policy:
        parse_policy_id(expect(policy["policyId"], str, "/policyId"))
    if "entries" in policy:
        _check_entries(policy["entries"], "/entries")
    if "imports" in policy:
        _check_imports(policy["imports"], "/imports")
    for name in policy:
        if name not in ("policyId", "entries", "imports") and not name.startswith("_"):
            raise UNKNOWN_PATH.of(f"/{name}", description="A policy has no such field.")


def _check_entries(value: Json, place: str) -> None:
    for label, entry in expect(value, dict, place).items():
        check_label(label)
        _check_entry(entry, f"{place}/{label}")


def _check_entry(value: Json, place: str) -> None:
    entry = expect(value, dict, place)
    _check_subjects(entry.get("subjects", {}), f"{place}/subjects")
    _check_resources(entry.get("resources", {}), f"{place}/resources")
    for name, inside in entry.items():
        if name in OF_ENTRIES:
            _check_entry_field(Part(name), inside, f"{place}/{name}")
        elif name not in ("subjects", "resources"):
            told = f"An entry has subjects, resources, {', '.join(OF_ENTRIES)}."
            raise UNKNOWN_PATH.of(f"{place}/{name}", description=told)


def _check_entry_field(part: Part, value: Json, place: str) -> None:
    if part is Part.IMPORTABLE:
        if value not in _IMPORTABLE:
            raise wrong_type(text_of(value), place, f"word: one of {', '.join(_IMPORTABLE)}")
    elif part is Part.ALLOWED_ADDITIONS:
        for each in expect(value, list, place):
            if each not in _ADDITIONS:
                raise wrong_type(text_of(each), place, f"list of {', '.join(_ADDITIONS)}")
    elif part is Part.ENTRY_NAMESPACES:
        for each in expect(value, list, place):
            if not is_namespace_pattern(expect(each, str, place)):
                raise wrong_type(text_of(each), place, "namespace, such as com.acme or com.acme.*")
    else:
        for each in expect(value, list, place):
            _check_reference(each, place)


def _check_reference(value: Json, place: str) -> None:
    reference = expect(value, dict, place)
    if "entry" not in reference:
        raise FIELD_MISSING.of(f"{place}/entry")
    expect(reference["entry"], str, f"{place}/entry")
    if "import" in reference:
        parse_policy_id(expect(reference["import"], str, f"{place}/import"))
    for name in reference:
        if name not in ("entry", "import"):
            raise UNKNOWN_PATH.of(f"{place}/{name}", description="A reference has an entry, and may have an import.")


def _check_imports(value: Json, place: str) -> None:
    for id, each in expect(value, dict, place).items():
        parse_policy_id(id)
        _check_import(each, f"{place}/{id}")


def _check_import(value: Json, place: str) -> None:
    given = expect(value, dict, place)
    _check_texts(given.get("entries", []), f"{place}/entries")
    _check_policy_ids(given.get("transitiveImports", []), f"{place}/transitiveImports")
    for name in given:
        if name not in ("entries", "transitiveImports"):
            told = "An import has entries and transitiveImports."
            raise UNKNOWN_PATH.of(f"{place}/{name}", description=told)


def _check_texts(value: Json, place: str) -> None:
    for each in expect(value, list, place):
        expect(each, str, place)


def _check_policy_ids(value: Json, place: str) -> None:
    for each in expect(value, list, place):
        parse_policy_id(expect(each, str, place))


def _check_subjects(value: Json, place: str) -> None:
    for name, subject in expect(value, dict, place).items():
        check_subject(expect(subject, dict, f"{place}/{name}"), f"{place}/{name}")


def _check_resources(value: Json, place: str) -> None:
    for name, grant in expect(value, dict, place).items():
        kind, colon, path = name.partition(":")
        if kind not in _RESOURCE_TYPES or not colon or not path.startswith("/"):
            raise wrong_type(text_of(name), place, f"resource: one of {', '.join(_RESOURCE_TYPES)}, a colon, a path")
        parse_pointer(path)
        _check_grant(grant, f"{place}/{name}")


def _check_grant(value: Json, place: str) -> None:
    grant = expect(value, dict, place)
    for name in ("grant", "revoke"):
        for permission in expect(grant.get(name, []), list, f"{place}/{name}"):
            if permission not in ("READ", "WRITE", "EXECUTE"):
                raise wrong_type(text_of(permission), f"{place}/{name}", "permission: READ, WRITE or EXECUTE")
