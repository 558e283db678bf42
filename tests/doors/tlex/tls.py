"""A certificate with an RSA key, made on the spot: the hub's one cipher suite needs such a key."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


def certified(directory: Path) -> dict[str, object]:
    """The settings of a server that shows a new certificate, kept in `directory`."""
    key = rsa.generate_private_key(65_537, 2_048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (directory / "certificate.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    (directory / "key.pem").write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    )
    return {
        "tlex.certificate": str(directory / "certificate.pem"),
        "tlex.private_key": str(directory / "key.pem"),
    }


def trusting(directory: Path) -> ssl.SSLContext:
    """A client's side that trusts that certificate."""
    return ssl.create_default_context(cafile=directory / "certificate.pem")
