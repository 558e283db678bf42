"""Spark in a process of its own, as a benchmark sees it: it says a word and gets a line of JSON.

Not here: the words and what they run (`queries`).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from bench.rig.child import ChildError

# In Spark's real-time mode, which needs a jar (`make jar`).
REAL_TIME = "real-time"


class SparkProcess:
    """Until it is closed. Raises ChildError when it has ended by itself."""

    def __init__(self, folder: Path, api: str = "-", token: str = "-", *, real_time: bool = False) -> None:
        """Without `api` and `token` it runs plain queries only."""
        self._log = folder / "spark.log"
        with self._log.open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.rig.queries", str(folder), api, token, *[REAL_TIME] * real_time],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    async def say(self, word: str) -> object:
        def asked() -> str:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(f"{word}\n")
            self._process.stdin.flush()
            return self._process.stdout.readline()

        line = await asyncio.to_thread(asked)
        if not line:
            said = self._log.read_text().splitlines()[-1:]
            raise ChildError(f"Spark has ended when it was told {word}: {' '.join(said)}")
        return json.loads(line)

    async def batches(self) -> list[dict[str, int]]:
        found = await self.say("figures")
        assert isinstance(found, list)
        return found

    async def closed(self) -> float:
        """When the newest closed candle begins, in seconds since 1970."""
        found = await self.say("closed")
        assert isinstance(found, float)
        return found

    def kill(self) -> None:
        """With its JVM, at once."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        if self._process.poll() is not None:
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
