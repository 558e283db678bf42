"""What all TLS listeners have in common: how a server presents its certificate, and what it never offers.

Which files they are is in `certificates`; ciphers and certificates of clients are up to each listener.
"""

from __future__ import annotations

import ssl

from penstock.certificates import NO_PASSWORD, CertificateFiles


def server_context(files: CertificateFiles) -> ssl.SSLContext:
    """TLS 1.2 or later, without compression and renegotiation. Raises OSError and ssl.SSLError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.load_cert_chain(files.certificate, files.private_key, NO_PASSWORD)
    return context
