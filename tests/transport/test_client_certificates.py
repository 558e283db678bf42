"""Clients that show a certificate: who is let in, and what the metadata adapter is told."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from penstock.transport.peer import subject_text
from tests.support.background import BackgroundServer
from tests.support.raw import Exchange
from tests.support.tls import TLS, trusting_context

LIFE = datetime.timedelta(days=1)


class Authority:
    """Signs clients' certificates; its own is in `certificate`."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._certificate = self._signed(subject, self._key, is_authority=True)
        self.certificate = directory / f"{name}.pem"
        self.certificate.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def _signed(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, is_authority: bool) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self._name)])
        builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
        builder = builder.not_valid_before(now - LIFE).not_valid_after(now + LIFE)
        builder = builder.add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        return builder.sign(self._key, hashes.SHA256())

    def context(self, *subject: tuple[x509.ObjectIdentifier, str]) -> ssl.SSLContext:
        """A client's side that shows a certificate for this subject."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(oid, value) for oid, value in subject])
        certificate = self._signed(name, key, is_authority=False)
        file = self._directory / "client.pem"
        file.write_bytes(
            certificate.public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        context = trusting_context()
        context.load_cert_chain(file)
        return context


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "fields")


def serve(authority: Authority, **settings: object) -> BackgroundServer:
    overrides = {f"stream.tls.{name}": value for name, value in settings.items()}
    return BackgroundServer({**TLS, "stream.tls.client_ca": str(authority.certificate), **overrides})


def is_refused(exchange: Exchange) -> bool:
    """In TLS 1.3 a client learns of it only when it reads."""
    with exchange.http() as http:
        try:
            http.get("/health")
            http.read_head()
        except (ssl.SSLError, ConnectionError, EOFError):
            return True
    return False


DEVICE = ((NameOID.ORGANIZATION_NAME, "Fields, Inc"), (NameOID.COMMON_NAME, "device-7"))


@pytest.mark.parametrize("required", ["optional", "required"])
def test_the_metadata_adapter_is_told_whom_a_certificate_names(authority: Authority, required: str) -> None:
    with serve(authority, client_certificate=required) as server:
        exchange = Exchange(server.host, server.tls_port, authority.context(*DEVICE))
        with exchange.stream() as stream:
            assert stream.head[0].startswith("CONOK,")
            (client,) = server.metadata.clients
            assert client.principal == r"CN=device-7,O=Fields\, Inc"
            assert client.port == stream.http.socket.getsockname()[1]


def test_a_client_without_a_certificate_is_let_in_where_it_is_optional(authority: Authority) -> None:
    with serve(authority) as server, Exchange(server.host, server.tls_port, trusting_context()).stream() as stream:
        assert stream.head[0].startswith("CONOK,")
        assert [client.principal for client in server.metadata.clients] == [None]


def test_a_client_without_a_certificate_is_refused_where_it_is_required(authority: Authority) -> None:
    with serve(authority, client_certificate="required") as server:
        assert is_refused(Exchange(server.host, server.tls_port, trusting_context()))
        assert server.metadata.clients == []


def test_a_certificate_of_another_authority_is_refused(authority: Authority, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "elsewhere")
    with serve(authority) as server:
        assert is_refused(Exchange(server.host, server.tls_port, stranger.context(*DEVICE)))
        assert server.metadata.clients == []


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        ((), ""),
        (((("commonName", "a"),),), "CN=a"),
        (((("countryName", "IT"),), (("commonName", "a"),)), "CN=a,C=IT"),
        (((("commonName", "a"), ("userId", "7")),), "CN=a+UID=7"),
        (((("commonName", ' a,b+c"d\\e<f>g;h=i '),),), r"CN=\ a\,b\+c\"d\\e\<f\>g\;h\=i\ "),
        (((("commonName", "#a"),), (("emailAddress", "a@b"),)), r"emailAddress=a@b,CN=\#a"),
    ],
)
def test_subjects_are_written_as_in_rfc_4514(subject: object, text: str) -> None:
    assert subject_text(subject) == text
