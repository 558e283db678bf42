"""What TLS listeners have in common: how a server shows its certificate, and what it never offers.

Which files they are, and how they are read again, is in `certificates`.
"""

from __future__ import annotations

import ssl

from penstock.certificates import NO_PASSWORD, CertificateFiles
from penstock.config import CertificateSection


def server_context(files: CertificateFiles) -> ssl.SSLContext:
    """TLS 1.2 or later, without compression and renegotiation. Raises OSError and ssl.SSLError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    context.load_cert_chain(files.certificate, files.private_key, NO_PASSWORD)
    return context


def certificate_files(settings: CertificateSection) -> CertificateFiles:
    """Those of a listener of HTTP."""
    return CertificateFiles(settings.certificate, settings.private_key, settings.client_ca or None)


def http_context(settings: CertificateSection, files: CertificateFiles) -> ssl.SSLContext:
    """What a listener of HTTP shows to clients, and whether they have to show something too."""
    context = server_context(files)
    if settings.ciphers:
        context.set_ciphers(settings.ciphers)
    if files.authorities is not None:
        context.load_verify_locations(files.authorities)
        is_required = settings.client_certificate == "required"
        context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
    return context
