"""Rules: which user or role may see which items, how, and how much. The first rule that fits decides.

What nobody is granted is denied. Not here: who a user is (users, tokens), asking the rules (metadata).
Read next: docs/access.md; Table 4 of the General Concepts for who decides what.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Annotated, NamedTuple, TypeVar

from msgspec import Meta, Struct

from penstock.adapters.access.pattern import Pattern
from penstock.adapters.access.settings import AccessError, allowed, read, wrong
from penstock.kernel.item import Mode

T = TypeVar("T")

# Stands for every user who has a name, among the users of a rule.
ANY_USER = "*"

# Above this a limit is none; it also keeps out TOML's `inf`.
LARGEST_RATE = 1e9
LARGEST_COUNT = 2_147_483_647

# Decisions kept, since each is asked for several times in a row; those used least go first.
MAX_KEPT_DECISIONS = 10_000

Name = Annotated[str, Meta(min_length=1)]
Names = Annotated[tuple[Name, ...], Meta(min_length=1)]
Rate = Annotated[float, Meta(gt=0, le=LARGEST_RATE)]
Count = Annotated[int, Meta(ge=1, le=LARGEST_COUNT)]

A_RATE = f"a number above 0, up to {LARGEST_RATE:.0f}"
A_COUNT = f"a whole number from 1 to {LARGEST_COUNT}"
A_SWITCH = "true or false"
A_PATTERN = "patterns of item names, in which * stands for any characters and {user} for the user's name"
AN_APPLICATION = "patterns of application identifiers, as those of items"
MODES = ", ".join(f'"{mode.value}"' for mode in Mode)


class KnownUser(NamedTuple):
    """Somebody, as far as rules care; no name means that nobody has vouched for one."""

    user: str | None
    roles: frozenset[str]


class Rule(Struct, frozen=True, kw_only=True):
    """One table of `rules`: whom it is for, which items it is about, what it says."""

    name: Annotated[Name, allowed("a name for messages, not empty")] = ""
    users: Annotated[Names, allowed('a list of user names; "*" is everybody who has one')] = ()
    roles: Annotated[Names, allowed("a list of roles")] = ()

    data_adapters: Annotated[Names, allowed("a list of names of data adapters")] = ()
    items: Annotated[Names, allowed(f"a list of {A_PATTERN}")] = ()
    deny: Annotated[bool, allowed(A_SWITCH)] = False
    modes: Annotated[tuple[Mode, ...], Meta(min_length=1), allowed(f"a list of {MODES}")] = tuple(Mode)
    max_frequency: Annotated[Rate | None, allowed(A_RATE)] = None
    max_buffer_size: Annotated[Count | None, allowed(A_COUNT)] = None
    push: Annotated[bool, allowed(A_SWITCH)] = True

    # Of the item, whoever asks for it.
    snapshot_length: Annotated[Count | None, allowed(A_COUNT)] = None
    prefilter_frequency: Annotated[Rate | None, allowed(A_RATE)] = None

    # Of the session, whatever it subscribes to.
    max_bandwidth: Annotated[Rate | None, allowed(A_RATE)] = None
    manages_bandwidth: Annotated[bool | None, allowed(A_SWITCH)] = None
    may_send_messages: Annotated[bool | None, allowed(A_SWITCH)] = None
    push_applications: Annotated[tuple[Name, ...] | None, allowed(f"a list of {AN_APPLICATION}")] = None

    def is_for(self, who: KnownUser) -> bool:
        if not self.users and not self.roles:
            return True
        named = who.user is not None and (ANY_USER in self.users or who.user in self.users)
        return named or not who.roles.isdisjoint(self.roles)


OF_A_GRANT = ("modes", "max_frequency", "max_buffer_size", "push", "snapshot_length", "prefilter_frequency")
ABOUT_ITEMS = ("data_adapters", "deny", *OF_A_GRANT)
ABOUT_SESSIONS = ("max_bandwidth", "manages_bandwidth", "may_send_messages", "push_applications")
NOT_WITH_DENY = (*OF_A_GRANT, *ABOUT_SESSIONS)


class _Entry(NamedTuple):
    """A rule at work."""

    rule: Rule
    patterns: tuple[Pattern, ...]
    # None where the rule does not say anything about them.
    applications: tuple[Pattern, ...] | None

    def is_about(self, data_adapter: str) -> bool:
        return not self.rule.data_adapters or data_adapter in self.rule.data_adapters

    def fits(self, data_adapter: str, item: str, user: str | None) -> bool:
        return self.is_about(data_adapter) and any(pattern.matches(item, user) for pattern in self.patterns)

    def fits_anybody(self, data_adapter: str, item: str) -> bool:
        return self.is_about(data_adapter) and any(pattern.matches_of_anybody(item) for pattern in self.patterns)


class Rules:
    """All rules of an adapter set. May be asked from any thread."""

    def __init__(self, tables: object, anybody_has_a_name: bool = True) -> None:
        """Raises AccessError. Where no names are known, rules that need one could only be mistakes."""
        if not isinstance(tables, Sequence) or isinstance(tables, str | bytes):
            raise AccessError(f"rules: expected a list of tables, written as [[…rules]], not {type(tables).__name__}")
        self._entries = tuple([_entry(table, _place(index, table)) for index, table in enumerate(tables, 1)])
        if not anybody_has_a_name:
            for index, entry in enumerate(self._entries, 1):
                _check_needs_no_name(entry, _place(index, tables[index - 1]))
        self._of = lru_cache(MAX_KEPT_DECISIONS)(self._find_entries)
        self.grant = lru_cache(MAX_KEPT_DECISIONS)(self._find_grant)

    # -- subscriptions --------------------------------------------------------------------------------------------

    # `grant(who, data_adapter, item)` is the rule by which somebody may see an item; None if nothing allows it.
    grant: Callable[[KnownUser, str, str], Rule | None]

    def _find_grant(self, who: KnownUser, data_adapter: str, item: str) -> Rule | None:
        for entry in self._of(who):
            if entry.fits(data_adapter, item, who.user):
                return None if entry.rule.deny else entry.rule
        return None

    def _find_entries(self, who: KnownUser) -> tuple[_Entry, ...]:
        return tuple([entry for entry in self._entries if entry.rule.is_for(who)])

    def snapshot_length(self, data_adapter: str, item: str) -> int | None:
        return self._said_of(data_adapter, item, lambda rule: rule.snapshot_length)

    def prefilter_frequency(self, data_adapter: str, item: str) -> float | None:
        return self._said_of(data_adapter, item, lambda rule: rule.prefilter_frequency)

    def _said_of(self, data_adapter: str, item: str, said: Callable[[Rule], T | None]) -> T | None:
        for entry in self._entries:
            if (found := said(entry.rule)) is not None and entry.fits_anybody(data_adapter, item):
                return found
        return None

    # -- sessions -------------------------------------------------------------------------------------------------

    def max_bandwidth(self, who: KnownUser) -> float | None:
        return self._said_to(who, lambda rule: rule.max_bandwidth)

    def manages_bandwidth(self, who: KnownUser) -> bool:
        found = self._said_to(who, lambda rule: rule.manages_bandwidth)
        return True if found is None else found

    def may_send_messages(self, who: KnownUser) -> bool:
        return self._said_to(who, lambda rule: rule.may_send_messages) or False

    def may_use_application(self, who: KnownUser, application: str) -> bool:
        """Whether somebody may have push notifications for this application."""
        said = next((entry.applications for entry in self._of(who) if entry.applications is not None), ())
        return any(pattern.matches(application, who.user) for pattern in said)

    def _said_to(self, who: KnownUser, said: Callable[[Rule], T | None]) -> T | None:
        return next((found for entry in self._of(who) if (found := said(entry.rule)) is not None), None)


def _place(index: int, table: object) -> str:
    name = table.get("name") if isinstance(table, dict) else None
    return f"rule {index} ({name})" if isinstance(name, str) and name else f"rule {index}"


def _entry(table: object, place: str) -> _Entry:
    rule = read(Rule, table, place)
    given = [key for key in table if key != "name"] if isinstance(table, dict) else []
    patterns = _patterns(rule.items, place, "items", A_PATTERN)
    applications = rule.push_applications
    if not rule.items:
        for key in given:
            if key in ABOUT_ITEMS:
                raise AccessError(f'{place}: {key} without items: expected items = ["…"] in the same rule')
        if not any(key in ABOUT_SESSIONS for key in given):
            raise AccessError(f"{place}: grants nothing: expected items or one of {', '.join(ABOUT_SESSIONS)}")
    if rule.deny:
        for key in given:
            if key in NOT_WITH_DENY:
                raise AccessError(f"{place}: {key} with deny = true: expected only users, roles, data_adapters, items")
    return _Entry(
        rule,
        patterns,
        None if applications is None else _patterns(applications, place, "push_applications", AN_APPLICATION),
    )


def _patterns(texts: Sequence[str], place: str, key: str, expected: str) -> tuple[Pattern, ...]:
    patterns = []
    for text in texts:
        try:
            patterns.append(Pattern(text))
        except ValueError:
            raise wrong(place, key, text, expected) from None
    return tuple(patterns)


def _check_needs_no_name(entry: _Entry, place: str) -> None:
    for key, used in (
        ("users", entry.rule.users),
        ("roles", entry.rule.roles),
        ("{user} in items", any(pattern.is_personal for pattern in entry.patterns)),
        ("{user} in push_applications", any(pattern.is_personal for pattern in entry.applications or ())),
    ):
        if used:
            raise AccessError(f"{place}: {key} without users or tokens: expected one of them, or nobody has a name")
