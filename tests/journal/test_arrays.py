from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.journal.arrays import numbers, text

UNICODE = st.text(st.characters(codec="utf-8"))


@given(st.lists(st.none() | UNICODE | st.text(st.characters(codec="ascii"))))
def test_text_is_what_it_was(values: list[str | None]) -> None:
    made = text(values)
    made.validate(full=True)
    assert made.equals(pa.array(values, pa.utf8()))


@pytest.mark.parametrize("values", [[b"x"], ["a", b"x"], [b""], [5], [0], ["a", ["b"]], [None, 1.5], ["a", "\ud800"]])
def test_what_is_not_text_is_refused(values: list[Any]) -> None:
    with pytest.raises((TypeError, UnicodeEncodeError)):
        text(values)


@pytest.mark.parametrize("kind", [pa.int32(), pa.int64(), pa.uint64(), pa.timestamp("us", tz="UTC")])
def test_numbers_are_what_they_were(kind: Any) -> None:
    values = [0, 1, 2**31 - 1]
    assert numbers(values, kind).equals(pa.array(values, kind))
    assert numbers([], kind).equals(pa.array([], kind))


@pytest.mark.parametrize("values", [[None], ["1"], [1.5], [2**63], [-(2**63) - 1]])
def test_what_is_not_a_number_is_refused(values: list[Any]) -> None:
    with pytest.raises((TypeError, OverflowError)):
        numbers(values, pa.int64())


CODE = """
import sys
from pathlib import Path
from penstock.journal.journal import Journal, Policy
from penstock.journal.reader import JournalReader
from penstock.journal.record import Columns
from penstock.journal.selection import EventSelection
for _ in range(2):
    journal = Journal(Path(sys.argv[1]))
    columns = Columns(["a", "b"], [1, 2], ["update"] * 2, [""] * 2, ["{}", None], [None] * 2)
    journal.append(columns, Policy.ACK).done.result(20)
    journal.close()
selection = EventSelection(entities=("a",), kinds=("update",))
assert sum(batch.num_rows for batch in JournalReader(Path(sys.argv[1])).read(selection=selection)) == 2
print("pandas" in sys.modules)
"""


def test_writing_and_reading_the_journal_does_not_load_pandas(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    done = subprocess.run([sys.executable, "-c", CODE, str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("False\n", "")
