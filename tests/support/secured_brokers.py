"""Brokers with TLS and a log-in, each at three addresses: one as it should be, one with the certificate of another
host, and one that asks for a certificate of the client instead of a password.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.authority import Authority, Certificate
from tests.support.broker_process import HOST, free_ports
from tests.support.kafka_broker import Broker, KafkaListener
from tests.support.mosquitto import Mosquitto
from tests.support.nats_server import NatsServer

USER, PASSWORD, WRONG_PASSWORD = "ada", "right-word", "wrong-word"
OTHER_HOST = "other.example"


@dataclass(frozen=True, slots=True)
class SecuredBroker:
    kind: str
    authority: Authority
    # Has signed nothing that the broker shows.
    stranger: Authority
    # Of a client.
    client: Certificate
    # host:port
    address: str
    misnamed: str
    mutual: str


@contextmanager
def secured_broker(kind: str, directory: Path) -> Iterator[SecuredBroker]:
    """mqtt, kafka or nats."""
    authority, stranger = Authority(directory / "tls"), Authority(directory / "stranger", "stranger")
    host, other = authority.certificate(HOST), authority.certificate(OTHER_HOST)
    make = {"mqtt": _mosquitto, "kafka": _kafka, "nats": _nats}[kind]
    with ExitStack() as stack:
        ports = make(directory, authority, host, other, stack)
        addresses = [f"{HOST}:{port}" for port in ports]
        yield SecuredBroker(kind, authority, stranger, authority.certificate(USER), *addresses)


def _mosquitto(
    directory: Path, authority: Authority, host: Certificate, other: Certificate, stack: ExitStack
) -> list[int]:
    passwords = directory / "passwords"
    subprocess.run(["mosquitto_passwd", "-b", "-c", str(passwords), USER, PASSWORD], check=True, capture_output=True)

    def listener(shown: Certificate) -> str:
        return f"cafile {authority.file}\ncertfile {shown.certificate}\nkeyfile {shown.private_key}\n"

    more = free_ports(2)
    settings = [
        # Else one that was started by root cannot read the files of the test.
        "user root",
        "per_listener_settings true",
        listener(host) + f"allow_anonymous false\npassword_file {passwords}",
        f"listener {more[0]} {HOST}\n" + listener(other) + f"allow_anonymous false\npassword_file {passwords}",
        f"listener {more[1]} {HOST}\n" + listener(host) + "require_certificate true\nuse_identity_as_username true",
    ]
    return [stack.enter_context(Mosquitto(directory, "\n".join(settings))).port, *more]


def _nats(directory: Path, authority: Authority, host: Certificate, other: Certificate, stack: ExitStack) -> list[int]:
    def tls(shown: Certificate, more: str = "") -> str:
        return f'tls {{ cert_file: "{shown.certificate}", key_file: "{shown.private_key}"{more} }}\n'

    login = f'authorization {{ user: {USER}, password: "{PASSWORD}" }}'
    mutual = tls(host, f', ca_file: "{authority.file}", verify: true')
    settings = [tls(host) + login, tls(other) + login, mutual]
    return [stack.enter_context(NatsServer(directory, each)).port for each in settings]


def _kafka(directory: Path, authority: Authority, host: Certificate, other: Certificate, stack: ExitStack) -> list[int]:
    def tls(name: str, shown: Certificate) -> dict[str, str]:
        file = directory / f"{name}-keystore.pem"
        file.write_text(shown.both)
        return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(file)}

    modules = "org.apache.kafka.common.security"
    login = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "plain.sasl.jaas.config": f'{modules}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
        "scram-sha-512.sasl.jaas.config": f"{modules}.scram.ScramLoginModule required;",
    }
    trust = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.file),
        "ssl.client.auth": "required",
    }
    listeners = [
        KafkaListener("SECURED", "SASL_SSL", {**tls("secured", host), **login}),
        KafkaListener("MISNAMED", "SASL_SSL", {**tls("misnamed", other), **login}),
        KafkaListener("MUTUAL", "SSL", {**tls("mutual", host), **trust}),
    ]
    users = [f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]"]
    broker = stack.enter_context(Broker(directory / "kafka", listeners, users))
    broker.create_topic("loop")
    return [each.port for each in listeners]
