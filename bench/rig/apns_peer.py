"""What notifications are sent to: Apple's push service as far as a benchmark needs it, over real HTTP/2.

It checks every request: path, headers, that the team's token is there, that the body is JSON. A wrong one is answered
with the reason. Not something to learn from: the tests of providers check signatures as well.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import uvloop

from penstock.testing.http2_peer import Http2Peer, PeerAnswer, PeerRequest

CERTIFICATES = Path(__file__).parents[2] / "tests" / "config" / "tls"
CERTIFICATE = CERTIFICATES / "certificate.pem"
TOPIC = "com.mydomain.myapp"

RIGHT = PeerAnswer(200)


def judge(request: PeerRequest) -> PeerAnswer:
    headers = request.headers
    is_right = (
        request.method == "POST"
        and len(request.path) == len("/3/device/") + 64
        and headers["apns-topic"] == TOPIC
        and headers["apns-push-type"] == "alert"
        and headers["apns-priority"] == "10"
        and len(headers["apns-id"]) == 36
        and headers["apns-expiration"].isdecimal()
        and headers["authorization"].startswith("bearer ey")
        and "aps" in json.loads(request.body)
    )
    return RIGHT if is_right else PeerAnswer(400, b'{"reason":"WrongRequest"}')


async def serve() -> None:
    key = CERTIFICATES / "private_key.pem"
    async with Http2Peer(CERTIFICATE, key, judge, window=1 << 24, is_strict=False) as peer:
        print(f"apns: ready  stream=http://127.0.0.1:{peer.port}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(serve())
