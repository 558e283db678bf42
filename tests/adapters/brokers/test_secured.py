"""Adapters of real brokers with TLS and a log-in: what is right is read, what is wrong is told without secrets."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.adapters.brokers import link
from penstock.adapters.brokers.adapter import BrokerAdapter
from penstock.adapters.brokers.link import LinkedAdapter
from penstock.adapters.kafka import KafkaAdapter
from penstock.adapters.mqtt import MqttAdapter
from penstock.adapters.nats import NatsAdapter
from tests.adapters.brokers.scene import at_work
from tests.support.nats_server import NatsServer
from tests.support.secured_brokers import PASSWORD, USER, WRONG_PASSWORD, SecuredBroker, secured_broker

pytestmark = pytest.mark.timeout(300)

NOT_LOGGED_IN = {"mqtt": "not authorized", "kafka": "Authentication failed", "nats": "Authorization Violation"}


@pytest.fixture(scope="module", params=list(NOT_LOGGED_IN))
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with secured_broker(request.param, tmp_path_factory.mktemp(request.param)) as made:
        yield made


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "FIRST_CONNECTION", 5.0)


def file_of(directory: Path, text: str) -> Path:
    path = directory / "secret"
    path.write_text(f"{text}\n")
    return path


def adapter(
    broker: SecuredBroker, secret: Path, address: str = "", ca: Path | None = None, mechanism: str = "PLAIN"
) -> BrokerAdapter:
    address, ca = address or broker.address, ca or broker.authority.file
    if broker.kind == "mqtt":
        return MqttAdapter(server=address, topics="loop", user=USER, password_file=secret, tls_ca_file=ca)
    if broker.kind == "nats":
        servers = f"tls://{address}"
        return NatsAdapter(servers=servers, topics="loop", user=USER, password_file=secret, tls_ca_file=ca)
    options = {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "ssl.ca.location": str(ca)}
    secret.write_text(f"sasl.username={USER}\nsasl.password={secret.read_text()}")
    return KafkaAdapter(servers=address, topics="loop", options=options, options_file=secret)


def by_certificate(broker: SecuredBroker, **more: Any) -> BrokerAdapter:
    files = {"tls_ca_file": broker.authority.file, **more}
    if broker.kind == "mqtt":
        return MqttAdapter(server=broker.mutual, topics="loop", **files)
    if broker.kind == "nats":
        return NatsAdapter(servers=f"tls://{broker.mutual}", topics="loop", **files)
    names = {"tls_ca_file": "ca", "tls_certificate": "certificate", "tls_private_key": "key"}
    options = {f"ssl.{names[name]}.location": str(path) for name, path in files.items()}
    return KafkaAdapter(servers=broker.mutual, topics="loop", options={"security.protocol": "SSL", **options})


async def starts(made: BrokerAdapter) -> None:
    async with at_work(made):
        assert made.trouble is None


async def begun(made: BrokerAdapter) -> None:
    started = made.start()
    assert started is not None
    await started


def told(made: BrokerAdapter, caplog: pytest.LogCaptureFixture) -> str:
    with pytest.raises(ValueError, match=r"127\.0\.0\.1") as raised:
        asyncio.run(begun(made))
    for secret in (PASSWORD, WRONG_PASSWORD):
        assert secret not in str(raised.value) + caplog.text
    return str(raised.value)


def test_what_is_right_is_read(broker: SecuredBroker, tmp_path: Path) -> None:
    asyncio.run(starts(adapter(broker, file_of(tmp_path, PASSWORD))))
    if broker.kind == "kafka":
        asyncio.run(starts(adapter(broker, file_of(tmp_path, PASSWORD), mechanism="SCRAM-SHA-512")))


def test_a_wrong_password_is_told(broker: SecuredBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = adapter(broker, file_of(tmp_path, WRONG_PASSWORD))
    assert NOT_LOGGED_IN[broker.kind] in told(made, caplog)


def test_a_certificate_of_another_authority_or_host_is_told(
    broker: SecuredBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    made = adapter(broker, file_of(tmp_path, PASSWORD), ca=broker.stranger.file)
    assert "certificate verify failed" in told(made, caplog)
    made = adapter(broker, file_of(tmp_path, PASSWORD), broker.misnamed)
    assert "certificate verify failed" in told(made, caplog)


def test_a_client_is_known_by_its_certificate(broker: SecuredBroker, caplog: pytest.LogCaptureFixture) -> None:
    shown = broker.client
    asyncio.run(starts(by_certificate(broker, tls_certificate=shown.certificate, tls_private_key=shown.private_key)))
    # OpenSSL and Go say that one is required, Java that it is bad; who is late does not hear it.
    words = ("bad certificate",) if broker.kind == "kafka" else ("certificate required", "perhaps it requires")
    reason = told(by_certificate(broker), caplog)
    assert any(word in reason for word in words), reason


async def given_up(made: LinkedAdapter, turns: int) -> None:
    reading = asyncio.create_task(made.read())
    for _ in range(turns):
        await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait([reading])


def test_a_connection_that_is_given_up_at_any_moment_leaves_nothing_open(broker: SecuredBroker, tmp_path: Path) -> None:
    if broker.kind == "kafka":
        # Its library has threads and sockets of its own.
        return
    secret = file_of(tmp_path, PASSWORD)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for turns in range(0, 200, 3 if broker.kind == "mqtt" else 20):
            made = adapter(broker, secret)
            assert isinstance(made, LinkedAdapter)
            asyncio.run(given_up(made, turns))
        gc.collect()
    assert [str(each.message) for each in warned] == []


def test_nats_knows_clients_by_a_token(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with NatsServer(tmp_path, f'authorization {{ token: "{PASSWORD}" }}') as server:
        asyncio.run(starts(NatsAdapter(servers=server.url, topics="a", token_file=file_of(tmp_path, PASSWORD))))
        made = NatsAdapter(servers=server.url, topics="a", token_file=file_of(tmp_path, WRONG_PASSWORD))
        assert "Authorization Violation" in told(made, caplog)


def test_a_secret_is_given_once_and_its_file_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="password is set together with password_file") as raised:
        MqttAdapter(server="broker", topics="a", password=PASSWORD, password_file=tmp_path / "none")
    assert PASSWORD not in str(raised.value)
    with pytest.raises(ValueError, match=r"token_file = '.*none': No such file"):
        NatsAdapter(servers="nats://broker", topics="a", token_file=tmp_path / "none")
