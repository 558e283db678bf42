"""What tests of providers share: stand-ins of theirs on real sockets, keys, and notifications."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import uvloop
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from penstock.push.records import Notification
from penstock.testing.http2_peer import Http2Peer, PeerAnswer, PeerJudge, PeerRequest
from tests.support.tls import CERTIFICATES

# The stand-ins' certificate is its own authority.
TRUSTED = str(CERTIFICATES / "certificate.pem")
PRIVATE_KEY = str(CERTIFICATES / "private_key.pem")

NOW = 1_800_000_000.0
# A time-out that only a provider that hangs reaches.
PATIENCE = 20.0
IMPATIENCE = 0.3


def run(story: Coroutine[Any, Any, None]) -> None:
    """On the event loop that servers have."""
    uvloop.run(story)


def peer(judge: PeerJudge, **options: Any) -> Http2Peer:
    return Http2Peer(CERTIFICATES / "certificate.pem", CERTIFICATES / "private_key.pem", judge, **options)


class Book:
    """A judge that writes down what it is asked and gives the same answer to all."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = PeerAnswer() if answer is None else answer
        self.asked: list[PeerRequest] = []
        self.was_asked = asyncio.Event()

    def __call__(self, request: PeerRequest) -> Any:
        self.asked.append(request)
        self.was_asked.set()
        return self.answer


def notification(payload: str = '{"aps":{"alert":"x"}}', number: int = 1) -> Notification:
    millis = int(NOW) * 1000
    return Notification(
        f"0b5e0000-0000-4000-8000-{number:012}", "device", "subscription", payload, millis, millis + 60_000, True
    )


def pem(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def write_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = ec.generate_private_key(ec.SECP256R1())
    path.write_bytes(pem(key))
    return key
