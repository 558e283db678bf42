"""`make demo` in a fresh clone, with empty caches: how long prices and candles take to come (`make test-install`)."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.support.browser import Watch, chromium
from tests.support.process import READY

ROOT = Path(__file__).parents[2]
CACHES = ("UV_CACHE_DIR", "PIP_CACHE_DIR", "npm_config_cache")

# Seconds from the clone on.
PRICES, CANDLES = 120.0, 180.0


@pytest.mark.install_long
@pytest.mark.browser
@pytest.mark.timeout(1200)
def test_prices_are_there_within_two_minutes_and_candles_within_three(tmp_path: Path) -> None:
    begun = time.monotonic()
    clone = tmp_path / "penstock"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    environment = os.environ | {name: str(tmp_path / name) for name in CACHES}
    for name in ("PENSTOCK_BUILD", "VIRTUAL_ENV", "MAKEFLAGS"):
        environment.pop(name, None)
    command = ["make", "--no-print-directory", "demo", "ARGS=--port 0 --api-port 0"]
    # A group of its own, to which Ctrl-C goes as a whole: make passes no signal on.
    with subprocess.Popen(
        command, cwd=clone, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as demo:
        assert demo.stdout is not None
        try:
            ready = next(found for line in demo.stdout if (found := READY.match(line)))
            with chromium() as browser, browser.new_context() as context:
                page = Watch(context).page
                page.goto(f"http://127.0.0.1:{ready[2]}/")
                expect(page.locator("#stocks [data-item=item2] [data-field=last_price]")).not_to_be_empty()
                prices = time.monotonic() - begun
                expect(page.locator("#chart svg[data-candles]")).to_be_visible(timeout=600_000)
                candles = time.monotonic() - begun
        finally:
            os.killpg(demo.pid, signal.SIGINT)
            for _ in demo.stdout:
                pass
    print(f"prices after {prices:.0f} s, candles after {candles:.0f} s")
    # That of make, which says that its command was interrupted.
    assert demo.returncode in (0, 2, -signal.SIGINT)
    assert prices < PRICES
    assert candles < CANDLES
