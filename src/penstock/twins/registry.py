"""All things and policies there are now: a command goes in, its result comes out once it is on the disk.

For one thread, the server's loop. Rules are in `things` and `policies`, permissions in `enforcement`, what there is and
how it comes back after a start in `lines`, the way to the disk in `commits`. Read next: docs/ditto.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from penstock.twins import policies, things
from penstock.twins.access import NO_RIGHTS, Access, Permission, ResourceKind, Rights, Subjects, readable
from penstock.twins.command import Caller, RetrieveThings, TwinCommand
from penstock.twins.commits import Commits, PendingChanges, TakeResult, TwinListener
from penstock.twins.decision import Decision, Effect, Migrated, Result
from penstock.twins.effective import Effective, EffectivePolicies
from penstock.twins.enforcement import enforce, has_history, not_found
from penstock.twins.expiry import DEFAULT_GRANULARITY, expiring
from penstock.twins.imports import check_imports, imported_labels, matches_namespace
from penstock.twins.integration import TokenIntegration, integrated
from penstock.twins.lines import TwinLines
from penstock.twins.migration import migration_patch
from penstock.twins.names import EntityKey, TwinNames, policy_key, thing_key
from penstock.twins.policies import PolicyLimits
from penstock.twins.ports import ChangeLog
from penstock.twins.preconditions import NO_CONDITIONS, NOTHING, allowed_patch, check_condition, check_tags, current
from penstock.twins.reasons import (
    AlreadyThere,
    NamespaceReserved,
    NotModifiable,
    PolicyExists,
    PolicyNotUsable,
    TwinRefusal,
)
from penstock.twins.record import Record
from penstock.twins.retrieval import retrieve
from penstock.twins.state import TwinsState
from penstock.twins.things import PolicySource
from penstock.twins.twin import Change, Document, Twin
from penstock.twins.wot.validation import ModelRules
from penstock.wire.ditto.document import MAX_ENTITY_BYTES, Json
from penstock.wire.ditto.ids import EntityId
from penstock.wire.ditto.kinds import Action, EntityGroup
from penstock.wire.ditto.pointer import MISSING, get
from penstock.wire.ditto.resource import Part, Resource

# Who makes changes that nobody asks for.
SYSTEM = Caller(("penstock:expiry",))


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """`reserved` says which namespaces are those of data adapters, whose items are things already."""

    names: TwinNames = field(default_factory=TwinNames)
    # Bytes of a thing or a policy; a larger one is refused.
    max_bytes: int = MAX_ENTITY_BYTES
    reserved: Callable[[str], bool] = field(default=lambda namespace: False)
    # Patterns of namespaces, and the policies that all policies of them have in common.
    shared_policies: Mapping[str, Sequence[str]] = field(default_factory=dict)
    # Microseconds to which the expiry of a subject is rounded up.
    expiry_granularity: int = DEFAULT_GRANULARITY
    # Which definitions have models, and what is demanded of things that have them.
    models: ModelRules = field(default_factory=ModelRules)


class Twins:
    """`now` gives microseconds since 1970.

    `fault` is called, with the entity that it is about, while an exception is handled that a listener, or whoever was
    answered, has raised.
    """

    def __init__(
        self,
        change_log: ChangeLog,
        now: Callable[[], int],
        fault: Callable[[EntityKey], None],
        settings: RegistrySettings | None = None,
    ) -> None:
        self._change_log = change_log
        self._now = now
        self._settings = settings or RegistrySettings()
        names = self._settings.names
        self.lines = TwinLines(names)
        self._effective = EffectivePolicies(self._settings.shared_policies)
        self.commits = Commits(change_log, names, self.lines, self._effective, now, fault)

    # -- what doors ask --------------------------------------------------------------------------------------------

    def submit(self, command: TwinCommand | RetrieveThings, caller: Caller, answer: TakeResult) -> None:
        """Carry out a command. An answer that depends on a state not yet on the disk is given when it is.

        Not for a command about the past (`history.Moment`): the answer would be about the present.
        """
        batch: PendingChanges | None = None
        result: Result | TwinRefusal
        looked_at: list[EntityKey] = []
        try:
            if isinstance(command, RetrieveThings):
                result = self._retrieve_several(command, caller, looked_at)
            elif command.action is Action.RETRIEVE:
                result = self._retrieve(command, caller, looked_at)
            else:
                work = self._policy if command.group is EntityGroup.POLICIES else self._thing
                result, batch = work(command, caller, looked_at)
        except TwinRefusal as refusal:
            result = refusal
        if batch is None:
            batch = self.commits.newest(looked_at)
        if batch is None:
            answer(result)
        else:
            batch.waiting.append((answer, result, looked_at[0]))

    def expire(self, policy_id: str, answer: TakeResult) -> None:
        """Delete those subjects of a policy whose time has come. Does nothing if there are none."""
        twin = self.lines.head_policy(policy_id)
        gone = [] if twin is None else [each for each in expiring(twin.document) if each.expiry <= self._now()]
        if gone:
            changes = [Change(Action.DELETED, each.pointer) for each in gone]
            self._change_policy(policy_id, changes, SYSTEM, answer)

    def integrate(self, wish: TokenIntegration, caller: Caller, answer: TakeResult) -> None:
        """Add the subjects of a token to entries of a policy, or remove them."""
        try:
            twin = self.lines.head_policy(wish.policy_id)
            rights = self._policy_rights(twin, wish.policy_id, caller, [])
            changes = integrated(wish, None if twin is None else twin.document, rights, caller, self._policy_limits())
        except TwinRefusal as refusal:
            answer(refusal)
            return
        if changes:
            self._change_policy(wish.policy_id, changes, caller, answer)
        else:
            answer(Result(Effect.CHANGED))

    def _change_policy(self, policy_id: str, changes: list[Change], caller: Caller, answer: TakeResult) -> None:
        """Changes that are not a command of a client."""
        key = policy_key(policy_id)
        namespace, _, name = policy_id.partition(":")
        whole = Resource(Part.POLICY, ())
        command = TwinCommand(Action.MODIFY, EntityGroup.POLICIES, EntityId(namespace, name), whole, "/")
        try:
            decisions = [(key, Decision(change, None, Effect.CHANGED)) for change in changes]
            result, batch = self.commits.append(command, caller, decisions, NO_RIGHTS)
        except TwinRefusal as refusal:
            answer(refusal)
        else:
            batch.waiting.append((answer, replace(result, tag=None), key))

    def thing(self, id: str) -> Twin | None:
        """The thing as it is on the disk."""
        return self.lines.committed(thing_key(id))

    def policy(self, id: str) -> Twin | None:
        return self.lines.committed(policy_key(id))

    @property
    def count(self) -> int:
        """How many things and policies there are, with those that are about to be."""
        return self.lines.count

    def things(self) -> Iterator[str]:
        """The identifiers of all things on the disk."""
        return self.lines.ids(EntityGroup.THINGS)

    def policies(self) -> Iterator[str]:
        """The identifiers of all policies on the disk."""
        return self.lines.ids(EntityGroup.POLICIES)

    def readers(self, policy_id: str) -> Subjects:
        """Who may read some of the things with a policy; nobody if there is none."""
        policy = self.policy(policy_id)
        return frozenset() if policy is None else Access(self.effective(policy).document).readers()

    def effective(self, policy: Twin) -> Effective:
        """A policy on the disk with all that it imports."""
        return self._effective.of(policy, self.policy)

    def dependents(self, policy_id: str) -> set[str]:
        """Other policies whose meaning a change of this one may change."""
        found = self._effective.dependents(policy_id)
        patterns = self._effective.namespaces_of(policy_id)
        if patterns:
            found.update([id for id in self.policies() if matches_namespace(_namespace(id), patterns)])
            found.discard(policy_id)
        return found

    def rights(self, key: EntityKey, subjects: Subjects) -> Rights:
        """What these subjects may do to a thing or a policy, by what is on the disk; nothing where there is none."""
        twin = self.lines.committed(key)
        if twin is None:
            return NO_RIGHTS
        policy = twin if key.group is EntityGroup.POLICIES else self.policy(twin.document["policyId"])
        return NO_RIGHTS if policy is None else self.effective(policy).access(_namespace(key.id)).rights(subjects)

    def check_history(self, key: EntityKey, subjects: Subjects) -> Rights:
        """Raises NotFound unless these subjects may read all that ever happened to it; then their rights."""
        rights = self.rights(key, subjects)
        if not has_history(key.group, rights):
            raise not_found(key.group, key.id)
        return rights

    def listen(self, listener: TwinListener) -> Callable[[], None]:
        """Call back with every change once it is on the disk, in order. Returns a function that ends it."""
        self.commits.listeners.append(listener)
        return lambda: self.commits.listeners.remove(listener)

    # -- coming back after a start ---------------------------------------------------------------------------------

    def restore(self, state: TwinsState, records: Iterable[Record]) -> None:
        """Begin with a saved state and all records after it, as `state.records_after` reads them."""
        self.lines.restore(state, records)
        for id in self.policies():
            self._effective.note(id, self.policy(id))

    def capture(self) -> TwinsState:
        """All that is on the disk, to be saved: cheap to take, and any thread may write it."""
        applied = self.lines.applied
        # If nothing is waiting, records of others since then need not be read again either.
        return self.lines.captured(applied if self.commits.waiting else max(applied, self._change_log.committed))

    # -- things ----------------------------------------------------------------------------------------------------

    def _thing(
        self, command: TwinCommand, caller: Caller, looked_at: list[EntityKey]
    ) -> tuple[Result, PendingChanges | None]:
        key = command.key
        twin = self._look(key, looked_at)
        command = things.expanded(command, {} if twin is None else twin.document)
        if twin is None:
            command = self._without_failed_parts(command, None, NO_RIGHTS)
            decisions, rights = self._decide_new_thing(command, caller, key, looked_at, is_hidden=False)
            return self.commits.append(command, caller, decisions, rights)
        rights = self._look_rights(twin, caller, looked_at)
        if not readable(key.group, rights).touches(()) and things.may_create(command):
            # Errors of a new thing are raised first: only a caller who could create it learns that it exists.
            self._decide_new_thing(command, caller, key, looked_at, is_hidden=True)
        if command.action is Action.CREATE:
            raise TwinRefusal(AlreadyThere(key))
        enforce(command, rights)
        things.inline_policy(command, is_new=False)
        check_condition(command.conditions.condition, twin, readable(key.group, rights), self._now())
        self._check_tags(command, twin, rights)
        policy_id = things.given_policy_id(command)
        if policy_id is not None and policy_id != twin.document["policyId"]:
            self._check_policy(key.id, policy_id, caller, looked_at)
        command = self._without_failed_parts(command, twin, rights)
        command = self._migrating(self._filled(command, twin.document), twin, rights)
        limit = self._settings.max_bytes
        decision = things.with_metadata(command, things.decide(command, twin.document, limit), twin, limit)
        if decision.document is not None:
            self._settings.models.check(twin.document, decision.document, command.models)
        if command.migration is None:
            return self.commits.append(command, caller, [(key, decision)], rights)
        migrated = Migrated(key.id, command.value, command.is_dry_run)
        if migrated.tried:
            return Result(migrated), None
        return self.commits.append(command, caller, [(key, replace(decision, effect=migrated))], rights)

    def _filled(self, command: TwinCommand, thing: Document) -> TwinCommand:
        """A new feature with what its model adds."""
        if command.resource.part is not Part.FEATURE or command.action is not Action.MODIFY:
            return command
        if get(thing, command.resource.pointer) is not MISSING:
            return command
        return replace(command, value=self._settings.models.filled_feature(command.value, command.models))

    def _migrating(self, command: TwinCommand, twin: Twin, rights: Rights) -> TwinCommand:
        """A migration as the merge that it is."""
        migration = command.migration
        if migration is None:
            return command
        conditions = replace(command.conditions, parts=migration.conditions)
        reading = readable(command.group, rights)
        wanted = allowed_patch(conditions, migration.patch, twin, reading, self._now())
        patch = migration_patch(
            migration, wanted, twin.document, reading.visible(twin.document), self._settings.models, command.models
        )
        return replace(command, action=Action.MERGE, value=patch)

    def _without_failed_parts(self, command: TwinCommand, twin: Twin | None, rights: Rights) -> TwinCommand:
        """A merge without the parts whose own conditions are not true."""
        if not command.conditions.parts or command.action is not Action.MERGE:
            return command
        reading = readable(command.group, rights)
        return replace(command, value=allowed_patch(command.conditions, command.value, twin, reading, self._now()))

    def _decide_new_thing(
        self, command: TwinCommand, caller: Caller, key: EntityKey, looked_at: list[EntityKey], *, is_hidden: bool
    ) -> tuple[list[tuple[EntityKey, Decision]], Rights]:
        """The thing, after its policy if that is new as well; or what is wrong with it."""
        if not things.may_create(command):
            raise not_found(key.group, key.id)
        if self._settings.reserved(command.entity.namespace):
            raise TwinRefusal(NamespaceReserved(key.id))
        check_tags(key.group, command.conditions, NOTHING, reading=False)
        inline = things.inline_policy(command, is_new=True)
        policy_id = things.given_policy_id(command)
        source = things.copied_policy(command)
        if source is not None:
            inline = {**self._policy_to_copy(key.id, source, caller, looked_at), "policyId": policy_id or key.id}
        if policy_id is not None and inline is None:
            rights = self._check_policy(key.id, policy_id, caller, looked_at)
            return [(key, self._new_thing(command, policy_id))], rights
        policy = policy_key(key.id if inline is None else inline.get("policyId", key.id))
        if self._look(policy, looked_at) is not None and not is_hidden:
            raise TwinRefusal(PolicyExists(key.id, policy.id))
        given = policies.default_policy(policy.id, caller.names[0]) if inline is None else inline
        policy_decision, rights = self._decide_new_policy(policy.id, given, caller, looked_at)
        return [(policy, policy_decision), (key, self._new_thing(command, policy.id))], rights

    def _new_thing(self, command: TwinCommand, policy_id: str) -> Decision:
        limit = self._settings.max_bytes
        models = self._settings.models
        decision = things.decide_new(
            command, policy_id, limit, lambda thing: models.filled_thing(thing, command.models)
        )
        assert decision.document is not None
        models.check(None, decision.document, command.models)
        return things.with_metadata(command, decision, None, limit)

    def _policy_to_copy(self, thing_id: str, source: PolicySource, caller: Caller, looked_at: list[EntityKey]) -> Json:
        """The entries of another policy, for those who may read all of it. Whether others exist is not revealed."""
        policy_id: str | None = source.id
        if source.is_thing:
            twin = self._look(thing_key(source.id), looked_at)
            rights = NO_RIGHTS if twin is None else self._look_rights(twin, caller, looked_at)
            is_known = twin is not None and readable(EntityGroup.THINGS, rights).covers(("policyId",))
            policy_id = twin.document["policyId"] if twin is not None and is_known else None
        policy = None if policy_id is None else self._look(policy_key(policy_id), looked_at)
        rights = self._policy_rights(policy, policy_id or "", caller, looked_at)
        if policy is None or not readable(EntityGroup.POLICIES, rights).covers_all(()):
            raise TwinRefusal(PolicyNotUsable(thing_id, source.id))
        return policy.document

    def _check_policy(self, thing_id: str, policy_id: str, caller: Caller, looked_at: list[EntityKey]) -> Rights:
        """A thing can only get a policy that lets the caller write it. Whether others exist is not revealed."""
        policy = self._look(policy_key(policy_id), looked_at)
        rights = self._policy_rights(policy, thing_id, caller, looked_at)
        if not rights.scope(ResourceKind.THING, Permission.WRITE).covers_all(()):
            raise TwinRefusal(PolicyNotUsable(thing_id, policy_id))
        return rights

    # -- policies --------------------------------------------------------------------------------------------------

    def _policy(
        self, command: TwinCommand, caller: Caller, looked_at: list[EntityKey]
    ) -> tuple[Result, PendingChanges]:
        key = command.key
        twin = self._look(key, looked_at)
        rights = self._policy_rights(twin, key.id, caller, looked_at)
        if not readable(key.group, rights).touches(()) and policies.may_create(command):
            # As with things: errors are raised before it is revealed whether it exists.
            check_tags(key.group, command.conditions, NOTHING, reading=False)
            decision, new_rights = self._decide_new_policy(key.id, command.value, caller, looked_at)
            if twin is None:
                return self.commits.append(command, caller, [(key, decision)], new_rights)
        if twin is None:
            raise not_found(key.group, key.id)
        if command.action is Action.CREATE:
            raise TwinRefusal(AlreadyThere(key))
        enforce(command, rights)
        self._check_tags(command, twin, rights)
        decision = policies.decide(command, twin.document, self._policy_limits())
        self._check_imports(decision.document, twin.document, caller, looked_at)
        return self.commits.append(command, caller, [(key, decision)], rights)

    def _decide_new_policy(
        self, policy_id: str, value: Json, caller: Caller, looked_at: list[EntityKey]
    ) -> tuple[Decision, Rights]:
        """Nobody may create a policy that they could not change."""
        decision = policies.decide_new(policy_id, value, self._policy_limits())
        assert decision.document is not None
        self._check_imports(decision.document, None, caller, looked_at)
        effective = self._effective.evaluated(decision.document, self.lines.head_policy)
        rights = effective.access(_namespace(policy_id)).rights(caller.subjects)
        if not rights.scope(ResourceKind.POLICY, Permission.WRITE).covers_all(()):
            raise TwinRefusal(NotModifiable(policy_id, Resource(Part.POLICY, ())))
        return decision, rights

    def _policy_limits(self) -> PolicyLimits:
        return PolicyLimits(self._settings.max_bytes, self._now(), self._settings.expiry_granularity)

    def _check_imports(
        self, after: Document | None, before: Document | None, caller: Caller, looked_at: list[EntityKey]
    ) -> None:
        def may_import(id: str, wish: Json) -> bool:
            policy = self._look(policy_key(id), looked_at)
            reading = readable(EntityGroup.POLICIES, self._policy_rights(policy, id, caller, looked_at))
            return policy is not None and all(
                reading.covers_all(("entries", label)) for label in imported_labels(policy.document, wish)
            )

        if after is not None:
            check_imports(after, before, may_import, self._document_of)

    def _document_of(self, policy_id: str) -> Document | None:
        policy = self.lines.head_policy(policy_id)
        return None if policy is None else policy.document

    # -- reading ---------------------------------------------------------------------------------------------------

    def _retrieve(self, command: TwinCommand, caller: Caller, looked_at: list[EntityKey]) -> Result:
        key = command.key
        twin = self._look(key, looked_at)
        if twin is None:
            raise not_found(key.group, key.id)
        if key.group is EntityGroup.POLICIES:
            rights = self._policy_rights(twin, key.id, caller, looked_at)
            if command.is_resolved and not command.resource.pointer:
                document = self._effective.of(twin, self.lines.head_policy).document
                found = retrieve(
                    replace(command, conditions=NO_CONDITIONS), replace(twin, document=document), rights, None
                )
                return replace(found, tag=None)
            return retrieve(command, twin, rights, None)
        rights = self._look_rights(twin, caller, looked_at)
        policy = self.lines.head(policy_key(twin.document["policyId"]))
        enforce(command, rights)
        check_condition(command.conditions.condition, twin, readable(key.group, rights), self._now())
        return retrieve(command, twin, rights, None if policy is None else policy.document)

    def _retrieve_several(self, command: RetrieveThings, caller: Caller, looked_at: list[EntityKey]) -> Result:
        found: list[Json] = []
        whole = Resource(Part.THING, ())
        for entity in command.entities:
            one = TwinCommand(Action.RETRIEVE, EntityGroup.THINGS, entity, whole, "/", fields=command.fields)
            try:
                found.append(self._retrieve(one, caller, looked_at).value)
            except TwinRefusal:
                # Missing, or not to be known of.
                continue
        return Result(Effect.RETRIEVED, found)

    # -- states ----------------------------------------------------------------------------------------------------

    def _look(self, key: EntityKey, looked_at: list[EntityKey]) -> Twin | None:
        looked_at.append(key)
        return self.lines.head(key)

    def _look_rights(self, thing: Twin, caller: Caller, looked_at: list[EntityKey]) -> Rights:
        policy = self._look(policy_key(thing.document["policyId"]), looked_at)
        return self._policy_rights(policy, thing.document["thingId"], caller, looked_at)

    def _policy_rights(self, policy: Twin | None, id: str, caller: Caller, looked_at: list[EntityKey]) -> Rights:
        """What a caller may do to the entity with this ID, by a policy as it is about to be."""
        if policy is None:
            return NO_RIGHTS
        effective = self._effective.of(policy, self.lines.head_policy)
        looked_at += [policy_key(other) for other in effective.used]
        return effective.access(_namespace(id)).rights(caller.subjects)

    def _check_tags(self, command: TwinCommand, twin: Twin, rights: Rights) -> None:
        if not command.conditions.has_tags:
            return
        met = current(command.group, twin, rights, command.resource.pointer)
        # Nothing is there to be deleted: that is the better answer.
        if met.exists or command.action is not Action.DELETE:
            check_tags(command.group, command.conditions, met, reading=False)


def _namespace(id: str) -> str:
    return id.partition(":")[0]
