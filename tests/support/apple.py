"""A stand-in of Apple's push service on a thread of the test process, over HTTP/2, which keeps what it was sent.

What requests must look like is shown by tests/providers/test_apns.py; this one is for whole servers that send to it.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from base64 import urlsafe_b64decode
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Self

from penstock.testing.http2_peer import Fault, Http2Peer, PeerAnswer, PeerRequest
from tests.providers.peers import TRUSTED, peer, write_key

# Seconds; nothing takes this long unless it does not come at all.
PATIENCE = 30.0

Answer = Callable[["SentToApple"], PeerAnswer | Fault]


class SentToApple(NamedTuple):
    token: str
    alert: str
    # Of the key that has signed the request: each server of a test may have its own.
    key_id: str


class AppleStandIn:
    """A context manager. `answer` may be replaced at any time."""

    def __init__(self) -> None:
        self.answer: Answer = lambda sent: PeerAnswer()
        self._sent: list[SentToApple] = []
        self._changed = threading.Condition()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._peer: Http2Peer

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    def settings(self, application: str, key_file: Path, key_id: str = "KEY1234567") -> dict[str, object]:
        """Of a server that sends here; its key is made."""
        write_key(key_file)
        table = f'push.apple."{application}"'
        return {
            f"{table}.service_level": "production",
            f"{table}.address": f"https://localhost:{self._peer.port}",
            f"{table}.trusted_ca": TRUSTED,
            f"{table}.key_file": str(key_file),
            f"{table}.key_id": key_id,
            f"{table}.team_id": "TEAM123456",
            f"{table}.min_send_delay_millis": 0,
            f"{table}.triggers": [".*"],
        }

    @property
    def sent(self) -> list[SentToApple]:
        with self._changed:
            return list(self._sent)

    def wait(self, holds: Callable[[list[SentToApple]], bool]) -> None:
        """Until what has been sent is as wanted."""
        with self._changed:
            assert self._changed.wait_for(lambda: holds(self._sent), PATIENCE), self._sent

    async def _open(self) -> None:
        self._peer = await peer(self._judge).__aenter__()

    async def _close(self) -> None:
        await self._peer.__aexit__(None, None, None)

    def _judge(self, request: PeerRequest) -> PeerAnswer | Fault:
        head = request.headers["authorization"].removeprefix("bearer ").partition(".")[0]
        key_id = json.loads(urlsafe_b64decode(head + "=" * (-len(head) % 4)))["kid"]
        sent = SentToApple(request.path.rpartition("/")[2], json.loads(request.body)["aps"]["alert"], key_id)
        with self._changed:
            self._sent.append(sent)
            self._changed.notify_all()
        return self.answer(sent)


def apple_token(number: int) -> str:
    """As Apple gives them to devices."""
    return f"{number:064x}"


def until(holds: Callable[[], bool]) -> None:
    """Wait for something that nobody tells of."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it has not come to hold"
        time.sleep(0.02)
