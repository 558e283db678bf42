"""The commands and the conversation in docs/ditto.md, as they are written there."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from tests.doors.ditto.world import running
from tests.support.curl import program
from tests.support.process import ServerProcess

DOCUMENT = Path(__file__).parents[3] / "docs" / "ditto.md"
ANYTHING = "…"


def test_the_commands_do_what_they_say(process: ServerProcess) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
    outputs = []
    for line in "".join(blocks).splitlines():
        typed = line.replace("localhost:8081", f"127.0.0.1:{process.api_port}")
        assert typed != line
        silent = typed.replace("curl ", f"{program()} --silent --show-error --fail --noproxy '*' ", 1)
        done = subprocess.run(["sh", "-c", silent], capture_output=True, text=True, timeout=30, check=True)
        outputs.append(done.stdout)
    made, changed, past, events, search, count, *_, resolved, described = outputs
    assert json.loads(described)["openapi"].startswith("3.1")
    assert list(json.loads(resolved)["entries"]) == ["imported-org.example:roles-OWNER"]
    assert json.loads(made)["attributes"] == json.loads(past)["attributes"] == {"watts": 7}
    assert changed == ""
    assert [item["attributes"] for item in json.loads(search)["items"]] == [{"watts": 9}]
    assert json.loads(count) == 0
    told = [json.loads(each.removeprefix("data:")) for each in events.strip().split("\n\n")]
    assert [(each["_revision"], each["attributes"]) for each in told] == [(1, {"watts": 7}), (2, {"watts": 9})]


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
