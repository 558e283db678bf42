"""From the terms of the rules of twins to those of Ditto clients: reasons become errors, results answers, changes
events.

The one place where the two catalogues meet: `twins.reasons` and `wire.ditto.errors`, which has status, code and text.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from msgspec import UNSET, UnsetType

from penstock.twins import reasons
from penstock.twins.decision import Effect, Migrated, Result
from penstock.twins.reasons import TwinRefusal
from penstock.twins.told import Told
from penstock.twins.twin import Change
from penstock.wire.ditto import errors, twin
from penstock.wire.ditto import policy_errors as policies
from penstock.wire.ditto import thing_errors as things
from penstock.wire.ditto.document import Json
from penstock.wire.ditto.envelope import Envelope
from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.instant import print_instant
from penstock.wire.ditto.metadata import RETURNED
from penstock.wire.ditto.pointer import print_pointer
from penstock.wire.ditto.resource import OF_ENTRIES, OF_IMPORTS, Part, Resource
from penstock.wire.ditto.topic import Criterion, policy_topic, thing_topic
from penstock.wire.ditto.twin import HISTORICAL_HEADERS, Command, RetrieveSeveral, TwinEvent

RETRIEVED = 200
CREATED = 201
ACCEPTED = 202
DONE = 204

# Why nothing can be migrated to a definition of which it is not said where its model is.
UNKNOWN_MODEL = "The definition has no model here: see ditto.wot_models in the configuration."

STATUS = {
    Effect.RETRIEVED: RETRIEVED,
    Effect.CREATED: CREATED,
    Effect.CHANGED: DONE,
}


@dataclass(frozen=True, slots=True)
class DittoAnswer:
    """The answer to a command that succeeded. `etag` is that of the value at its place now, if there is one.

    `kept_headers` are those journaled with the change that led to the retrieved state, if that is a past one.
    """

    status: int
    value: Json | UnsetType = UNSET
    etag: str | None = None
    kept_headers: Json | None = None
    metadata: Json | None = None

    def response(self, command: Command | RetrieveSeveral) -> Envelope:
        """The message for it."""
        if self.status == RETRIEVED or isinstance(command, RetrieveSeveral):
            answer = twin.retrieved(command, self.value)
        elif self.status == ACCEPTED:
            answer = twin.tried(command, self.value)
        else:
            answer = twin.created(command, self.value) if self.status == CREATED else twin.done(command)
        more: dict[str, Json] = {} if self.etag is None else {"etag": self.etag}
        if self.kept_headers is not None:
            more[HISTORICAL_HEADERS] = self.kept_headers
        if self.metadata is not None:
            more[RETURNED] = self.metadata
        return replace(answer, headers={**answer.headers, **more}) if more else answer


def answer_of(result: Result, kept_headers: Json | None = None) -> DittoAnswer:
    if isinstance(result.effect, Migrated):
        status, value = _migrated(result.effect)
    else:
        status, value = STATUS[result.effect], result.value
    return DittoAnswer(status, value, etag_of(result.tag), kept_headers, result.metadata)


def etag_of(tag: str | None) -> str | None:
    """A tag as the header has it; None if there is none."""
    return None if tag is None else f'"{tag}"'


def _migrated(effect: Migrated) -> tuple[int, Json]:
    """The answer to `migrateDefinition`."""
    status = "DRY_RUN" if effect.tried else "APPLIED"
    told = {"thingId": effect.thing_id, "patch": effect.patch, "mergeStatus": status}
    return ACCEPTED if effect.tried else RETRIEVED, told


def event_of(told: Told, change: Change) -> TwinEvent:
    """The message of a change, or of what a listener may know of it."""
    namespace, _, name = told.key.id.partition(":")
    topic = (policy_topic if told.key.is_policy else thing_topic)(namespace, name, Criterion.EVENTS)
    headers = {} if told.correlation is None else {"correlation-id": told.correlation}
    return TwinEvent(topic.event(change.kind), change.path, change.value, told.revision, told.timestamp, headers)


def error_of(refusal: TwinRefusal) -> DittoError:
    """The error for a client."""
    match refusal.reason:
        case reasons.NotFound(id, resource):
            return _not_found(id, resource)
        case reasons.NotModifiable(id, resource):
            return _not_modifiable(id, resource)
        case reasons.NotDeletable(id):
            return things.THING_NOT_DELETABLE.of(id)
        case reasons.AlreadyThere(key):
            return (policies.POLICY_CONFLICT if key.is_policy else things.THING_CONFLICT).of(key.id)
        case reasons.NeverWas(key, int(revision), _):
            entry = policies.POLICY_REVISION_NOT_FOUND if key.is_policy else things.THING_REVISION_NOT_FOUND
            return entry.of(key.id, revision)
        case reasons.NeverWas(key, _, before):
            entry = policies.POLICY_TIMESTAMP_NOT_FOUND if key.is_policy else things.THING_TIMESTAMP_NOT_FOUND
            return entry.of(key.id, print_instant(before or 0))
        case reasons.NamespaceReserved(thing_id):
            return things.THING_RESERVED.of(thing_id)
        case reasons.PolicyNotUsable(thing_id, policy_id):
            return things.THING_NOT_CREATABLE.of(thing_id, policy_id)
        case reasons.PolicyExists(thing_id, policy_id):
            return things.THING_POLICY_EXISTS.of(thing_id, policy_id)
        case reasons.InlinePolicyNotAllowed(thing_id):
            return things.INLINE_POLICY_NOT_ALLOWED.of(thing_id)
        case reasons.NobodyCouldWrite(policy_id, None):
            return policies.POLICY_INVALID.of(policy_id)
        case reasons.NobodyCouldWrite(policy_id, label):
            return policies.POLICY_ENTRY_INVALID.of(label, policy_id)
        case reasons.PartStays(path):
            told = "Only a policy, an entry, a field of an entry, a subject, a resource or an import can be deleted."
            return errors.UNKNOWN_PATH.of(path, description=told)
        case reasons.SubjectExpired(expiry):
            return policies.SUBJECT_EXPIRY_INVALID.of(expiry, description="It must be in the future.")
        case reasons.ImportOfItself():
            return policies.IMPORT_OF_ITSELF.of()
        case reasons.ImportLoop(policy_id, way):
            return policies.IMPORT_LOOP.of(policy_id, " -> ".join(way))
        case reasons.TooManyImports(policy_id, limit):
            return policies.IMPORTS_TOO_MANY.of(policy_id, limit)
        case reasons.ReferenceBroken(label, target):
            told = "It must be an entry of this policy, or of one that it imports, and not 'importable: never'."
            return policies.REFERENCE_INVALID.of(label, target, description=told)
        case reasons.EntryReferenced(policy_id, target, label):
            return policies.ENTRY_REFERENCED.of(target, policy_id, label)
        case reasons.ImportReferenced(policy_id, target, label):
            return policies.IMPORT_REFERENCED.of(target, policy_id, label)
        case reasons.NotApplicable(action):
            return policies.ACTION_NOT_APPLICABLE.of(action)
        case reasons.ModelsNeeded(urls):
            told = "The model could not be kept in memory until it was used."
            return things.MODEL_NOT_ACCESSIBLE.of(urls[0], description=told)
        case reasons.ModelNotAccessible(url, text):
            return things.MODEL_NOT_ACCESSIBLE.of(url, description=text)
        case reasons.ModelInvalid(url, None):
            return things.MODEL_INVALID.of(url, description=UNKNOWN_MODEL)
        case reasons.ModelInvalid(url, text):
            return things.MODEL_INVALID.of(url, description=text)
        case reasons.NotAsModelled(text, details):
            return things.payload_invalid(text, {place: list(texts) for place, texts in details})
        case reasons.PlaceholderUnknown(name, is_of_model):
            return (things.MODEL_PLACEHOLDER if is_of_model else things.PLACEHOLDER_UNRESOLVED).of(name)
        case reasons.DocumentTooLarge(is_policy, size, limit):
            entry = policies.POLICY_TOO_LARGE if is_policy else things.THING_TOO_LARGE
            return errors.too_large(entry, size, limit)
        case reasons.DocumentTooDeep(levels):
            return errors.JSON_INVALID.of(f"This change would lead to more than {levels} levels.")
        case reasons.ConditionUnreadable(problem):
            # An error of our own: `commands` made it when it read the header.
            assert isinstance(problem, DittoError)
            return problem
        case reasons.TagMismatch(is_policy, is_negative, given, current):
            entry = policies.POLICY_PRECONDITION_FAILED if is_policy else things.PRECONDITION_FAILED
            return entry.of("if-none-match" if is_negative else "if-match", given, etag_of(current) or "null")
        case reasons.TagCurrent(is_policy, given, current):
            return (policies.POLICY_NOT_MODIFIED if is_policy else things.NOT_MODIFIED).of(given, etag_of(current))
        case reasons.NothingNew(is_policy):
            return (policies.POLICY_EQUAL if is_policy else things.THING_EQUAL).of()
        case reasons.ConditionFailed():
            return things.CONDITION_FAILED.of()
        case reasons.ConditionHidden():
            return things.CONDITION_NOT_READABLE.of()
        case reasons.NotDurable(key):
            return (policies.POLICY_UNAVAILABLE if key.is_policy else things.THING_UNAVAILABLE).of(key.id)
        case unknown:
            assert_never(unknown)


def _not_found(id: str, resource: Resource) -> DittoError:
    part, pointer = resource.part, resource.pointer
    if part in things.PART_NOT_FOUND:
        return things.PART_NOT_FOUND[part].of(id, resource.feature, print_pointer(resource.inner))
    if part in OF_IMPORTS and len(pointer) > 1:
        return policies.IMPORT_NOT_FOUND.of(pointer[1], id)
    if part in (Part.ENTRY, Part.SUBJECTS, Part.RESOURCES, *OF_ENTRIES):
        return policies.POLICY_ENTRY_NOT_FOUND.of(pointer[1], id)
    if part in (Part.SUBJECT, Part.RESOURCE):
        entry = policies.SUBJECT_NOT_FOUND if part is Part.SUBJECT else policies.RESOURCE_NOT_FOUND
        return entry.of(pointer[3], pointer[1], id)
    return (policies.POLICY_NOT_FOUND if resource.is_of_policy else things.THING_NOT_FOUND).of(id)


def _not_modifiable(id: str, resource: Resource) -> DittoError:
    if resource.part in things.PART_NOT_MODIFIABLE:
        entry = things.PART_NOT_MODIFIABLE[resource.part]
        return entry.of(id, resource.feature, print_pointer(resource.inner))
    return (policies.POLICY_NOT_MODIFIABLE if resource.is_of_policy else things.THING_NOT_MODIFIABLE).of(id)
