"""Sampling: once a second all sessions are counted, the process is looked at, and the sampler makes statistics of it.

What statistics are is in `penstock.monitor`; this is the clock that drives it, and the loop whose lag is measured.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from penstock import BUILD, __version__
from penstock.kernel.kernel import Kernel
from penstock.kernel.population import Population
from penstock.log import get
from penstock.monitor import process
from penstock.monitor.figures import HUB, Family, Kind, counter, durations, gauge, info, labelled, of_worker
from penstock.monitor.histogram import Histogram
from penstock.monitor.sampler import Sampler
from penstock.services.service import Service

log = get(__name__)

# Seconds between two samples, and between two looks at how late the event loop's timers are: on a loop that has work,
# and on one that has had none since the last look, which each look would wake for nothing. What monitoring costs:
# docs/performance.md.
SAMPLE_PAUSE = 1.0
LAG_PAUSE = 0.1
IDLE_LAG_PAUSE = 0.25

# The share of a core from which on a loop has work: looks and samples themselves take less.
BUSY_SHARE = 0.01

# Sessions counted at a time; then the event loop does other work, so that clients do not wait.
SLICE = 1_000

KILOBITS_TO_BYTES = 125


async def take_census(kernel: Kernel, before: Population) -> Population:
    """In slices: sessions that come meanwhile are not in it, those that go meanwhile may be."""
    found = Population(before)
    sessions = list(kernel.sessions.values())
    for start in range(0, len(sessions), SLICE):
        if start:
            await asyncio.sleep(0)
        found.count(sessions[start : start + SLICE])
    return found


class OtherProcesses(Protocol):
    """Those of the same server; see `penstock.services.cluster.roll`."""

    async def refresh(self) -> None:
        """Ask them for their figures."""

    def families(self) -> list[Family]: ...


class SamplingService(Service):
    """Opened before all others, and closed after them: it sees them come and go."""

    name = "sampling"

    def __init__(
        self,
        kernel: Kernel,
        services: Callable[[], Sequence[Service]],
        is_edge: bool = False,
    ) -> None:
        """An edge makes no statistics: its hub does, and only one can ask for the peaks of histograms."""
        self.sampler = Sampler(self.figures_of_all, time.monotonic, lambda: time.time_ns() // 1_000_000)
        self._kernel = kernel
        self._services = services
        self._is_edge = is_edge
        # Those of a hub; None: this is not a hub.
        self.workers: OtherProcesses | None = None
        self._started = time.time()
        # How often a service could not say its figures.
        self._faults = 0
        self._population = Population()
        self._process = process.look()
        # By how much timers are late; and how long it takes from one turn of the loop to the next.
        self._lags = Histogram()
        self._turns = Histogram()
        self._task: asyncio.Task[None] | None = None
        # The one whose lateness is measured, when it should come, and how long that is from when it was set.
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._pause = LAG_PAUSE
        # CPU-seconds of the loop's thread at the last look.
        self._worked = 0.0

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._sample())
        self._set_timer(loop)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    def lag_due(self) -> float:
        """When the next look at the event loop's lag is due, in seconds of `time.perf_counter`; any thread may ask."""
        return self._due

    async def step(self) -> None:
        """Count, look, and take one sample."""
        self._population = await take_census(self._kernel, self._population)
        self._process = process.look()
        if self.workers is not None:
            await self.workers.refresh()
        if not self._is_edge:
            self.sampler.sample()

    async def _sample(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            try:
                await self.step()
            except Exception:
                log.exception("a sample of the statistics failed")
            # Not by the time that it took; and never to make up for what was missed.
            due = max(due + SAMPLE_PAUSE, loop.time())
            await asyncio.sleep(due - loop.time())

    # Plain callbacks, and no task that sleeps: this happens several times a second, on an idle server as well.

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = time.perf_counter() + self._pause
        self._timer = loop.call_later(self._pause, self._measure_lag, loop)

    def _measure_lag(self, loop: asyncio.AbstractEventLoop) -> None:
        now, worked = time.perf_counter(), time.thread_time()
        self._lags.add(max(0.0, now - self._due))
        loop.call_soon(self._measure_turn, now)
        is_busy = worked - self._worked >= self._pause * BUSY_SHARE
        self._pause, self._worked = LAG_PAUSE if is_busy else IDLE_LAG_PAUSE, worked
        self._set_timer(loop)

    def _measure_turn(self, asked: float) -> None:
        self._turns.add(time.perf_counter() - asked)

    def figures_of_all(self) -> list[Family]:
        """Those of every service, and of every worker if there are some."""
        own = self._own_figures()
        return own if self.workers is None else [*of_worker(HUB, own), *self.workers.families()]

    def _own_figures(self) -> list[Family]:
        """One that cannot say its own does not keep the others' from being seen."""
        found: list[Family] = []
        for service in self._services():
            try:
                found += service.figures()
            except Exception:
                self._faults += 1
                log.exception("a service failed to report its figures", service=service.name)
        return found

    def figures(self) -> Iterable[Family]:
        now, people = self._process, self._population
        return (
            info("penstock_build", "Version and build of the server.", build_labels()),
            counter(
                "penstock_figures_faults", "How often a part of the server failed to report its figures.", self._faults
            ),
            gauge(
                "penstock_process_start_time_seconds", "Start time of the server, in seconds since 1970.", self._started
            ),
            gauge("penstock_process_resident_memory_bytes", "Memory that the process uses.", now.resident),
            gauge("penstock_process_available_memory_bytes", "Available memory of the machine.", now.available),
            counter("penstock_process_cpu_seconds", "CPU time of the process.", now.cpu_seconds),
            gauge("penstock_process_threads", "Threads of the process.", now.threads),
            gauge("penstock_process_open_descriptors", "Open file descriptors.", now.descriptors),
            gauge(
                "penstock_process_max_descriptors", "File descriptors that the process may have.", now.max_descriptors
            ),
            durations("penstock_loop_lag_seconds", "Lag of the event loop: how late its timers are.", self._lags),
            durations("penstock_loop_turn_seconds", "Time from one turn of the event loop to the next.", self._turns),
            labelled(
                Kind.GAUGE,
                "penstock_sessions_by_transport",
                "Sessions in use by transport.",
                "transport",
                people.transports,
            ),
            labelled(
                Kind.GAUGE,
                "penstock_sessions_by_adapter_set",
                "Sessions in use by adapter set.",
                "adapter_set",
                people.adapter_sets,
            ),
            labelled(
                Kind.GAUGE,
                "penstock_sessions_by_library",
                "Sessions in use by client library.",
                "library",
                people.libraries,
            ),
            gauge(
                "penstock_allocated_bandwidth_bytes_per_second",
                "Sum of the bandwidth limits of all sessions that have one.",
                people.allocated * KILOBITS_TO_BYTES,
            ),
        )


def build_labels() -> list[tuple[str, str]]:
    return [("version", __version__), ("build", BUILD.name)]
