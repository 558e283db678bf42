"""The unit for systemd, as systemd reads and judges it. It is not started, which takes a machine that runs systemd."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UNIT = Path(__file__).parents[2] / "examples" / "systemd" / "penstock.service"
COMMAND = "/opt/penstock/bin/penstock"

# Of 10; systemd calls everything below 2 "OK".
MOST_EXPOSED = 2.0

analyze = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")


@analyze
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    installed = Path(sys.executable).parent / "penstock"
    (tmp_path / UNIT.name).write_text(UNIT.read_text().replace(COMMAND, str(installed)))
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / UNIT.name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if UNIT.name in line]) == (0, [])


@analyze
def test_the_unit_is_hardened() -> None:
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(UNIT)]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    level = re.search(r"Overall exposure level for \S+: ([\d.]+)", said)
    assert level is not None, said
    assert float(level[1]) < MOST_EXPOSED


def test_the_unit_allows_what_a_server_does_at_its_start() -> None:
    """It raises its limit of files (transport/descriptors.py), for which a filter of these calls would kill it."""
    denied = " ".join(re.findall(r"^SystemCallFilter=~(.*)$", UNIT.read_text(), re.MULTILINE))
    assert "@resources" not in denied
