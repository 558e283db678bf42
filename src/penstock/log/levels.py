"""From which level on each category is written: a category is a room or a module, and counts for all below it.

Libraries are categories under `penstock.library`. Not here: what is done with a line (handler, taps).
Read next: docs/configuration.md, "Logs".
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from penstock.log.lines import LIBRARY, category_of

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}

WHOLE = "penstock"

# Libraries that log what they receive or send below this level: whole requests, statements and addresses, with
# passwords and tokens in them. They are never asked for more, whatever somebody sets.
TALKATIVE = ("hpack", "httpcore", "httpx", "sqlalchemy", "urllib3", "websockets")
TALKATIVE_LEVEL = "warning"

_PACKAGE = Path(__file__).parent.parent


class LevelError(ValueError):
    """A category that does not exist or a level that it cannot have; `str()` is one line that says what is allowed."""


def check_level(category: str, level: str) -> None:
    """Raise a LevelError unless the category may have the level."""
    if level not in LEVELS:
        raise LevelError(f"{level!r} is not a level; expected one of {', '.join(LEVELS)}")
    _check_category(category)
    library = category.removeprefix(f"{LIBRARY}.").partition(".")[0]
    if category.startswith(LIBRARY) and library in TALKATIVE and LEVELS[level] < LEVELS[TALKATIVE_LEVEL]:
        raise LevelError(
            f"{category} cannot be {level!r}, because it would log passwords; expected {TALKATIVE_LEVEL} or error"
        )


def _check_category(category: str) -> None:
    first, *names = category.split(".")
    if category == LIBRARY or category.startswith(f"{LIBRARY}."):
        if all(names):
            return
    elif first == WHOLE and all(name.isidentifier() for name in names):
        place = _PACKAGE.joinpath(*names)
        if place.is_dir() or (names and place.with_suffix(".py").is_file()):
            return
    rooms = sorted(path.stem for path in _PACKAGE.iterdir() if (path / "__init__.py").exists() or path.suffix == ".py")
    known = ", ".join(f"{WHOLE}.{room}" for room in rooms if not room.startswith("_"))
    raise LevelError(f"{category!r} is not a category; expected {WHOLE}, {known}, a module of these, or {LIBRARY}.NAME")


class Levels:
    """The levels of the process: those of the configuration, and what is set over them while it runs."""

    def __init__(self) -> None:
        self._configured: dict[str, str] = {}
        self._set: dict[str, str] = {}

    def configure(self, level: str, levels: Mapping[str, str]) -> None:
        """Begin again with those of the configuration. Raises a LevelError before anything has changed."""
        self._replace(_checked(level, levels), {})

    def change(self, level: str, levels: Mapping[str, str]) -> None:
        """Go on with those of another configuration. What was set stays, except for a category of which the two
        configurations say different things. Raises a LevelError before anything has changed.
        """
        wanted, known = _checked(level, levels), self._configured
        kept = {name: each for name, each in self._set.items() if wanted.get(name) == known.get(name)}
        self._replace(wanted, kept)

    def _replace(self, configured: dict[str, str], over: dict[str, str]) -> None:
        before = [*self._configured, *self._set]
        self._configured, self._set = configured, over
        self._apply(before)

    def set(self, category: str, level: str | None) -> None:
        """None: what the configuration says again. Raises a LevelError before anything has changed."""
        if level is not None:
            check_level(category, level)
            self._set[category] = level
        else:
            _check_category(category)
            self._set.pop(category, None)
        self._apply([category])

    def set_alone(self, levels: Mapping[str, str]) -> None:
        """These are set over the configuration, and no others. Raises a LevelError before anything has changed."""
        for category, level in levels.items():
            check_level(category, level)
        self._replace(self._configured, dict(levels))

    @property
    def over(self) -> dict[str, str]:
        """Those that are set over the configuration."""
        return dict(self._set)

    def all(self) -> dict[str, str]:
        """Every category that there is by now, with the level that counts for it."""
        categories = {WHOLE, LIBRARY, *self._configured, *self._set, *(f"{LIBRARY}.{name}" for name in TALKATIVE)}
        categories.update(category_of(name) for name in list(logging.root.manager.loggerDict))
        return {category: _name(_logger(category).getEffectiveLevel()) for category in sorted(categories)}

    def _apply(self, before: list[str]) -> None:
        wanted = self._configured | self._set
        for category in before:
            if category not in wanted:
                _logger(category).setLevel(logging.NOTSET)
        for category, level in wanted.items():
            _logger(category).setLevel(LEVELS[level])
        # The root logger, which is that of all libraries, is not under ours.
        of_libraries = wanted.get(LIBRARY) or wanted.get(WHOLE)
        if of_libraries is not None:
            _logger(LIBRARY).setLevel(LEVELS[of_libraries])
        for name in TALKATIVE:
            category = f"{LIBRARY}.{name}"
            of_one = wanted.get(category) or of_libraries or TALKATIVE_LEVEL
            _logger(category).setLevel(max(LEVELS[of_one], LEVELS[TALKATIVE_LEVEL]))


def _checked(level: str, levels: Mapping[str, str]) -> dict[str, str]:
    wanted = {WHOLE: level, **levels}
    for category, each in wanted.items():
        check_level(category, each)
    return wanted


def _logger(category: str) -> logging.Logger:
    if category == LIBRARY:
        return logging.getLogger()
    return logging.getLogger(category.removeprefix(f"{LIBRARY}."))


def _name(level: int) -> str:
    """The nearest of ours: libraries may have levels between them."""
    return next((name for name, value in LEVELS.items() if level <= value), "error")
