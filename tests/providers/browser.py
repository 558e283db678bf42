"""A browser's side of Web Push: it subscribes, and decrypts what it is sent. Written from the standards alone."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class TestBrowser:
    """`subscription` is what its page would register."""

    __test__ = False

    def __init__(self) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.secret = os.urandom(16)

    def subscription(self, endpoint: str) -> str:
        point = self.key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        keys = {"p256dh": encoded(point), "auth": encoded(self.secret)}
        return json.dumps({"endpoint": endpoint, "expirationTime": None, "keys": keys})

    def read(self, body: bytes) -> bytes:
        return open_message(body, self.key, self.secret)


def open_message(body: bytes, key: ec.EllipticCurvePrivateKey, secret: bytes) -> bytes:
    """RFC 8291, 3.4, and RFC 8188, with HKDF spelled out (RFC 5869)."""
    salt, size, length = body[:16], int.from_bytes(body[16:20]), body[20]
    point, record = body[21 : 21 + length], body[21 + length :]
    assert len(record) <= size
    sender = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), point)
    own = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    shared = mac(secret, key.exchange(ec.ECDH(), sender))
    material = mac(shared, b"WebPush: info\x00" + own + point + b"\x01")
    pseudo_random = mac(salt, material)
    content_key = mac(pseudo_random, b"Content-Encoding: aes128gcm\x00\x01")[:16]
    nonce = mac(pseudo_random, b"Content-Encoding: nonce\x00\x01")[:12]
    padded = AESGCM(content_key).decrypt(nonce, record, None)
    payload, delimiter, padding = padded.rpartition(b"\x02")
    assert delimiter
    assert not padding.strip(b"\x00")
    return payload


def mac(key: bytes, data: bytes) -> bytes:
    return hmac.new(key, data, hashlib.sha256).digest()
