"""A real Prometheus, with a configuration that the test gives it, and what it answers."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

# Seconds that anything is waited for. Far more than it should take: only a failure is slow.
PATIENCE = 40.0

# Between two questions.
PAUSE = 0.2


def program(name: str) -> str:
    """Of Debian's package; without it the tests fail, because they would show nothing."""
    found = shutil.which(name)
    assert found is not None, f"there is no {name}: make system-setup installs it (Debian: apt-get install prometheus)"
    return found


class Prometheus:
    """A process with storage of its own; used as a context manager."""

    def __init__(self, directory: Path, configuration: Path) -> None:
        self._log = directory / "prometheus.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [
                    program("prometheus"),
                    f"--config.file={configuration}",
                    f"--storage.tsdb.path={directory / 'storage'}",
                    "--web.listen-address=127.0.0.1:0",
                ],
                cwd=directory,
                stdout=log,
                stderr=log,
            )
        self._url = ""

    def __enter__(self) -> Prometheus:
        deadline = time.monotonic() + PATIENCE
        while "Server is ready to receive web requests" not in self.log:
            self._go_on(deadline, "it is not ready")
        address = re.search(r'"Listening on" address=(\S+)', self.log)
        assert address is not None, self.log
        self._url = f"http://{address[1]}/api/v1"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def log(self) -> str:
        return self._log.read_text()

    def get(self, path: str, **parameters: str) -> Any:
        with urlopen(f"{self._url}/{path}?{urlencode(parameters)}", timeout=PATIENCE) as answer:
            told = json.load(answer)
        assert told["status"] == "success", told
        return told["data"]

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """The series that there are now, and their values."""
        found = self.get("query", query=expression)
        assert found["resultType"] == "vector", found
        return [(each["metric"], float(each["value"][1])) for each in found["result"]]

    def wait_for(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Until an expression has a result, which is so long empty."""
        deadline = time.monotonic() + PATIENCE
        while not (found := self.query(expression)):
            self._go_on(deadline, f"{expression} has no result")
        return found

    def _go_on(self, deadline: float, trouble: str) -> None:
        assert self._process.poll() is None, self.log
        assert time.monotonic() < deadline, f"{trouble}; {self.log[-4000:]}"
        time.sleep(PAUSE)
