"""Derived items: what a selector or a customizer leaves of an item, under a name of its own that only edges ask for.

Functions of a metadata adapter cannot be sent to an edge. So they run at the hub; the edge subscribes to the result.
Who makes derived items is in `owner`; for whom, in `guests`.
"""

from __future__ import annotations

from penstock.kernel.item import Mode
from penstock.kernel.ports import Customizer, Selector

# Who resolves groups refuses names of items that begin with it, so that no client can ask for a derived item itself.
_MARK = "\x01"


def derived_name(item: str, token: str) -> str:
    """The name under which an edge knows what is left of an item."""
    return f"{_MARK}{token}{_MARK}{item}"


def is_derived(name: str) -> bool:
    return name.startswith(_MARK)


def real_name(name: str) -> str:
    """The item behind a name, for lists and logs; of an item that is not derived, its own."""
    return name.split(_MARK, 2)[2] if is_derived(name) and name.count(_MARK) > 1 else name


# Edge, mode, adapter set, data adapter, item, and the identity of the selector.
SharingKey = tuple[str, Mode, str, str, str, int]


class Derivation:
    """What is left of one item, in one mode, for the subscriptions of an edge that use it."""

    __slots__ = ("adapter_set", "customizer", "data_adapter", "item", "mode", "name", "selector", "sharing", "users")

    def __init__(
        self,
        name: str,
        mode: Mode,
        adapter_set: str,
        data_adapter: str,
        item: str,
        customizer: Customizer | None,
        selector: Selector | None,
        sharing: SharingKey | None,
    ) -> None:
        self.name = name
        self.mode = mode
        self.adapter_set = adapter_set
        self.data_adapter = data_adapter
        self.item = item
        self.customizer = customizer
        self.selector = selector
        # What others that may use it have in common with it; None if nobody else may.
        self.sharing = sharing
        # Session and number of each subscription.
        self.users: set[tuple[str, int]] = set()


class DerivedItems:
    """All derivations of a hub. Subscriptions of an edge with the same selector and no customizer share one."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self._count = 0
        self._by_name: dict[str, Derivation] = {}
        self._shared: dict[SharingKey, Derivation] = {}
        # Of each session at each edge, by the numbers of its subscriptions.
        self._used: dict[tuple[str, str], dict[int, list[Derivation]]] = {}

    def derive(
        self,
        edge: str,
        session: str,
        number: int,
        mode: Mode,
        adapter_set: str,
        data_adapter: str,
        item: str,
        customizer: Customizer | None,
        selector: Selector | None,
        name: str = "",
    ) -> str:
        """Register what a subscription is to have of an item; the name that its edge is to ask for.

        `name` is one that a former hub gave: the edge has asked for it already.
        """
        sharing: SharingKey | None = None
        if customizer is None and selector is not None:
            sharing = (edge, mode, adapter_set, data_adapter, item, id(selector))
        found = self._by_name.get(name) if name else (self._shared.get(sharing) if sharing is not None else None)
        if found is None:
            if not name:
                self._count += 1
                # The epoch makes it differ from those that another hub has given.
                name = derived_name(item, f"{self._epoch:x}.{self._count:x}")
            found = Derivation(name, mode, adapter_set, data_adapter, item, customizer, selector, sharing)
            self._by_name[name] = found
            if sharing is not None:
                self._shared.setdefault(sharing, found)
        found.users.add((session, number))
        self._used.setdefault((edge, session), {}).setdefault(number, []).append(found)
        return found.name

    def find(self, name: str) -> Derivation | None:
        return self._by_name.get(name)

    def forget(self, edge: str, session: str, number: int) -> None:
        """A subscription has ended, or has not come about."""
        used = self._used.get((edge, session))
        if used is None:
            return
        for derivation in used.pop(number, []):
            derivation.users.discard((session, number))
            if not derivation.users:
                self._drop(derivation)
        if not used:
            del self._used[edge, session]

    def forget_session(self, edge: str, session: str) -> None:
        for number in list(self._used.get((edge, session), ())):
            self.forget(edge, session, number)

    def _drop(self, derivation: Derivation) -> None:
        self._by_name.pop(derivation.name, None)
        sharing = derivation.sharing
        if sharing is not None and self._shared.get(sharing) is derivation:
            del self._shared[sharing]
