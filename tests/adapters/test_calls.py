"""How adapters' methods are called: on the event loop, on threads, and not for ever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable

import pytest

from penstock.adapters.calls import MAX_THREADS, AdapterCaller, overrides
from penstock.kernel.errors import Reason, Refusal


class Base:
    def plain(self) -> object:
        return threading.get_ident()

    def inherited(self) -> object:
        return threading.get_ident()

    def later(self) -> object: ...
    def waits(self) -> object: ...
    def fails(self) -> None: ...
    def fails_later(self) -> object: ...
    def hangs(self) -> None: ...
    def hangs_later(self) -> object: ...


class Adapter(Base):
    def __init__(self) -> None:
        self.release = threading.Event()

    def plain(self) -> object:
        return threading.get_ident()

    async def waits(self) -> object:
        await asyncio.sleep(0)
        return threading.get_ident()

    def later(self) -> Awaitable[object]:
        """A plain method that hands back a coroutine."""
        return self.waits()

    def add(self, one: int, other: int) -> int:
        return one + other

    def fails(self) -> None:
        raise ValueError("on purpose")

    async def fails_later(self) -> None:
        raise ValueError("on purpose")

    def hangs(self) -> None:
        self.release.wait(20)

    async def hangs_later(self) -> None:
        await asyncio.Event().wait()


@pytest.fixture
def adapter() -> Adapter:
    return Adapter()


def call(adapter: Adapter, name: str, quick: bool = False, timeout: float | None = 10.0) -> object:
    """What the method returns, or raises, called from a loop on this thread."""

    async def run() -> object:
        caller = AdapterCaller(adapter, Base, quick, timeout, "test")
        try:
            return await caller.call(name)
        finally:
            caller.close()

    return asyncio.run(run())


def test_a_plain_method_runs_on_a_thread_of_its_own(adapter: Adapter) -> None:
    assert call(adapter, "plain") != threading.get_ident()


@pytest.mark.parametrize(("name", "quick"), [("plain", True), ("inherited", False), ("waits", False), ("waits", True)])
def test_quick_inherited_and_async_methods_run_on_the_loop(adapter: Adapter, name: str, quick: bool) -> None:
    assert call(adapter, name, quick) == threading.get_ident()


@pytest.mark.parametrize("quick", [False, True])
def test_a_coroutine_that_a_plain_method_returns_is_awaited_on_the_loop(adapter: Adapter, quick: bool) -> None:
    assert call(adapter, "later", quick) == threading.get_ident()


@pytest.mark.parametrize("name", ["fails", "fails_later"])
@pytest.mark.parametrize("quick", [False, True])
def test_what_a_method_raises_comes_out(adapter: Adapter, name: str, quick: bool) -> None:
    with pytest.raises(ValueError, match="on purpose"):
        call(adapter, name, quick)


def test_a_call_that_takes_too_long_is_given_up(adapter: Adapter) -> None:
    with pytest.raises(TimeoutError):
        call(adapter, "hangs_later", timeout=0.01)
    with pytest.raises(TimeoutError):
        call(adapter, "hangs", timeout=0.01)
    # Its thread may end now.
    adapter.release.set()


def test_calls_wait_for_a_thread_when_all_are_busy(adapter: Adapter) -> None:
    async def run() -> None:
        caller = AdapterCaller(adapter, Base, False, 20.0, "test")
        # Each is there when all are.
        together = threading.Barrier(MAX_THREADS + 1)

        def meet() -> None:
            together.wait(20)
            adapter.hangs()

        busy = [asyncio.create_task(caller.run(meet)) for _ in range(MAX_THREADS)]
        last = asyncio.create_task(caller.run(adapter.add, 1, 2))
        await asyncio.to_thread(together.wait, 20)
        assert not last.done()
        adapter.release.set()
        assert await last == 3
        await asyncio.gather(*busy)
        caller.close()

    asyncio.run(run())


def test_what_returns_at_once_is_known_beforehand(adapter: Adapter) -> None:
    caller = AdapterCaller(adapter, Base, False, None, "test")
    assert caller.returns_at_once("inherited")
    assert not caller.returns_at_once("plain")
    assert AdapterCaller(adapter, Base, True, None, "test").returns_at_once("plain")
    assert overrides(adapter, Base, "plain")
    assert not overrides(adapter, Base, "inherited")


# -- what is counted ---------------------------------------------------------------------------------------------------


def test_calls_failures_and_their_time_are_counted_however_they_are_made() -> None:
    async def main() -> None:
        adapter = Adapter()
        for quick in (True, False):
            caller = AdapterCaller(adapter, Base, quick, 1.0, "test")
            tally = caller.tally
            for name in ("plain", "inherited", "later", "waits"):
                await caller.call(name)
            assert (tally.calls, tally.failures, tally.pending) == (4, 0, 0)
            for name in ("fails", "fails_later"):
                with pytest.raises(ValueError, match="on purpose"):
                    await caller.call(name)
            assert (tally.calls, tally.failures) == (6, 2)
            assert await caller.run(adapter.add, 1, 2) == 3
            assert caller.call_at_once(adapter.add, 1, 2) == 3
            with pytest.raises(ValueError, match="on purpose"):
                caller.call_at_once(adapter.fails)
            assert (tally.calls, tally.failures, tally.pending) == (9, 3, 0)
            assert 0 < tally.seconds < 10
            caller.close()

    asyncio.run(main())


def test_a_refusal_is_no_failure() -> None:
    class Refusing(Base):
        def plain(self) -> object:
            raise Refusal(Reason.CREDENTIALS, "no")

    async def main() -> None:
        adapter = Refusing()
        caller = AdapterCaller(adapter, Base, True, 1.0, "test")
        with pytest.raises(Refusal):
            await caller.call("plain")
        with pytest.raises(Refusal):
            caller.call_at_once(adapter.plain)
        assert (caller.tally.calls, caller.tally.failures) == (2, 0)
        caller.close()

    asyncio.run(main())


def test_a_thread_is_busy_until_its_call_returns_also_when_nobody_waits_any_more() -> None:
    async def main() -> None:
        adapter = Adapter()
        caller = AdapterCaller(adapter, Base, False, 0.05, "test")
        tally = caller.tally
        with pytest.raises(TimeoutError):
            await caller.call("hangs")
        assert (tally.calls, tally.failures, tally.pending) == (1, 1, 0)
        assert (tally.threads, tally.busy, tally.thread_calls) == (1, 1, 1)
        adapter.release.set()
        while tally.busy:  # noqa: ASYNC110, a thread tells nobody
            await asyncio.sleep(0.001)
        assert tally.threads == 1
        assert 0 <= tally.wait_seconds < 10
        caller.close()

    asyncio.run(main())
