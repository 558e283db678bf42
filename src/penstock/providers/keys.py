"""Private keys in files: read, or made once and kept. Not here: what is signed with them."""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from penstock.durable import OWNER_FILE, make_directory, sync_directory, sync_file
from penstock.providers.errors import ProviderError


def read_private_key(path: str) -> PrivateKeyTypes:
    """Raise ProviderError; nothing of the file's contents is in it."""
    try:
        contents = Path(path).read_bytes()
    except OSError as error:
        raise ProviderError(f"cannot read {path}: {error.strerror}") from None
    return parse_private_key(contents, path)


def parse_private_key(contents: bytes, where: str) -> PrivateKeyTypes:
    try:
        return load_pem_private_key(contents, password=None)
    except TypeError:
        raise ProviderError(f"the private key in {where} is encrypted; expected one that is not") from None
    except Exception:
        # Its exceptions are of several kinds, and their texts may repeat the contents.
        raise ProviderError(f"{where} has no private key in PEM form") from None


def kept_private_key(path: Path) -> EllipticCurvePrivateKey:
    """The P-256 key in this file, which is made if it is missing. Raises ProviderError."""
    try:
        if not path.exists():
            _make(path)
    except OSError as error:
        raise ProviderError(f"cannot make {path}: {error.strerror}") from None
    key = read_private_key(str(path))
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        raise ProviderError(f"{path} has no P-256 key")
    return key


def _make(path: Path) -> None:
    """Whole or not at all, because browsers that have subscribed with a key are lost with it."""
    key = generate_private_key(SECP256R1())
    make_directory(path.parent)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.new")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, OWNER_FILE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        file.flush()
        sync_file(file.fileno())
    try:
        # Another process may have been faster; its key stays.
        os.link(unfinished, path)
    except FileExistsError:
        return
    finally:
        unfinished.unlink()
    sync_directory(path.parent)
