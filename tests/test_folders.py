from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent


def test_the_readme_says_what_each_folder_proves_and_names_no_other() -> None:
    rows = re.findall(r"^\| (`[^|]*) \|", (HERE / "README.md").read_text(), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    folders = {path.name for path in HERE.iterdir() if list(path.glob("**/test_*.py"))}
    assert named == folders
