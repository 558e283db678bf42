"""A hub in a process of its own that does nothing but be the active one, and write numbers into a journal.

`python -m tests.cluster.hub_process URL NODE JOURNAL LEASE_MILLIS` tells on its standard output what becomes of it:
`active EPOCH`, `wrote NUMBER` when the journal has acknowledged it, `refused` once, `ended`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from uuid import uuid4

from penstock.cluster.tenure import Tenure
from penstock.config.schema.cluster import ClusterSection
from penstock.journal.errors import JournalError
from penstock.journal.fence import Fence
from penstock.journal.journal import Journal, Policy
from penstock.journal.record import Columns


def say(*words: object) -> None:
    print(*words, flush=True)


async def serve(url: str, node: str, path: Path, millis: int) -> None:
    section = ClusterSection(role="hub", name="c", nats=("nats://x",), store=url, lease_millis=millis)
    while True:
        ended = asyncio.Event()
        tenure = Tenure(section, node, uuid4().hex, lambda why, ended=ended: ended.set())  # type: ignore[misc]
        epoch = await tenure.take()
        journal = await asyncio.to_thread(Journal, path, fence=Fence(epoch, tenure.is_owner))
        say("active", epoch)
        while not ended.is_set():
            columns = Columns()
            columns.add(node, time.time_ns() // 1000, "update", "", str(epoch))
            try:
                receipt = journal.append(columns, Policy.ACK)
                assert receipt.done is not None
                await asyncio.wrap_future(receipt.done)
            except JournalError as error:
                say("refused", error)
                await ended.wait()
                break
            say("wrote", receipt.first)
            await asyncio.sleep(0.005)
        say("ended")
        await asyncio.to_thread(journal.close)
        await tenure.close()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])))
