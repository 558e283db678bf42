"""What a reader gets of a thing or a policy: the requested part, as far as it may be read, and of it the fields.

The same for what is there now and for what was there at some moment of its history.
"""

from __future__ import annotations

from penstock.twins import policies, things
from penstock.twins.access import Permission, ResourceKind, Rights, readable
from penstock.twins.command import TwinCommand
from penstock.twins.decision import Effect, Result
from penstock.twins.enforcement import enforce
from penstock.twins.preconditions import Current, check_tags, revision_tag, special_fields, value_tag
from penstock.twins.twin import Document, Twin
from penstock.wire.ditto.document import Json
from penstock.wire.ditto.fields import Fields
from penstock.wire.ditto.kinds import EntityGroup
from penstock.wire.ditto.metadata import selected_metadata
from penstock.wire.ditto.pointer import Absent, get

# The field by which an entity is named. Who may read anything of it may read that.
_ID_FIELD = {EntityGroup.THINGS: "thingId", EntityGroup.POLICIES: "policyId"}


def retrieve(command: TwinCommand, twin: Twin, rights: Rights, policy: Document | None) -> Result:
    """What a reader gets; raises NotFound, TagCurrent and so on. `policy` is that of a thing, for those who ask."""
    group, pointer = command.group, command.resource.pointer
    enforce(command, rights)
    document = seen(group, twin, rights)
    (policies if group is EntityGroup.POLICIES else things).check_there(command, document)
    value = get(document, pointer)
    tag = revision_tag(twin.revision) if not pointer else value_tag(value)
    check_tags(group, command.conditions, Current(True, tag), reading=True)
    if command.fields is not None:
        value = command.fields.select(value) if pointer else selected(group, twin, rights, policy, command.fields)
    metadata: Json | None = None
    if command.metadata is not None:
        seen_of = readable(group, rights).visible(twin.metadata)
        metadata = selected_metadata(command.metadata.get, get(seen_of, pointer))
    return Result(Effect.RETRIEVED, value, tag, metadata)


def selected(group: EntityGroup, twin: Twin, rights: Rights, policy: Document | None, fields: Fields | None) -> Json:
    """All that may be read of an entity, or these fields of it."""
    document = seen(group, twin, rights)
    if fields is None:
        return document
    return fields.select({**document, **_special(group, twin, rights, policy, fields)})


def seen(group: EntityGroup, twin: Twin, rights: Rights) -> Document:
    """All that these rights let one see of an entity; {} if that is nothing."""
    scope, name = readable(group, rights), _ID_FIELD[group]
    if not scope.touches(()):
        return {}
    visible = scope.visible(twin.document)
    if isinstance(visible, Absent):
        return {name: twin.document[name]}
    return visible if name in visible else {name: twin.document[name], **visible}


def _special(
    group: EntityGroup, twin: Twin, rights: Rights, policy: Document | None, fields: Fields
) -> dict[str, Json]:
    """The fields that are shown only to those who name them."""
    namespace = twin.document[_ID_FIELD[group]].partition(":")[0]
    special = {**special_fields(twin), "_namespace": namespace}
    if policy is not None and fields.names("_policy"):
        visible = rights.scope(ResourceKind.POLICY, Permission.READ).visible(policy)
        if not isinstance(visible, Absent):
            special["_policy"] = visible
    if twin.metadata and fields.names("_metadata"):
        visible = readable(group, rights).visible(twin.metadata)
        if not isinstance(visible, Absent):
            special["_metadata"] = visible
    return {name: value for name, value in special.items() if fields.names(name)}
