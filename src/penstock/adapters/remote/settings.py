"""What both remote adapters are configured with, checked before any port is opened.

Names and defaults are those of a TOML table; the error for a wrong value has its name and what is allowed.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Required, TypedDict

from penstock.certificates import NO_PASSWORD, Certificate, CertificateFiles

MAX_PORT = 65_535


class ParameterError(ValueError):
    """A parameter has a value that it may not have; the text names all three."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        super().__init__(f"parameter {name} is {value!r}; allowed: {allowed}")


class ConnectionParameters(TypedDict, total=False):
    """As they come from a TOML table; only the port has to be there."""

    port: Required[int]
    host: str
    # Credentials that the remote process must give; either may be left out.
    user: str | None
    password: str | None
    tls_certificate: str | Path | None
    tls_private_key: str | Path | None
    # Authorities, one of which must have signed the remote process's certificate.
    tls_client_authorities: str | Path | None
    # Addresses and networks that may connect; none means all.
    allowed_addresses: Sequence[str]
    # For each answer, for credentials, and for the second of two connections.
    timeout_millis: int
    # How often the remote process is asked to show that it is alive, and after how long a silence it is given up.
    # 0 for either: not at all.
    keepalive_hint_millis: int
    keepalive_timeout_millis: int
    # How long the server's start waits for the remote process: 0 not at all, -1 for ever.
    first_connection_timeout_millis: int
    max_line_bytes: int
    # Passed on to the remote process when it is initialised.
    remote_parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """The same, checked; times are in seconds."""

    host: str
    port: int
    user: str | None
    password: str | None
    certificate: Certificate | None
    allowed: tuple[IPv4Network | IPv6Network, ...]
    timeout: float
    keepalive_hint: float
    keepalive_timeout: float
    # None: for ever.
    first_connection_timeout: float | None
    max_line_bytes: int
    remote_parameters: tuple[tuple[str, str], ...]

    @property
    def wants_credentials(self) -> bool:
        return self.user is not None or self.password is not None

    def allows(self, address: str) -> bool:
        """Whether a peer of this address may connect."""
        if not self.allowed:
            return True
        try:
            peer = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        mapped = getattr(peer, "ipv4_mapped", None)
        return any((mapped or peer) in network for network in self.allowed)


def read_settings(given: ConnectionParameters, first_connection_timeout_millis: int) -> ConnectionSettings:
    """Check everything; raises ParameterError."""
    unknown = sorted(set(given) - set(ConnectionParameters.__annotations__))
    if unknown:
        known = ", ".join(ConnectionParameters.__annotations__)
        raise ParameterError(unknown[0], given[unknown[0]], f"no such parameter, only {known}")  # type: ignore[literal-required]
    if "port" not in given:
        raise ParameterError("port", None, f"a port, 0 to {MAX_PORT}")
    hint = millis("keepalive_hint_millis", given.get("keepalive_hint_millis", 5_000))
    silence = millis("keepalive_timeout_millis", given.get("keepalive_timeout_millis", 15_000))
    if silence and silence <= hint:
        raise ParameterError("keepalive_timeout_millis", int(silence * 1000), f"more than the hint, {hint * 1000:.0f}")
    first = given.get("first_connection_timeout_millis", first_connection_timeout_millis)
    return ConnectionSettings(
        host=text("host", given.get("host", "127.0.0.1")),
        port=port("port", given["port"]),
        user=optional_text("user", given.get("user")),
        password=_password(given.get("password")),
        certificate=_certificate(
            _file("tls_certificate", given.get("tls_certificate")),
            _file("tls_private_key", given.get("tls_private_key")),
            _file("tls_client_authorities", given.get("tls_client_authorities")),
        ),
        allowed=_networks(given.get("allowed_addresses", ())),
        timeout=millis("timeout_millis", given.get("timeout_millis", 10_000), 1),
        keepalive_hint=hint,
        keepalive_timeout=silence,
        first_connection_timeout=None if first == -1 else millis("first_connection_timeout_millis", first, 0, -1),
        max_line_bytes=number("max_line_bytes", given.get("max_line_bytes", 1_000_000), 1_000),
        remote_parameters=_parameters(given.get("remote_parameters", {})),
    )


def number(name: str, value: object, least: int, special: int | None = None) -> int:
    """A whole number that is not below the least, unless it is the special one."""
    if not isinstance(value, int) or isinstance(value, bool) or (value < least and value != special):
        raise ParameterError(
            name, value, f"a whole number from {least}" + ("" if special is None else f", or {special}")
        )
    return value


def millis(name: str, value: object, least: int = 0, special: int | None = None) -> float:
    """Milliseconds in, seconds out."""
    return number(name, value, least, special) / 1000


def port(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_PORT:
        raise ParameterError(name, value, f"a port, 0 to {MAX_PORT}")
    return value


def text(name: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ParameterError(name, value, "text that is not empty")
    return value


def optional_text(name: str, value: object) -> str | None:
    return None if value is None else text(name, value)


def _file(name: str, value: object) -> str | None:
    return optional_text(name, str(value) if isinstance(value, Path) else value)


def _password(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise ParameterError("password", "***", "text")
    return value


def _networks(values: object) -> tuple[IPv4Network | IPv6Network, ...]:
    allowed = "a list of addresses and networks such as 10.0.0.0/8"
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise ParameterError("allowed_addresses", values, allowed)
    networks = []
    for value in values:
        try:
            networks.append(ip_network(text("allowed_addresses", value)))
        except ValueError:
            raise ParameterError("allowed_addresses", value, allowed) from None
    return tuple(networks)


def _parameters(values: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(values, Mapping):
        raise ParameterError("remote_parameters", values, "a table of texts")
    for name, value in values.items():
        if not isinstance(value, str):
            raise ParameterError(f"remote_parameters.{name}", value, "text")
    return tuple([(text("remote_parameters", name), value) for name, value in values.items()])


def _certificate(certificate: str | None, private_key: str | None, authorities: str | None) -> Certificate | None:
    if certificate is None:
        for name, value in (("tls_private_key", private_key), ("tls_client_authorities", authorities)):
            if value is not None:
                raise ParameterError(name, value, "nothing without tls_certificate")
        return None
    if private_key is None:
        raise ParameterError("tls_private_key", None, "the file of the certificate's key")
    for name, file in (
        ("tls_certificate", certificate),
        ("tls_private_key", private_key),
        ("tls_client_authorities", authorities),
    ):
        _check_readable(name, file)
    return Certificate(CertificateFiles(certificate, private_key, authorities), _tls_context)


def _check_readable(name: str, file: str | None) -> None:
    try:
        if file is not None:
            Path(file).read_bytes()
    except OSError as error:
        raise ParameterError(name, file, f"a readable PEM file; {error.strerror}") from None


def _tls_context(files: CertificateFiles) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(files.certificate, files.private_key, NO_PASSWORD)
    except (OSError, ssl.SSLError) as error:
        raise ParameterError("tls_certificate", files.certificate, f"a PEM file with its key; {error}") from None
    if files.authorities is not None:
        try:
            context.load_verify_locations(files.authorities)
        except (OSError, ssl.SSLError) as error:
            raise ParameterError("tls_client_authorities", files.authorities, f"a PEM file; {error}") from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context
