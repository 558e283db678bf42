"""A TLS listener's certificate that can be replaced while the listener is open.

Not here: which files are configured and whether they are right (config/checks.py), and the ciphers and versions of each
listener (the `make` that it brings). Read next: docs/configuration.md, "Reloading".
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

NO_PASSWORD = ""
"""The password given for a private key: without one OpenSSL would stop and ask for it on the terminal."""


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """PEM files; `authorities` are those that sign clients' certificates, None if clients are asked for none."""

    certificate: str
    private_key: str
    authorities: str | None = None

    def digest(self) -> bytes:
        """A digest of their contents; raises OSError."""
        names = [name for name in (self.certificate, self.private_key, self.authorities) if name is not None]
        return sha256(b"".join([sha256(Path(name).read_bytes()).digest() for name in names])).digest()


class Certificate:
    """`context` is for the listener as long as it is open; each handshake uses what the last `renew` has read."""

    def __init__(self, files: CertificateFiles, make: Callable[[CertificateFiles], ssl.SSLContext]) -> None:
        """`make` reads the files; its exceptions are raised from here and from `renew`."""
        self.files = files
        self._make = make
        self._digest = files.digest()
        self.context = self._current = make(files)
        # Called in each handshake, also of clients that name no server. The connection takes the certificate, its key
        # and the authorities of the context that it is given here; its TLS versions stay those of the listener.
        self.context.sni_callback = self._choose

    def renew(self, files: CertificateFiles | None = None) -> bool:
        """Read the files again, or other files; whether anything is new. If it raises, the old certificate stays.

        Blocks for as long as files are read; may be called on any thread.
        """
        files = self.files if files is None else files
        if files.authorities is None or self.files.authorities is None:
            # Whether clients are asked for certificates is a setting of the listener, and stays.
            files = replace(files, authorities=self.files.authorities)
        digest = files.digest()
        if digest == self._digest:
            self.files = files
            return False
        self._current = self._make(files)
        self.files, self._digest = files, digest
        return True

    def _choose(self, connection: ssl.SSLSocket | ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        if connection.context is not self._current:
            connection.context = self._current
