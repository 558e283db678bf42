"""The push service of a browser, on a thread of the test: accepts what is sent, keeps it, and checks who signed it."""

from __future__ import annotations

import asyncio
import base64
import threading
from types import TracebackType

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

from penstock.testing.http2_peer import PeerAnswer, PeerRequest
from tests.providers.peers import peer

# Seconds for what a server is expected to send.
PATIENCE = 20.0


class PushService:
    """Used as a context manager; a real HTTP/2 server at `origin`."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._received: list[PeerRequest] = []
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self.origin = ""

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with peer(self._judge) as server:
            self.origin = f"https://localhost:{server.port}"
            self._ready.set()
            await self._stop.wait()

    def _judge(self, request: PeerRequest) -> PeerAnswer:
        with self._news:
            self._received.append(request)
            self._news.notify()
        return PeerAnswer(201)

    def receive(self) -> PeerRequest:
        """The next request, which is waited for."""
        with self._news:
            assert self._news.wait_for(lambda: self._received, PATIENCE), "nothing was sent"
            return self._received.pop(0)

    def check_signature(self, request: PeerRequest, public_key: str) -> None:
        """RFC 8292: signed with the key that the page has subscribed the browser with, and meant for this service."""
        scheme, _, rest = request.headers["authorization"].partition(" ")
        parts = dict(part.strip().split("=", 1) for part in rest.split(","))
        assert scheme == "vapid"
        assert parts["k"] == public_key
        point = base64.urlsafe_b64decode(public_key + "=" * (-len(public_key) % 4))
        key = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
        claims = jwt.decode(parts["t"], key, algorithms=["ES256"], audience=self.origin)
        assert claims["sub"].startswith("mailto:")

    def __enter__(self) -> PushService:
        self._thread.start()
        assert self._ready.wait(PATIENCE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
