"""The Spark job of examples/, run as its README says, in a copy of its folder and on free ports."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import PENSTOCK, PORTS
from tests.support.process import READY

EXAMPLE = Path(__file__).parents[2] / "examples" / "spark-job"
PATIENCE = 300.0


@pytest.mark.spark_long
@pytest.mark.timeout(900)
def test_averages_of_the_journal_are_live_items(tmp_path: Path) -> None:
    folder = tmp_path / "job"
    shutil.copytree(EXAMPLE, folder)
    token = folder / "token.txt"
    token.write_text("an-example-token-of-32-characters\n")
    token.chmod(0o600)
    serve = [str(PENSTOCK), "serve", "--config", "penstock.toml", *PORTS]
    with subprocess.Popen(serve, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        ready = READY.match(server.stdout.readline())
        assert ready is not None
        job = subprocess.Popen([sys.executable, "job.py", f"http://127.0.0.1:{ready[4]}"], cwd=folder)
        try:
            url = f"http://127.0.0.1:{ready[2]}"
            fields = ["--fields", "average trades", "--count", "2"]
            watch = [str(PENSTOCK), "watch", "AVERAGES", "item1", *fields, "--url", url]
            shown = subprocess.check_output(watch, cwd=folder, text=True, timeout=PATIENCE)
            assert re.search(r"average=\d+\.\d+  trades=\d+", shown)
            job.send_signal(signal.SIGINT)
            assert job.wait(PATIENCE) == 0
        finally:
            job.kill()
            job.wait()
            server.send_signal(signal.SIGTERM)
