"""Chromium from the system's packages, without a window, and a watch over what a page complains about."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Error, Page, expect, sync_playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    # Containers run as root and have a small /dev/shm; everything else keeps the browser from calling home.
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

# Milliseconds to wait for what a page is expected to do.
PATIENCE = 30_000
expect.set_options(timeout=PATIENCE)

# What the browser itself says, as an error, about a server that is not there.
UNREACHABLE = ("net::ERR_CONNECTION_REFUSED", "net::ERR_CONNECTION_RESET", "net::ERR_INCOMPLETE_CHUNKED_ENCODING")

_NOTE_VIOLATIONS = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(
    `${event.violatedDirective}: ${event.blockedURI}`));
"""


@contextmanager
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_program(), args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def chromium_with_profile(profile: Path, *switches: str) -> Iterator[BrowserContext]:
    """One that keeps things, as people's browsers do, and so has a push service. Not inside `chromium`."""
    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            profile, executable_path=_program(), args=[*FLAGS, *switches]
        )
        try:
            yield context
        finally:
            context.close()


def _program() -> str:
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    assert program is not None, f"the page is tested in Chromium, and none of {', '.join(PROGRAMS)} is on the path"
    return program


class Watch:
    """Collects the errors of one page from before its first script runs."""

    def __init__(self, context: BrowserContext) -> None:
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE)
        self.page.add_init_script(_NOTE_VIOLATIONS)
        self.page.on("console", self._note_console)
        self.page.on("pageerror", self._note_error)
        self._console: list[str] = []
        self._errors: list[str] = []

    def _note_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._console.append(message.text)

    def _note_error(self, error: Error) -> None:
        self._errors.append(str(error))

    def complaints(self, server_was_away: bool = False) -> list[str]:
        """Uncaught errors, console errors and warnings, and violations of the content security policy."""
        console = self._console
        if server_was_away:
            console = [text for text in console if not any(code in text for code in UNREACHABLE)]
        violations: list[str] = self.page.evaluate("window.violations")
        return [*self._errors, *console, *violations]
