"""A hub in a process of its own that does nothing but be the active one, and write into a journal and a database.

`python -m tests.cluster.hub_process URL NODE JOURNAL LEASE_MILLIS` tells on its standard output what becomes of it:
`active EPOCH`, `wrote NUMBER` when the journal has acknowledged it, `stored ID` when the database has, `refused` once,
`ended`. It does not ask whether it is the owner before it writes into the database.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from pathlib import Path
from uuid import uuid4

from sqlalchemy.exc import SQLAlchemyError

from penstock.cluster.tenure import Tenure
from penstock.config.schema.cluster import ClusterSection
from penstock.journal.errors import JournalError
from penstock.journal.fence import Fence
from penstock.journal.journal import Journal, Policy
from penstock.journal.record import Columns
from penstock.store.errors import Ousted
from penstock.store.records import SessionLog
from penstock.store.store import Store


def store_forever(store: Store, epoch: int, over: threading.Event) -> None:
    """The epoch is written as the time of an end. It ends when the database refuses it."""
    while not over.wait(0.005):
        id = uuid4().hex
        try:
            store.log_sessions([SessionLog(id, "", "", "", "", (), 0, None, epoch, "")])
        except Ousted:
            return
        except SQLAlchemyError:
            continue
        say("stored", id)


def say(*words: object) -> None:
    # In one piece: two threads write.
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


async def serve(url: str, node: str, path: Path, millis: int) -> None:
    section = ClusterSection(role="hub", name="c", nats=("nats://x",), store=url, lease_millis=millis)
    while True:
        ended = asyncio.Event()
        tenure = Tenure(section, node, uuid4().hex, lambda why, ended=ended: ended.set())  # type: ignore[misc]
        epoch = await tenure.take()
        journal = await asyncio.to_thread(Journal, path, fence=Fence(epoch, tenure.is_owner))
        database = await asyncio.to_thread(Store.open, url, tenure.lease)
        over = threading.Event()
        storing = asyncio.ensure_future(asyncio.to_thread(store_forever, database, epoch, over))
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
        over.set()
        await storing
        await asyncio.to_thread(database.close)
        await asyncio.to_thread(journal.close)
        await tenure.close()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4])))
