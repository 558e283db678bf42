"""The page has time left: with 200 updates a second drawing takes the browser less than half of each frame."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import CDPSession

from tests.support.browser import Watch, chromium
from tests.support.process import ServerProcess

# The market's pace, and updates of the stock list a second that come of it.
PACE = 24.0
RATE = 200

SECONDS = 5

# Sixty frames a second leave 16.7 ms for each. On a machine with other work fewer frames are drawn, each as long.
MILLIS = 16.7

COUNT_FRAMES = """(seconds) => new Promise((done) => {
    let begun, frames = 0;
    const step = (now) => {
        begun ??= now;
        frames += 1;
        if (now - begun >= seconds * 1000) done(frames);
        else requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
})"""


def busy_millis(session: CDPSession) -> float:
    """Processor time that the page's own thread has taken."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return 1_000 * next(float(each["value"]) for each in metrics if each["name"] == "TaskDuration")


@pytest.mark.browser
def test_two_hundred_updates_a_second_leave_most_of_each_frame_free(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path, {"demo.enabled": True, "demo.pace": PACE}) as process,
        chromium() as browser,
        browser.new_context(viewport={"width": 1280, "height": 762}) as context,
    ):
        watch = Watch(context)
        page = watch.page
        page.goto(f"{process.url}/market/")
        page.wait_for_function(f"() => Number(document.querySelector('#rate').textContent) > {RATE}")
        session = context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        before = busy_millis(session)
        frames = page.evaluate(COUNT_FRAMES, SECONDS)
        taken = (busy_millis(session) - before) / frames
        print(f"{frames / SECONDS:.0f} frames/s, {taken:.1f} ms of each")
        assert taken < MILLIS / 2
        assert watch.complaints() == []
