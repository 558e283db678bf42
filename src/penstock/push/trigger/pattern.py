"""Regular expressions of Java that take linear time: what `String.matches` of a trigger means, and accept patterns.

Whether a text matches as a whole, and nothing else: no groups to ask for, so that greedy and reluctant are the same.
What needs backtracking (references, lookaround, possessive quantifiers, atomic groups) is refused, and so is what Java
alone means in another way than everybody thinks. A pattern is a program of a few instructions; the sets of places where
it may be are the states of an automaton that is made as far as texts need it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from penstock.push.trigger.failure import Wrong

# Characters of a pattern.
MAX_LENGTH = 1_000
# Places of a program; {n} counts as many times as it says.
MAX_SIZE = 1_000
# Groups inside one another.
MAX_DEPTH = 30
# Transitions that are remembered; when there are more, the automaton is begun anew.
MAX_KNOWN = 4_000

_LINE_ENDS = "\n\r\u0085\u2028\u2029"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_POSIX: dict[str, Callable[[str], bool]] = {
    "Lower": lambda c: "a" <= c <= "z",
    "Upper": lambda c: "A" <= c <= "Z",
    "ASCII": lambda c: c <= "\x7f",
    "Alpha": lambda c: c.isascii() and c.isalpha(),
    "Digit": lambda c: "0" <= c <= "9",
    "Alnum": lambda c: c.isascii() and c.isalnum(),
    "Punct": lambda c: "!" <= c <= "~" and not c.isalnum(),
    "Graph": lambda c: "!" <= c <= "~",
    "Print": lambda c: " " <= c <= "~",
    "Blank": lambda c: c in " \t",
    "Cntrl": lambda c: c <= "\x1f" or c == "\x7f",
    "XDigit": lambda c: c in "0123456789abcdefABCDEF",
    "Space": lambda c: c in " \t\n\x0b\f\r",
}
_SHORTHANDS: dict[str, Callable[[str], bool]] = {
    "d": _POSIX["Digit"],
    "s": _POSIX["Space"],
    "w": lambda c: c == "_" or (c.isascii() and c.isalnum()),
}
_CATEGORIES = frozenset({"L", "Lu", "Ll", "M", "N", "Nd", "P", "S", "Sc", "Z"})

Test = Callable[[str], bool]


# -- the tree ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _One:
    """A character that passes the test."""

    test: Test


@dataclass(frozen=True, slots=True)
class _Edge:
    """The beginning or the end of the text."""

    is_end: bool


@dataclass(frozen=True, slots=True)
class _Row:
    parts: tuple[_Node, ...]


@dataclass(frozen=True, slots=True)
class _Choice:
    parts: tuple[_Node, ...]


@dataclass(frozen=True, slots=True)
class _Repeat:
    part: _Node
    least: int
    # None: as many as there are.
    most: int | None


_Node = _One | _Edge | _Row | _Choice | _Repeat


class _Reader:
    """From the text of a pattern to its tree."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._ignores_case = False
        self._dot_is_all = False

    def read(self) -> _Node:
        self._flags()
        node = self._choice()
        if self._at < len(self._text):
            raise self._wrong("a closing ) has no opening one")
        return node

    def _flags(self) -> None:
        """(?i) and (?s) at the very beginning."""
        while self._text.startswith("(?", self._at):
            end = self._text.find(")", self._at)
            letters = self._text[self._at + 2 : end]
            if end < 0 or not letters or not set(letters) <= {"i", "s"}:
                return
            self._ignores_case |= "i" in letters
            self._dot_is_all |= "s" in letters
            self._at = end + 1

    def _choice(self) -> _Node:
        parts = [self._row()]
        while self._take("|"):
            parts.append(self._row())
        return parts[0] if len(parts) == 1 else _Choice(tuple(parts))

    def _row(self) -> _Node:
        parts: list[_Node] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            if self._text.startswith("\\Q", self._at):
                parts += self._quotation()
            else:
                parts.append(self._repeated(self._atom()))
        return _Row(tuple(parts))

    def _quotation(self) -> list[_Node]:
        end = self._text.find("\\E", self._at + 2)
        quoted = self._text[self._at + 2 : end if end >= 0 else len(self._text)]
        self._at = end + 2 if end >= 0 else len(self._text)
        parts: list[_Node] = [self._literal(character) for character in quoted]
        if parts:
            parts[-1] = self._repeated(parts[-1])
        return parts

    def _repeated(self, node: _Node) -> _Node:
        place = self._at
        if self._take("*"):
            least, most = 0, None
        elif self._take("+"):
            least, most = 1, None
        elif self._take("?"):
            least, most = 0, 1
        elif self._take("{"):
            least, most = self._counts()
        else:
            return node
        if isinstance(node, _Edge):
            raise Wrong(place, "^ and $ cannot be repeated")
        if self._take("+"):
            raise self._wrong("possessive quantifiers are not supported, because they need backtracking", -1)
        self._take("?")
        if self._at < len(self._text) and self._text[self._at] in "*+?{":
            raise self._wrong(f"nothing is there that {self._text[self._at]} could repeat")
        return _Repeat(node, least, most)

    def _counts(self) -> tuple[int, int | None]:
        end = self._text.find("}", self._at)
        least, comma, most = self._text[self._at : max(end, self._at)].partition(",")
        if not _is_count(least) or (most and not _is_count(most)):
            raise self._wrong("a { must be a count such as {2}, {2,} or {2,5}; write \\{ for the character", -1)
        low, high = int(least), int(most) if most else (None if comma else int(least))
        if high is not None and high < low:
            raise self._wrong(f"a count that ends ({high}) before it begins ({low})", -1)
        self._at = end + 1
        return low, high

    def _atom(self) -> _Node:
        character = self._next()
        match character:
            case "(":
                return self._group()
            case "[":
                return _One(self._class())
            case ".":
                return _One(_anything if self._dot_is_all else _no_line_end)
            case "^":
                return _Edge(is_end=False)
            case "$":
                return self._end()
            case "\\":
                return self._escape()
            case "*" | "+" | "?" | "{":
                raise self._wrong(f"nothing is there that {character} could repeat", -1)
        return self._literal(character)

    def _end(self) -> _Node:
        # Java's $ is also in front of a last line end: what follows it there would match in Java and not here.
        if self._at < len(self._text) and self._text[self._at] not in "|)":
            raise self._wrong("$ is allowed at the end only")
        return _Edge(is_end=True)

    def _group(self) -> _Node:
        place = self._at - 1
        if self._take("?"):
            if self._text.startswith(("<=", "<!"), self._at) or self._text[self._at : self._at + 1] in ("=", "!"):
                raise Wrong(place, "lookahead and lookbehind are not supported, because they need backtracking")
            if self._take("<"):
                end = self._text.find(">", self._at)
                name = self._text[self._at : max(end, self._at)]
                if not (name.isascii() and name.isalnum() and name[0].isalpha()):
                    raise Wrong(place, "the name of a group must be letters and digits, closed by >")
                self._at = end + 1
            elif not self._take(":"):
                raise Wrong(place, "(? is allowed as (?:…), (?<name>…), and (?i) or (?s) at the beginning")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Wrong(place, f"groups are nested more than {MAX_DEPTH} levels deep")
        node = self._choice()
        self._depth -= 1
        if not self._take(")"):
            raise Wrong(place, "an opening ( has no closing one")
        return node

    def _escape(self) -> _Node:
        if self._text[self._at : self._at + 1] in ("A", "z", "Z"):
            letter = self._next()
            return _Edge(is_end=False) if letter == "A" else self._end()
        found = self._escaped()
        return self._literal(found) if isinstance(found, str) else _One(found)

    def _escaped(self) -> str | Test:
        """What is behind a backslash: a character, or a test for several."""
        place = self._at - 1
        if self._at == len(self._text):
            raise Wrong(place, "a \\ at the end escapes nothing")
        letter = self._next()
        if letter in _ESCAPES:
            return _ESCAPES[letter]
        if letter in "dsw":
            return _SHORTHANDS[letter]
        if letter in "DSW":
            return _inverted(_SHORTHANDS[letter.lower()])
        if letter in "pP":
            test = self._property(place)
            return test if letter == "p" else _inverted(test)
        if letter in "xu":
            return self._code(2 if letter == "x" else 4, place)
        if letter.isascii() and letter.isalnum():
            raise Wrong(place, f"\\{letter} is not supported")
        return letter

    def _property(self, place: int) -> Test:
        if self._take("{"):
            end = self._text.find("}", self._at)
            name = self._text[self._at : max(end, self._at)]
            self._at = end + 1
        else:
            name = self._text[self._at : self._at + 1]
            self._at += 1
        if name in _POSIX:
            return _POSIX[name]
        category = name.removeprefix("Is") if len(name) > 2 else name
        if category in _CATEGORIES:
            return lambda c: unicodedata.category(c).startswith(category)
        raise Wrong(place, f"\\p{{{name[:20]}}} is not supported; \\p{{Alpha}} or \\p{{Lu}} are")

    def _code(self, count: int, place: int) -> str:
        digits = self._text[self._at : self._at + count]
        if len(digits) < count or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
            raise Wrong(place, f"the code of a character must have {count} hexadecimal digits")
        self._at += count
        code = chr(int(digits, 16))
        if "\ud800" <= code <= "\udfff":
            raise Wrong(place, "an unpaired surrogate is not a character; write the character itself")
        return code

    def _class(self) -> Test:
        place = self._at - 1
        is_inverted = self._take("^")
        characters: set[str] = set()
        ranges: list[tuple[str, str]] = []
        tests: list[Test] = []
        while not self._take("]"):
            if self._at >= len(self._text):
                raise Wrong(place, "an opening [ has no closing one")
            first = self._member()
            if self._text.startswith("-", self._at) and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
                dash = self._at
                self._at += 1
                last = self._member()
                if not isinstance(first, str) or not isinstance(last, str) or last < first:
                    raise Wrong(dash, "a range in [] must go from one character to a later one; write \\- for the sign")
                ranges.append((first, last))
            elif isinstance(first, str):
                characters.add(first)
            else:
                tests.append(first)
        if not (characters or ranges or tests):
            raise Wrong(place, "[] has no characters; write \\] for the bracket")
        test = _any_of(frozenset(characters), tuple(ranges), tuple(tests))
        if self._ignores_case:
            test = _either_case(test)
        return _inverted(test) if is_inverted else test

    def _member(self) -> str | Test:
        if self._text.startswith("&&", self._at):
            raise self._wrong("intersections of classes are not supported; write \\& for the character")
        character = self._next()
        if character == "[":
            raise self._wrong("classes inside classes are not supported; write \\[ for the bracket", -1)
        return self._escaped() if character == "\\" else character

    def _literal(self, character: str) -> _Node:
        if self._ignores_case and character.isascii() and character.isalpha():
            both = character.lower() + character.upper()
            return _One(lambda c: c in both)
        return _One(character.__eq__)

    def _next(self) -> str:
        character = self._text[self._at]
        self._at += 1
        return character

    def _take(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _wrong(self, text: str, offset: int = 0) -> Wrong:
        return Wrong(self._at + offset, text)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 4


def _anything(character: str) -> bool:
    return True


def _no_line_end(character: str) -> bool:
    return character not in _LINE_ENDS


def _inverted(test: Test) -> Test:
    return lambda c: not test(c)


def _either_case(test: Test) -> Test:
    return lambda c: test(c) or (c.isascii() and c.isalpha() and test(c.swapcase()))


def _any_of(characters: frozenset[str], ranges: tuple[tuple[str, str], ...], tests: tuple[Test, ...]) -> Test:
    return lambda c: (
        c in characters or any(first <= c <= last for first, last in ranges) or any(test(c) for test in tests)
    )


# -- the program ------------------------------------------------------------------------------------------------------


class _Program:
    """Instructions: a test with the one that follows, a fork, an edge of the text, or the end."""

    def __init__(self, node: _Node) -> None:
        self.tests: list[Test | None] = []
        # Where it goes on without a character.
        self.forks: list[tuple[int, ...]] = []
        self.edges: list[_Edge | None] = []
        self._steps = 0
        self._emit(node)
        self.last = self._add()

    def _add(self, test: Test | None = None, edge: _Edge | None = None) -> int:
        if len(self.tests) >= MAX_SIZE:
            raise Wrong(0, f"the pattern is too large; with its repetitions it may have {MAX_SIZE} places")
        self.tests.append(test)
        self.forks.append(())
        self.edges.append(edge)
        return len(self.tests) - 1

    def _emit(self, node: _Node) -> None:
        # A group without any place, repeated again and again, makes no program and takes time all the same.
        self._steps += 1
        if self._steps > 4 * MAX_SIZE:
            raise Wrong(0, "the pattern repeats too much")
        match node:
            case _One():
                self._add(node.test)
            case _Edge():
                place = self._add(edge=node)
                self.forks[place] = (place + 1,)
            case _Row():
                for part in node.parts:
                    self._emit(part)
            case _Choice():
                self._choose(node.parts)
            case _Repeat():
                self._repeat(node)

    def _choose(self, parts: tuple[_Node, ...]) -> None:
        fork = self._add()
        starts: list[int] = []
        ends: list[int] = []
        for part in parts:
            starts.append(len(self.tests))
            self._emit(part)
            ends.append(self._add())
        self.forks[fork] = tuple(starts)
        for end in ends:
            self.forks[end] = (len(self.tests),)

    def _repeat(self, node: _Repeat) -> None:
        for _ in range(node.least):
            self._emit(node.part)
        if node.most is None:
            fork = self._add()
            self._emit(node.part)
            back = self._add()
            self.forks[back] = (fork,)
            self.forks[fork] = (fork + 1, back + 1)
            return
        forks = []
        for _ in range(node.most - node.least):
            forks.append(self._add())
            self._emit(node.part)
        for fork in forks:
            self.forks[fork] = (fork + 1, len(self.tests))

    def reached(self, places: Iterable[int], at_start: bool = False, at_end: bool = False) -> frozenset[int]:
        """All places that can be reached without a character; of these, the ones where something is still to happen."""
        waiting = list(places)
        seen: set[int] = set()
        kept: set[int] = set()
        while waiting:
            place = waiting.pop()
            if place in seen:
                continue
            seen.add(place)
            edge = self.edges[place]
            if edge is not None and not (at_end if edge.is_end else at_start):
                if edge.is_end:
                    kept.add(place)
                continue
            if self.tests[place] is not None or place == self.last:
                kept.add(place)
            waiting += self.forks[place]
        return frozenset(kept)


class _State:
    __slots__ = ("accepts", "following", "places")

    def __init__(self, places: frozenset[int], accepts: bool) -> None:
        self.places = places
        self.accepts = accepts
        self.following: dict[str, _State] = {}


class RegularExpression:
    """A regular expression; `Wrong` says what is not supported, and where."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise Wrong(0, f"the pattern has {len(text)} characters; {MAX_LENGTH} are allowed")
        self.text = text
        self._program = _Program(_Reader(text).read())
        # What a character of a text costs at most.
        self.size = len(self._program.tests)
        self._begin()

    def _begin(self) -> None:
        self._states: dict[frozenset[int], _State] = {}
        self._known = 0
        places = self._program.reached([0], at_start=True)
        # The empty text is at both edges.
        at_both = self._program.reached([0], at_start=True, at_end=True)
        self._start = _State(places, self._program.last in at_both)

    def matches(self, text: str) -> bool:
        """Whether the whole text matches."""
        state = self._start
        for character in text:
            following = state.following.get(character)
            if following is None:
                following = self._follow(state, character)
            if not following.places:
                return False
            state = following
        return state.accepts

    def _follow(self, state: _State, character: str) -> _State:
        if self._known >= MAX_KNOWN:
            self._begin()
        tests = self._program.tests
        passed = [place + 1 for place in state.places if (test := tests[place]) is not None and test(character)]
        places = self._program.reached(passed)
        following = self._states.get(places)
        if following is None:
            accepts = self._program.last in self._program.reached(places, at_end=True)
            following = self._states[places] = _State(places, accepts)
        state.following[character] = following
        self._known += 1
        return following
