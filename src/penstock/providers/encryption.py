"""Payloads that only the browser can read: encrypted for its key, in one record of `aes128gcm`.

Pure but for the key and salt of each message, which come in as arguments. Not here: who sends it (`webpush`).
Read next: RFC 8291 (keys) and RFC 8188 (the form).
"""

from __future__ import annotations

import struct

from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDH,
    SECP256R1,
    EllipticCurvePrivateKey,
    EllipticCurvePublicKey,
)
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

SALT_LENGTH = 16
SECRET_LENGTH = 16
POINT_LENGTH = 65
# The size of a whole body that every push service takes (RFC 8030, 7.2), here also that of the one record in it.
RECORD = 4_096
# Head with our public key, the delimiter after the payload, and the tag.
OVERHEAD = SALT_LENGTH + 4 + 1 + POINT_LENGTH + 1 + 16
MAX_PAYLOAD = RECORD - OVERHEAD

_LAST_RECORD = b"\x02"


def read_point(point: bytes) -> EllipticCurvePublicKey:
    """A browser's public key. Raises ValueError for what is not a point of the curve."""
    if len(point) != POINT_LENGTH:
        raise ValueError(f"it has {len(point)} bytes; expected {POINT_LENGTH}")
    return EllipticCurvePublicKey.from_encoded_point(SECP256R1(), point)


def write_point(key: EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def encrypt(
    payload: bytes, browser: EllipticCurvePublicKey, secret: bytes, own: EllipticCurvePrivateKey, salt: bytes
) -> bytes:
    """The body of a request. `own` and `salt` are new for every message."""
    if len(payload) > MAX_PAYLOAD:
        raise ValueError(f"the payload has {len(payload)} bytes; expected at most {MAX_PAYLOAD}")
    point = write_point(own.public_key())
    info = b"WebPush: info\x00" + write_point(browser) + point
    material = _derive(own.exchange(ECDH(), browser), secret, info, 32)
    return seal(payload, material, salt, point)


def seal(payload: bytes, material: bytes, salt: bytes, key_id: bytes, record: int = RECORD) -> bytes:
    """RFC 8188 for what fits into one record: head, then the encrypted payload."""
    key = _derive(material, salt, b"Content-Encoding: aes128gcm\x00", 16)
    nonce = _derive(material, salt, b"Content-Encoding: nonce\x00", 12)
    head = salt + struct.pack(">IB", record, len(key_id)) + key_id
    # The first and only record has the number 0, so that the nonce stays as it is.
    return head + AESGCM(key).encrypt(nonce, payload + _LAST_RECORD, None)


def _derive(material: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(SHA256(), length, salt, info).derive(material)
