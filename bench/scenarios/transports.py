"""The fan-out at saturation over the other transports: HTTP streaming, and both over TLS."""

from __future__ import annotations

import argparse
import datetime
from pathlib import Path

from bench.peers import penstock
from bench.rig.build import BUILD
from bench.rig.contest import installed
from bench.rig.machine import Cores
from bench.rig.results import Report
from bench.scenarios.saturation import EACH, ITEMS, measure, tell, tens

ABOUT = "fan-out at saturation over HTTP streaming and TLS"


def certificate() -> tuple[Path, Path]:
    """A key and a certificate that it has signed itself, for the load that checks neither."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    chain, private = BUILD / "certificate.pem", BUILD / "key.pem"
    if chain.exists():
        return chain, private
    BUILD.mkdir(exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=3650))
        .sign(key, hashes.SHA256())
    )
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    chain.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    return chain, private


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--subscribers", type=tens, nargs="+", default=[1000], help="(default 1000)")
    parser.add_argument("--windows", "--window", type=int, nargs="+", default=[100, 1000], help="(default 100 1000)")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one measurement (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="(default %(default)s)")


def connections(options: argparse.Namespace) -> int:
    return int(max(options.subscribers))


async def run(options: argparse.Namespace, cores: Cores) -> bool:
    report = Report("transports")
    chain, key = certificate()
    tls = ["stream.tls.port=0", f"stream.tls.certificate={chain}", f"stream.tls.private_key={key}"]
    merge = {"conflated": True}
    peers = [
        penstock.variant("WebSocket", "as in the fan-out", [], merge),
        penstock.variant("HTTP stream", "chunks of one long answer", [], {**merge, "http": True}),
        penstock.variant("WebSocket, TLS", "TLS 1.3 by OpenSSL on both sides", tls, {**merge, "tls": True}),
        penstock.variant("HTTP stream, TLS", "the same", tls, {**merge, "http": True, "tls": True}),
    ]
    installed(peers, report)
    for subscribers in options.subscribers:
        size = {"subscribers": subscribers, "items": ITEMS, "each": EACH}
        figures = measure(peers, size, options, cores, report)
        tell(figures, peers, subscribers, options.windows, report)
    return report.save()
