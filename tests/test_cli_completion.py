"""Completion as the shells ask for it, with the scripts that the command prints."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import forge

PENSTOCK = Path(sys.executable).parent / "penstock"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_there_is_a_script_for_each_shell_that_it_can_read(shell: str, tmp_path: Path) -> None:
    done = forge.run(["completion", shell])
    assert done.returncode == 0
    assert "_PENSTOCK_COMPLETE" in done.stdout
    found = shutil.which(shell)
    if found is None:
        # Only bash is on every machine that runs the tests.
        assert shell != "bash"
        return
    (tmp_path / "script").write_text(done.stdout)
    subprocess.run([found, "-n", str(tmp_path / "script")], check=True)


def test_bash_completes_commands_and_options() -> None:
    script = forge.run(["completion", "bash"]).stdout
    asked = "COMP_WORDS=(penstock wa); COMP_CWORD=1; _penstock_completion penstock; echo ${COMPREPLY[@]}"
    asked += "; COMP_WORDS=(penstock watch --spa); COMP_CWORD=2; _penstock_completion penstock; echo ${COMPREPLY[@]}"
    environment = os.environ | {"PATH": f"{PENSTOCK.parent}:{os.environ['PATH']}", "PENSTOCK_BUILD": "interpreted"}
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{asked}"], env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.stdout.split() == ["watch", "--sparkline"], done.stderr


def test_another_shell_is_one_sentence() -> None:
    done = forge.run(["completion", "tcsh"])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "penstock: 'tcsh' is not known; expected one of bash, zsh, fish\n"


@pytest.mark.parametrize("command", [(), ("watch",), ("admin", "sessions"), ("context", "add")])
def test_every_command_has_a_short_option_for_help(command: tuple[str, ...]) -> None:
    short, long = forge.run([*command, "-h"]), forge.run([*command, "--help"])
    assert (short.returncode, short.stdout) == (0, long.stdout)
    assert short.stdout.startswith("Usage: penstock")
