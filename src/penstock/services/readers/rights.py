"""Who may read the journal over the network, and which entities: the tokens of `[journal.readers.NAME]`.

Tokens are compared by their digests, so that the time a comparison takes tells nothing of them. A file of tokens is
read again when it has changed: a new token is added, used, and the old one removed, without a restart.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from penstock.config.readers import moment_of
from penstock.config.schema.journal import ReaderSection
from penstock.config.tokens import tokens_in
from penstock.log import get
from penstock.services.readers.problems import ReadingProblem

log = get(__name__)

EXPECTED = "expected the header Authorization with Bearer and the token of a reader, see [journal.readers]"

# All entities.
EVERY = "*"


@dataclass(frozen=True, slots=True)
class RemoteReader:
    """Somebody with a valid token. `expires` is in seconds since 1970; None: never."""

    name: str
    entities: tuple[str, ...]
    expires: float | None

    @property
    def sees_all(self) -> bool:
        return EVERY in self.entities

    def check_expiry(self, now: float) -> None:
        """Raises a ReadingProblem."""
        if self.expires is not None and now >= self.expires:
            ended = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.expires))
            raise ReadingProblem(401, f"the token of the reader {self.name} expired at {ended}")

    def check_entities(self, patterns: Sequence[str]) -> None:
        """Refuse a pattern that no entity fits which this reader may see. Raises a ReadingProblem."""
        for pattern in patterns:
            if not any(overlap(pattern, allowed) for allowed in self.entities):
                allowed = ", ".join(self.entities)
                raise ReadingProblem(
                    403, f"the reader {self.name} has no right to read {pattern}; its entities are {allowed}"
                )

    def check_all_of(self, patterns: Sequence[str]) -> None:
        """Refuse a pattern that entities fit which this reader may not see. Raises a ReadingProblem."""
        for pattern in patterns:
            if not any(covers(allowed, pattern) for allowed in self.entities):
                allowed = ", ".join(self.entities)
                raise ReadingProblem(
                    403,
                    f"the reader {self.name} has no right to read all of {pattern}; its entities are {allowed}",
                )


class Readers:
    """All readers of a configuration. Reads files: not for an event loop."""

    def __init__(self, sections: Mapping[str, ReaderSection], clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._known = [_Known(name, section) for name, section in sections.items()]

    def identify(self, authorization: str | None) -> RemoteReader:
        """Who has sent a request with this header; raises a ReadingProblem with 401."""
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise ReadingProblem(401, EXPECTED)
        digest = _digest(token.strip())
        found = [known.reader for known in self._known if digest in known.digests()]
        if not found:
            raise ReadingProblem(401, "the token is not known")
        found[0].check_expiry(self._clock())
        return found[0]


class _Known:
    """A reader and its tokens as they are now."""

    def __init__(self, name: str, section: ReaderSection) -> None:
        self.reader = RemoteReader(name, section.entities, moment_of(section.expires) if section.expires else None)
        self._path = Path(section.token_file) if section.token_file else None
        self._digests = frozenset([_digest(section.token)]) if section.token else frozenset()
        # What tells that the file has changed.
        self._state: tuple[int, ...] = ()

    def digests(self) -> frozenset[bytes]:
        if self._path is None:
            return self._digests
        try:
            found = self._path.stat()
            state = found.st_mtime_ns, found.st_size, found.st_ino
            if state != self._state:
                self._digests = frozenset(_digest(token) for token in tokens_in(self._path.read_text("utf-8")))
                self._state = state
        except (OSError, UnicodeDecodeError) as error:
            # Those that were valid stay valid: a file that is just being replaced may be missing for a moment.
            log.warning("tokens of a reader cannot be read again", reader=self.reader.name, reason=str(error))
        return self._digests


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


@lru_cache(1024)
def covers(allowed: str, pattern: str) -> bool:
    """Whether every name that fits the pattern fits the allowed one. In doubt not."""
    places = {EVERY: ".*", "?": r"[^*]"}
    fitting = "".join([places.get(each, re.escape(each)) for each in allowed])
    return re.fullmatch(fitting, pattern, re.DOTALL) is not None


@lru_cache(1024)
def overlap(one: str, other: str) -> bool:
    """Whether some name fits both patterns, in which `*` stands for any characters and `?` for one."""
    # Places in both patterns that can be reached with the same name, from the beginning of both.
    reached = {(0, 0)}
    waiting = [(0, 0)]
    while waiting:
        a, b = waiting.pop()
        if a == len(one) and b == len(other):
            return True
        left, right = one[a : a + 1], other[b : b + 1]
        following = []
        if left == EVERY:
            following += [(a + 1, b)] + ([(a, b + 1)] if right else [])
        if right == EVERY:
            following += [(a, b + 1)] + ([(a + 1, b)] if left else [])
        if left and right and EVERY not in (left, right) and (left == right or "?" in (left, right)):
            following.append((a + 1, b + 1))
        for place in following:
            if place not in reached:
                reached.add(place)
                waiting.append(place)
    return False
