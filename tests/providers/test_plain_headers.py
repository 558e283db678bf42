from __future__ import annotations

import hpack
from hypothesis import given
from hypothesis import strategies as st

from penstock.providers.plain_headers import PlainEncoder

HEADERS = st.lists(st.tuples(st.binary(min_size=1, max_size=200), st.binary(max_size=20_000)), max_size=20)


@given(st.lists(st.tuples(HEADERS, st.none() | st.integers(0, 65_536)), max_size=5))
def test_a_reader_of_headers_gets_what_was_written_whatever_it_wants_to_remember(
    blocks: list[tuple[list[tuple[bytes, bytes]], int | None]],
) -> None:
    encoder, decoder = PlainEncoder(), hpack.Decoder(max_header_list_size=1 << 24)
    for headers, table_size in blocks:
        if table_size is not None:
            decoder.max_allowed_table_size = encoder.header_table_size = table_size
        found = decoder.decode(encoder.encode(headers), raw=True)
        assert [(name, value) for name, value in found] == headers
        assert encoder.header_table_size == 0
