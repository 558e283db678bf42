from __future__ import annotations

import ast

import pytest

from mutants.__main__ import EXPLAINED, draw, explained, mutants
from mutants.faults import find_faults
from mutants.rooms import NEAREST, PACKAGE, ROOMS, ROOT, nearest, sources


def planted(source: str) -> list[str]:
    return [fault.plant(source) for fault in find_faults(source)]


@pytest.mark.parametrize(
    ("source", "faulty"),
    [
        ("a < b", ["a <= b"]),
        ("a >= b", ["a > b"]),
        ("a == b != c", ["a != b != c", "a == b == c"]),
        ("a is not b", ["a is b"]),
        ("a not in (b)", ["a in (b)"]),
        ("(a) and (b) and c", ["(a) or (b) and c", "(a) and (b) or c"]),
        ("x = not (a or b)", ["x = (a or b)", "x = not (a and b)"]),
        ("x = a + b - c", ["x = a + b + c", "x = a - b - c"]),
        ("a += b", ["a -= b"]),
        ("x = 7", ["x = 8"]),
        ("x = True", ["x = False"]),
        ("if a.b: pass", ["if not a.b: pass"]),
        ("x = a if b else c", ["x = a if not b else c"]),
        ("call(a)", ["pass"]),
        ("def f(): return a", ["def f(): return None"]),
        ("def f(): return", ["def f(): pass"]),
        ("def f(): raise Refusal(1)", ["def f(): pass"]),
        ("while a: break", ["while not a: break", "while a: continue"]),
        ("while a: continue", ["while not a: continue", "while a: break"]),
        ("'ü' < b", ["'ü' <= b"]),
        ("(a  # and so on\n    and b)", ["(a  # and so on\n    or b)"]),
    ],
)
def test_each_place_where_a_fault_can_be_gives_one(source: str, faulty: list[str]) -> None:
    assert planted(source) == faulty


@pytest.mark.parametrize(
    "source",
    [
        "def f(a: Literal[1]) -> Literal[2]: ...",
        "a: Literal[1]",
        "if TYPE_CHECKING: import a",
        "assert a < 1",
        "x = f'{1 + a}'",
        "x = 'a' + b",
        "__slots__ = ('a',) + (1,)",
        "'a docstring'",
        "@dataclass(slots=True)\nclass A: ...",
        "def f(): return None",
        "def f(): return ''",
    ],
)
def test_what_no_test_can_notice_is_left_as_it_is(source: str) -> None:
    assert planted(source) == []


@pytest.mark.parametrize("room", ROOMS)
def test_every_fault_of_a_file_is_another_program(room: str) -> None:
    # Of middling size, because it is parsed again for each fault.
    files = sorted((ROOT / path for path in sources(room)), key=lambda path: path.stat().st_size)
    source = files[len(files) // 2].read_text()
    tree = ast.dump(ast.parse(source))
    faults = find_faults(source)
    assert faults
    for fault in faults:
        assert ast.dump(ast.parse(fault.plant(source))) != tree


def test_the_line_is_shown_as_it_is_and_as_it_would_be() -> None:
    source = "x = 1\nif (a and\n    b):\n    call(\n        c)\n"
    shown = [(fault.line, *fault.lines(source)) for fault in find_faults(source)]
    assert shown == [(1, "x = 1", "x = 2"), (2, "if (a and", "if (a or"), (4, "call(", "pass")]


def test_a_sample_has_as_many_faults_of_each_room_and_is_the_same_for_the_same_seed() -> None:
    sample = draw([], 20, 3)
    assert sample == draw([], 20, 3) != draw([], 20, 4)
    for room in ROOMS:
        assert sum(mutant.place.startswith(f"{room}/") for mutant in sample) == 20 / len(ROOMS)


def test_a_place_narrows_the_sample() -> None:
    assert {mutant.path.name for mutant in draw(["kernel/item.py"], 10_000, 1)} == {"item.py"}
    line = draw(["kernel/item.py"], 1, 1)[0].place
    assert {mutant.place for mutant in draw([line], 10_000, 1)} == {line}


def test_every_explained_survivor_fits_the_source_and_is_left_out() -> None:
    known = {mutant.key for room in ROOMS for mutant in mutants(room)}
    reasons = explained(known)
    assert len(reasons) == EXPLAINED.read_text().count("[[survivor]]")
    assert not reasons & {mutant.key for mutant in draw([], 100_000, 1)}


def test_every_source_has_tests_that_are_near_and_those_of_its_name_come_first() -> None:
    for room in ROOMS:
        for source in sources(room):
            assert all(nearest(source))
    inner, outer = nearest(PACKAGE / "kernel/item.py")
    assert inner[0] == "tests/kernel/test_item.py"
    assert not set(inner) & set(outer)
    for places in NEAREST.values():
        assert any((ROOT / place).exists() for place in places)
