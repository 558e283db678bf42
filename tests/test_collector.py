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


# Many objects that stay, and how long the longest full pass over them was; then a cycle among them that is dropped.
PASSES = """
import gc, sys, time
from penstock import collector
collector.LONG_PASS = 0.0
collector.settle()
sizes, began = [], 0
def watch(phase, info):
    if info["generation"] == 2 and phase == "start":
        sizes.append(len(gc.get_objects()))
gc.callbacks.insert(0, watch)
kept = [[[number]] for number in range(1_000_000)]
print(max(sizes), len(sizes))
class Node: pass
node = Node()
node.itself = node
gone = []
import weakref
weakref.finalize(node, gone.append, 1)
gc.collect()
del node
gc.collect()
print(len(gone))
collector.passes.thaw()
gc.collect()
print(len(gone), collector.passes.has_frozen)
"""


def test_full_passes_look_only_at_what_is_new_and_frozen_cycles_are_found_after_thawing() -> None:
    done = subprocess.run([sys.executable, "-c", PASSES], capture_output=True, text=True, timeout=PATIENCE, check=True)
    first, second, third = done.stdout.splitlines()
    largest, count = map(int, first.split())
    # Two million lists in all. Between two full passes there are 3 x 21 of the youngest generation.
    assert largest < 500_000
    assert count >= 4
    assert second == "0"
    # Whatever a pass looks at is frozen here, because none is too short.
    assert third == "1 True"
