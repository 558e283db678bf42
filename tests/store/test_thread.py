from __future__ import annotations

import asyncio
import threading

import pytest

from penstock.store.errors import AlreadyExists, Closed
from penstock.store.store import Store
from penstock.store.thread import StoreThread


def test_calls_run_on_one_other_thread_in_their_order(store: Store) -> None:
    async def run() -> None:
        thread = StoreThread(store)
        order: list[int] = []
        threads = set()

        def call(number: int) -> int:
            order.append(number)
            threads.add(threading.current_thread())
            return number

        assert await asyncio.gather(*[thread.call(call, number) for number in range(50)]) == list(range(50))
        assert order == list(range(50))
        assert len(threads) == 1
        assert threading.current_thread() not in threads
        await thread.close()

    asyncio.run(run())


def test_what_goes_wrong_is_raised_to_the_caller(store: Store) -> None:
    async def run() -> None:
        thread = StoreThread(store)
        await thread.call(store.add_account, "Delft")
        with pytest.raises(AlreadyExists):
            await thread.call(store.add_account, "Delft")
        await thread.close()

    asyncio.run(run())


def test_what_was_asked_before_the_end_is_done(store: Store, url: str) -> None:
    async def run() -> None:
        thread = StoreThread(store)
        asked = [asyncio.ensure_future(thread.call(store.add_account, str(number))) for number in range(20)]
        await asyncio.sleep(0)
        await thread.close()
        await asyncio.gather(*asked)

    asyncio.run(run())
    again = Store.open(url)
    assert len(again.accounts()) == 20
    again.close()


def test_who_asks_after_the_end_is_told_so(store: Store) -> None:
    async def run() -> None:
        thread = StoreThread(store)
        await thread.close()
        with pytest.raises(Closed):
            await thread.call(store.accounts)

    asyncio.run(run())
