"""The process as the system sees it, against what this process knows of itself."""

from __future__ import annotations

import mmap
import os
import threading
import time

from penstock.monitor import process


def test_memory_grows_with_what_is_kept() -> None:
    before = process.look().resident
    # Not by an object: its memory may be some that earlier tests have given back to the allocator, not to the system.
    with mmap.mmap(-1, 50_000_000) as kept:
        for place in range(0, len(kept), mmap.PAGESIZE):
            kept[place] = 1
        after = process.look().resident
    assert 40_000_000 < after - before < 80_000_000


def test_descriptors_that_are_opened_are_counted() -> None:
    before = process.look()
    opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(10)]
    try:
        assert process.look().descriptors - before.descriptors == 10
    finally:
        for each in opened:
            os.close(each)
    assert before.max_descriptors >= before.descriptors


def test_threads_that_are_started_are_counted() -> None:
    before = process.look().threads
    end = threading.Event()
    threads = [threading.Thread(target=end.wait) for _ in range(3)]
    for each in threads:
        each.start()
    try:
        assert process.look().threads - before == 3
    finally:
        end.set()
        for each in threads:
            each.join()


def test_processor_time_is_that_of_this_process() -> None:
    before, begun = process.look().cpu_seconds, time.process_time()
    while time.process_time() - begun < 0.05:
        pass
    assert process.look().cpu_seconds - before >= 0.05
    assert process.look().available > 0
