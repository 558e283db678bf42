"""The conversation in docs/ditto.md, held with a connection."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.doors.ditto.world import running

DOCUMENT = Path(__file__).parents[3] / "docs" / "ditto.md"
ANYTHING = "…"


def conversation() -> list[tuple[str, str]]:
    """Direction and text of each line."""
    (found,) = re.findall(r"^```text exchange\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    return [(line[:2], line[3:]) for line in found.splitlines()]


def fits(found: Any, shown: Any) -> bool:
    if isinstance(shown, dict) and isinstance(found, dict):
        return shown.keys() == found.keys() and all(fits(found[key], value) for key, value in shown.items())
    return bool(shown in (ANYTHING, found))


def test_the_conversation_goes_as_it_is_written(tmp_path: Path) -> None:
    lines = conversation()
    assert {direction for direction, _ in lines} == {"->", "<-"}
    with running(tmp_path) as world:
        peer = world.connect()
        heard: list[Any] = []
        for direction, text in lines:
            if direction == "->":
                assert heard == []
                heard = peer.say(text)
            else:
                shown = json.loads(text) if text.startswith("{") else text
                assert fits(heard.pop(0), shown), text
        assert heard == []
