from __future__ import annotations

import pytest

from penstock.doors.ditto.commands import moment_of
from penstock.twins.history import PastMoment
from penstock.wire.ditto.errors import DittoError


def test_headers_say_which_moment_is_meant() -> None:
    assert moment_of({}) is None
    assert moment_of({"at-historical-revision": "7"}) == PastMoment(revision=7)
    assert moment_of({"at-historical-revision": 7}) == PastMoment(revision=7)
    assert moment_of({"at-historical-timestamp": "1970-01-01T00:00:01Z"}) == PastMoment(before=1_000_000_000)
    assert moment_of({"at-historical-revision": 1, "at-historical-timestamp": "x"}) == PastMoment(revision=1)
    for headers in ({"at-historical-revision": "x"}, {"at-historical-timestamp": "yesterday"}):
        with pytest.raises(DittoError) as raised:
            moment_of(headers)
        assert raised.value.code == "header.invalid"
