"""The certificate that the tests' servers show, and the configuration that makes them show it."""

from __future__ import annotations

import ssl
from pathlib import Path

CERTIFICATES = Path(__file__).parents[1] / "config" / "tls"
TLS = {
    "stream.tls.certificate": str(CERTIFICATES / "certificate.pem"),
    "stream.tls.private_key": str(CERTIFICATES / "private_key.pem"),
    "stream.tls.port": 0,
}


def trusting_context() -> ssl.SSLContext:
    """A client's side that trusts that certificate."""
    return ssl.create_default_context(cafile=CERTIFICATES / "certificate.pem")
