"""What tests of pages ask for: one browser for a file, and a window of it for each test, whose complaints are kept."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.support.browser import Watch, chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture
def watch(browser: Browser) -> Iterator[Watch]:
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        yield Watch(context)
