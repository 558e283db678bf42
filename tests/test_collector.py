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
print(give_back(), before - resident())
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the memory of a process is read from /proc")
def test_free_memory_is_handed_back_where_that_is_possible() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=PATIENCE, check=True)
    is_done, kilobytes = done.stdout.split()
    # Other C libraries have no way to.
    assert is_done == str(hasattr(ctypes.CDLL(None), "malloc_trim"))
    assert is_done == "False" or int(kilobytes) > 30_000
