"""Why a command to a thing or a policy is refused: every reason, with its facts, independent of any protocol.

A door translates a reason into an answer of its own. `retry` says whether the same command may succeed later. Not here:
when each reason applies, which `registry` and the modules it uses decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.twins.names import EntityKey
from penstock.wire.ditto.resource import Resource


class TwinRefusal(Exception):
    """A command that is not carried out. Two refusals with the same reason are equal."""

    def __init__(self, reason: TwinReason) -> None:
        super().__init__(str(reason))
        self.reason = reason

    @property
    def retry(self) -> bool:
        """Whether the same command may succeed later."""
        return self.reason.retry

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TwinRefusal) and self.reason == other.reason

    def __hash__(self) -> int:
        return hash(str(self.reason))


class _Final:
    """For most reasons a retry does not help."""

    __slots__ = ()
    retry: ClassVar[bool] = False


# -- what is there, and who may touch it -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NotFound(_Final):
    """There is nothing at this place, or the caller must not know that there is."""

    id: str
    resource: Resource


@dataclass(frozen=True, slots=True)
class NotModifiable(_Final):
    """It may be read but not written."""

    id: str
    resource: Resource


@dataclass(frozen=True, slots=True)
class NotDeletable(_Final):
    """The whole thing may be read but not deleted."""

    id: str


@dataclass(frozen=True, slots=True)
class AlreadyThere(_Final):
    """It was to be created, but exists already."""

    key: EntityKey


@dataclass(frozen=True, slots=True)
class NeverWas(_Final):
    """There was nothing at that moment of the past, or its state is unknown.

    The moment is a revision, or else an instant in nanoseconds since 1970.
    """

    key: EntityKey
    revision: int | None
    before: int | None


# -- a thing and its policy --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NamespaceReserved(_Final):
    """The namespace of the new thing is that of a data adapter, whose items are things already."""

    thing_id: str


@dataclass(frozen=True, slots=True)
class PolicyNotUsable(_Final):
    """The thing cannot have this policy: it does not exist, or does not let the caller write the thing."""

    thing_id: str
    policy_id: str


@dataclass(frozen=True, slots=True)
class PolicyExists(_Final):
    """The new thing would bring a policy that exists already."""

    thing_id: str
    policy_id: str


@dataclass(frozen=True, slots=True)
class InlinePolicyNotAllowed(_Final):
    """A policy came with a thing that exists, or with the identifier of another policy."""

    thing_id: str


# -- what may be in a policy -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NobodyCouldWrite(_Final):
    """The policy would have no subject left that may write it; `label` is the entry whose change would cause that."""

    policy_id: str
    label: str | None


@dataclass(frozen=True, slots=True)
class PartStays(_Final):
    """This part of a policy cannot be deleted by itself. `path` is as the sender wrote it."""

    path: str


@dataclass(frozen=True, slots=True)
class SubjectExpired(_Final):
    """The time at which a subject was to expire has passed."""

    expiry: str


@dataclass(frozen=True, slots=True)
class ImportOfItself(_Final):
    """A policy was to import itself, or to have itself among its transitive imports."""

    policy_id: str


@dataclass(frozen=True, slots=True)
class ImportLoop(_Final):
    """The imports of a policy would lead back to it, by these policies."""

    policy_id: str
    way: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TooManyImports(_Final):
    policy_id: str
    limit: int


@dataclass(frozen=True, slots=True)
class ReferenceBroken(_Final):
    """An entry refers to another one that is not there, or that must not be referred to."""

    label: str
    target: str


@dataclass(frozen=True, slots=True)
class EntryReferenced(_Final):
    """An entry cannot be removed, because another one refers to it."""

    policy_id: str
    target: str
    label: str


@dataclass(frozen=True, slots=True)
class ImportReferenced(_Final):
    """An import cannot be removed, because an entry refers to it."""

    policy_id: str
    target: str
    label: str


@dataclass(frozen=True, slots=True)
class NotApplicable(_Final):
    """No entry of the policy is one that the action of the caller applies to."""

    action: str


# -- models of the Web of Things ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModelsNeeded:
    """The models at these addresses must be known first. The caller gets them, and sends the command again."""

    retry: ClassVar[bool] = True
    urls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModelNotAccessible:
    """The model of a definition cannot be had now."""

    retry: ClassVar[bool] = True
    url: str
    text: str


@dataclass(frozen=True, slots=True)
class ModelInvalid(_Final):
    """What a definition names is not a model; `text` says why. None: no model is known by this name here."""

    url: str
    text: str | None = None


@dataclass(frozen=True, slots=True)
class NotAsModelled(_Final):
    """The change would lead to a thing that is not as its model says; `details` has complaints by place."""

    text: str
    details: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class PlaceholderUnknown(_Final):
    """A placeholder of a model, or of a migration, has no value."""

    name: str
    is_of_model: bool


# -- limits ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DocumentTooLarge(_Final):
    """Bytes of the document as compact JSON, and how many are allowed."""

    is_policy: bool
    size: int
    limit: int


@dataclass(frozen=True, slots=True)
class DocumentTooDeep(_Final):
    """The change would lead to more levels of objects and arrays than are allowed."""

    levels: int


# -- conditions --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ConditionUnreadable(_Final):
    """A condition could not be parsed; `problem` is the error of its parser."""

    problem: Exception


@dataclass(frozen=True, slots=True)
class TagMismatch(_Final):
    """None of the tags that were asked for is the current one, or one is that must not be (`is_negative`)."""

    is_policy: bool
    is_negative: bool
    given: str
    current: str | None


@dataclass(frozen=True, slots=True)
class TagCurrent(_Final):
    """The reader already has the current value."""

    is_policy: bool
    given: str
    current: str | None


@dataclass(frozen=True, slots=True)
class NothingNew(_Final):
    """The command would change nothing, and its sender wants it skipped then."""

    is_policy: bool


@dataclass(frozen=True, slots=True)
class ConditionFailed(_Final):
    """The condition is not true of the thing."""


@dataclass(frozen=True, slots=True)
class ConditionHidden(_Final):
    """The condition asks about what its sender may not read."""


# -- the disk ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NotDurable:
    """The change could not be made durable: nothing was changed."""

    retry: ClassVar[bool] = True
    key: EntityKey


TwinReason = (
    NotFound
    | NotModifiable
    | NotDeletable
    | AlreadyThere
    | NeverWas
    | NamespaceReserved
    | PolicyNotUsable
    | PolicyExists
    | InlinePolicyNotAllowed
    | NobodyCouldWrite
    | PartStays
    | SubjectExpired
    | ImportOfItself
    | ImportLoop
    | TooManyImports
    | ReferenceBroken
    | EntryReferenced
    | ImportReferenced
    | NotApplicable
    | ModelsNeeded
    | ModelNotAccessible
    | ModelInvalid
    | NotAsModelled
    | PlaceholderUnknown
    | DocumentTooLarge
    | DocumentTooDeep
    | ConditionUnreadable
    | TagMismatch
    | TagCurrent
    | NothingNew
    | ConditionFailed
    | ConditionHidden
    | NotDurable
)
