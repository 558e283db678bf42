"""Who sends a command: the subjects that policies know, and the connection it came by.

Who somebody is, doors find out. Upstream documentation: "Authentication and authorization".
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.twins.access import Subjects


@dataclass(frozen=True, slots=True)
class Caller:
    """`names` are subjects such as `nginx:ditto`, the foremost first: it is granted what a creator is granted.

    `origin` is whatever stands for the connection; events carry it, so that they are not sent back there.
    """

    names: tuple[str, ...]
    origin: object = None
    subjects: Subjects = field(init=False)

    def __post_init__(self) -> None:
        if not self.names:
            raise ValueError("names is empty; a caller has at least one subject")
        object.__setattr__(self, "subjects", frozenset(self.names))
