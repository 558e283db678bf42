from __future__ import annotations

import hpack
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.http2_headers import NO_TABLE, packed

TEXT = st.text(st.characters(codec="utf-8"), max_size=200)
HEADERS = st.lists(st.tuples(st.text("abc-:", min_size=1, max_size=200), TEXT | st.just("x" * 20_000)), max_size=20)


@given(st.lists(st.tuples(HEADERS, HEADERS), max_size=5), st.integers(0, 65_536))
def test_a_reader_gets_what_was_written_whatever_it_would_remember(
    blocks: list[tuple[list[tuple[str, str]], list[tuple[str, str]]]], table_size: int
) -> None:
    decoder = hpack.Decoder(max_header_list_size=1 << 24)
    decoder.max_allowed_table_size = table_size
    for number, (first, second) in enumerate(blocks):
        block = (b"" if number else NO_TABLE) + packed(first) + packed(second)
        assert [(str(name), str(value)) for name, value in decoder.decode(block)] == first + second
        assert decoder.header_table_size == 0


def test_a_text_of_any_length_is_read_whole() -> None:
    for length in (0, 126, 127, 128, 254, 255, 256, 127 + 128 * 128 - 1, 127 + 128 * 128):
        [(_, value)] = hpack.Decoder().decode(packed([("a", "x" * length)]))
        assert str(value) == "x" * length
