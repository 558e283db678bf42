"""Secrets at rest: encrypted with a key in a file of its own, which only its owner can read."""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken

from penstock.durable import OWNER_FILE, sync_directory, sync_file
from penstock.store.errors import CannotOpen


class Seal:
    """Encrypts and decrypts with one key."""

    def __init__(self, key: bytes) -> None:
        self._fernet = Fernet(key)

    @classmethod
    def open(cls, path: Path) -> Seal:
        """With the key in this file, which is made if there is none. Raises CannotOpen. Blocks."""
        try:
            if not path.exists():
                _write(path, Fernet.generate_key())
            key = path.read_bytes().strip()
        except OSError as error:
            raise CannotOpen(f"the key of connections, {path}, cannot be used: {error.strerror}") from error
        try:
            return cls(key)
        except ValueError:
            raise CannotOpen(f"the key of connections, {path}, is damaged: expected 32 bytes in Base64") from None

    def seal(self, data: bytes) -> bytes:
        return self._fernet.encrypt(data)

    def unseal(self, sealed: bytes) -> bytes:
        """Raises CannotOpen if it was encrypted with another key, or is damaged."""
        try:
            return self._fernet.decrypt(sealed)
        except InvalidToken:
            raise CannotOpen("connections in the store were encrypted with another key, or are damaged") from None


def _write(path: Path, key: bytes) -> None:
    """Whole or not at all."""
    beside = path.with_name(f"{path.name}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, OWNER_FILE)
    try:
        os.write(descriptor, key)
        sync_file(descriptor)
    finally:
        os.close(descriptor)
    os.replace(beside, path)
    sync_directory(path.parent)
