"""A site for the tests of a file, and one of its users."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.doors.ditto.site import Site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Site(tmp_path_factory.mktemp("site")) as running:
        yield running


@pytest.fixture(scope="module")
def alice(site: Site) -> httpx.Client:
    return site.of("alice")
