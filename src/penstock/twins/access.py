"""Who may do what, by a policy: grants and revokes for subjects and paths. The deepest path wins; in a tie, the revoke.

Pure evaluation; which permission a command needs is said in `enforcement`. Upstream documentation: "Policies".
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum

from penstock.wire.ditto.document import Json
from penstock.wire.ditto.kinds import EntityGroup
from penstock.wire.ditto.pointer import MISSING, Absent, Pointer, keys_of

# Sets of subjects whose rights one policy caches. With more of them, rights are computed again.
MAX_REMEMBERED = 256

Subjects = frozenset[str]


class ResourceKind(StrEnum):
    """What a resource of a policy is about."""

    THING = "thing"
    POLICY = "policy"
    MESSAGE = "message"


class Permission(StrEnum):
    READ = "READ"
    WRITE = "WRITE"
    EXECUTE = "EXECUTE"


class Scope:
    """Where some subjects have one permission: a tree of places, each granted, revoked, or inherited from above."""

    __slots__ = ("_below", "_effect", "_has_grant", "_has_revoke")

    def __init__(self) -> None:
        self._effect: bool | None = None
        self._below: dict[str, Scope] = {}
        # Here or anywhere below.
        self._has_grant = False
        self._has_revoke = False

    def add(self, pointer: Pointer, granted: bool) -> None:
        scope = self
        scope._note(granted)
        for key in pointer:
            scope = scope._below.setdefault(key, Scope())
            scope._note(granted)
        scope._effect = granted if scope._effect is None else scope._effect and granted

    def _note(self, granted: bool) -> None:
        if granted:
            self._has_grant = True
        else:
            self._has_revoke = True

    def covers(self, pointer: Pointer) -> bool:
        """Whether the permission is granted at this place itself."""
        return self._at(pointer)[0]

    def covers_all(self, pointer: Pointer) -> bool:
        """Whether it is granted here and everywhere below: unrestricted."""
        granted, scope = self._at(pointer)
        return granted and (scope is None or not scope._has_revoke)

    def touches(self, pointer: Pointer) -> bool:
        """Whether it is granted here or anywhere below, whether or not there is a value."""
        granted, scope = self._at(pointer)
        # A grant at a place may have lost to a revoke at the same one.
        return granted or (scope is not None and scope._has_grant and any(scope._effects()))

    def covers_patch(self, pointer: Pointer, patch: Json) -> bool:
        """Whether all that a merge patch writes may be written."""
        if type(patch) is dict and patch and not self.covers_all(pointer):
            return all(self.covers_patch((*pointer, key), value) for key, value in patch.items())
        return self.covers_all(pointer)

    def visible(self, value: Json, pointer: Pointer = ()) -> Json | Absent:
        """The value at a place without what is not covered; MISSING if nothing is left.

        An object stays as long as it is covered itself, even if nothing in it is. Arrays are taken as a whole.
        """
        granted, scope = self._at(pointer)
        return _visible(value, granted, scope)

    def _at(self, pointer: Pointer) -> tuple[bool, Scope | None]:
        scope: Scope | None = self
        granted = bool(self._effect)
        for key in pointer:
            assert scope is not None
            scope = scope._below.get(key)
            if scope is None:
                break
            if scope._effect is not None:
                granted = scope._effect
        return granted, scope

    def _effects(self) -> Iterator[bool]:
        if self._effect is not None:
            yield self._effect
        for scope in self._below.values():
            yield from scope._effects()


def _visible(value: Json, granted: bool, scope: Scope | None) -> Json | Absent:
    if scope is None or not scope._below or type(value) is not dict:
        return value if granted else MISSING
    result: dict[str, Json] = {}
    for key, inside in value.items():
        below = scope._below.get(key)
        effect = granted if below is None or below._effect is None else below._effect
        seen = _visible(inside, effect, below)
        if not isinstance(seen, Absent):
            result[key] = seen
    return result if result or granted else MISSING


class Rights:
    """All that some subjects may do by one policy."""

    __slots__ = ("_scopes",)

    def __init__(self, scopes: dict[tuple[str, str], Scope]) -> None:
        self._scopes = scopes

    def scope(self, kind: ResourceKind, permission: Permission) -> Scope:
        return self._scopes.get((kind, permission), _NOWHERE)


_NOWHERE = Scope()

# Grants nothing to anybody.
NO_RIGHTS = Rights({})


def kind_of(group: EntityGroup) -> ResourceKind:
    return ResourceKind.POLICY if group is EntityGroup.POLICIES else ResourceKind.THING


def readable(group: EntityGroup, rights: Rights) -> Scope:
    """What of a thing, or of a policy, may be read."""
    return rights.scope(kind_of(group), Permission.READ)


# Subjects, kind, place, permission, and whether it is granted or revoked.
_Rule = tuple[frozenset[str], str, Pointer, str, bool]


class Access:
    """A policy, ready to be evaluated. Its document is known to be valid."""

    def __init__(self, policy: Json) -> None:
        self._rules = list(_rules(policy))
        self._remembered: dict[Subjects, Rights] = {}

    def rights(self, subjects: Subjects) -> Rights:
        """What these subjects together may do."""
        found = self._remembered.get(subjects)
        if found is None:
            if len(self._remembered) >= MAX_REMEMBERED:
                self._remembered.clear()
            found = self._remembered[subjects] = self._worked_out(subjects)
        return found

    def readers(self) -> Subjects:
        """All subjects that may read something of a thing, and perhaps some that may not: those with any grant."""
        return frozenset(
            [
                subject
                for holders, kind, _, permission, granted in self._rules
                if granted and kind == ResourceKind.THING and permission == Permission.READ
                for subject in holders
            ]
        )

    def _worked_out(self, subjects: Subjects) -> Rights:
        scopes: dict[tuple[str, str], Scope] = {}
        for holders, kind, pointer, permission, granted in self._rules:
            if not holders.isdisjoint(subjects):
                scopes.setdefault((kind, permission), Scope()).add(pointer, granted)
        return Rights(scopes)


def _rules(policy: Json) -> Iterator[_Rule]:
    for entry in policy["entries"].values():
        holders = frozenset(entry["subjects"])
        for name, effect in entry["resources"].items():
            kind, _, path = name.partition(":")
            pointer = keys_of(path)
            for permission in effect["grant"]:
                yield holders, kind, pointer, permission, True
            for permission in effect["revoke"]:
                yield holders, kind, pointer, permission, False
