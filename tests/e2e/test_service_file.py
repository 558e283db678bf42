"""The units for systemd, as systemd reads and judges them. None is started, which takes a machine that runs systemd."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UNITS = Path(__file__).parents[2] / "examples" / "systemd"
UNIT = UNITS / "penstock.service"
MAINTENANCE = UNITS / "penstock-maintain.service"
TIMER = UNITS / "penstock-maintain.timer"
COMMAND = "/opt/penstock/bin/penstock"

# Of 10; systemd calls everything below 2 "OK".
MOST_EXPOSED = 2.0

analyze = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")


@analyze
@pytest.mark.parametrize("unit", [UNIT, MAINTENANCE, TIMER], ids=lambda unit: str(unit.name))
def test_systemd_finds_nothing_wrong_with_a_unit(unit: Path, tmp_path: Path) -> None:
    installed = Path(sys.executable).parent / "penstock"
    for each in (UNIT, MAINTENANCE, TIMER):
        (tmp_path / each.name).write_text(each.read_text().replace(COMMAND, str(installed)))
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / unit.name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "penstock" in line]) == (0, [])


@analyze
@pytest.mark.parametrize("unit", [UNIT, MAINTENANCE], ids=lambda unit: str(unit.name))
def test_the_units_are_hardened(unit: Path) -> None:
    command = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    level = re.search(r"Overall exposure level for \S+: ([\d.]+)", said)
    assert level is not None, said
    assert float(level[1]) < MOST_EXPOSED


def test_the_unit_allows_what_a_server_does_at_its_start() -> None:
    """It raises its limit of files (transport/descriptors.py), for which a filter of these calls would kill it."""
    denied = " ".join(re.findall(r"^SystemCallFilter=~(.*)$", UNIT.read_text(), re.MULTILINE))
    assert "@resources" not in denied
