from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

PATIENCE = 40.0

# Blocks of the C library's heap, below one that stays: what is freed of them stays with the process.
SCRIPT = """
import re
from penstock.collector import give_back
def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+) kB", open("/proc/self/status").read())[1])
blocks = [bytes(2_000) for _ in range(30_000)]
last = blocks.pop()
del blocks
before = resident()
give_back()
print(before - resident())
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory of a process is read from /proc")
def test_free_memory_is_handed_back_where_that_is_possible() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=PATIENCE, check=True)
    # Other C libraries have no way to: then nothing happens, but nothing fails either.
    assert int(done.stdout) > 30_000 or not hasattr(ctypes.CDLL(None), "malloc_trim")
