"""An object in front of another one. Compiled classes have no attributes that a test could replace."""

from __future__ import annotations

from typing import Any


class StandIn:
    """What is given replaces the attributes of that name; all others are those of the object behind it."""

    def __init__(self, behind: object, **given: object) -> None:
        self._behind = behind
        self.__dict__.update(given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)
