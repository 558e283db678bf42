"""What is kept of a token: a keyed hash, by which it is also looked up.

Tokens have 256 random bits, so nobody guesses them from a hash, however fast it is; slow hashes are for passwords. The
key is the database's own, so that hashes of two databases cannot be compared.
"""

from __future__ import annotations

from hashlib import blake2b

KEY_SIZE = 32
DIGEST_SIZE = 32

# Longer ones are wrong without a look: no token was ever this long.
MAX_SECRET = 256


def digest(key: bytes, secret: str) -> bytes:
    return blake2b(secret.encode("utf-8", "surrogatepass"), digest_size=DIGEST_SIZE, key=key).digest()
