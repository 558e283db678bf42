"""What a process has used is measured exactly enough for little work in a short time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from bench.rig import meter


def work(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def test_a_millisecond_of_work_is_measured() -> None:
    before, own = meter.cpu_seconds(os.getpid()), time.process_time()
    work(0.001)
    used, own = meter.cpu_seconds(os.getpid()) - before, time.process_time() - own
    assert used >= 0.001
    assert used == pytest.approx(own, abs=0.005)


def test_threads_that_have_ended_count() -> None:
    before = meter.cpu_seconds(os.getpid())
    thread = threading.Thread(target=work, args=(0.02,))
    thread.start()
    thread.join()
    assert meter.cpu_seconds(os.getpid()) - before >= 0.02


def test_another_process_is_measured_as_it_measures_itself() -> None:
    code = "import time\nwhile time.process_time() < 0.05: pass\nprint(time.process_time(), flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        said = float(child.stdout.readline())
        used = meter.cpu_seconds(child.pid)
        child.communicate(b"\n")
    assert 0.05 <= said <= used <= said + 0.05


def test_a_process_that_is_not_there_cannot_be_measured() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    with pytest.raises(OSError, match="Invalid argument"):
        meter.cpu_seconds(child.pid)
