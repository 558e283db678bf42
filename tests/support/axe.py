"""axe-core from npm, run inside a page: what keeps people with a keyboard or a screen reader from using it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from playwright.sync_api import Page

SCRIPT = Path(__file__).parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"

# Impacts that are not accepted; the others are advice.
GRAVE = ("serious", "critical")


# A table that has just come to life is still a little pale, and axe-core takes its colours for the final ones.
SETTLE = """() => Promise.allSettled(
    document.getAnimations().filter((each) => each.transitionProperty === "opacity").map((each) => each.finished))"""


@cache
def _script() -> str:
    return SCRIPT.read_text()


def barriers(page: Page) -> list[str]:
    """What axe-core calls serious or critical: the rule, and the first elements that break it."""
    page.evaluate(_script())
    page.evaluate(SETTLE)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{each['id']}: {each['help']}: {', '.join(str(node['target'][0]) for node in each['nodes'][:5])}"
        for each in found["violations"]
        if each["impact"] in GRAVE
    ]
