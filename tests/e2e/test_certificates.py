"""SIGHUP has every TLS listener read its certificate again: newcomers see the new one, and nobody is disconnected."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from cryptography.x509.oid import NameOID

from tests.doors.tlex.tls import certified
from tests.support.process import ServerProcess
from tests.support.raw import Exchange
from tests.support.tls import CERTIFICATES, TLS
from tests.transport.test_client_certificates import Authority

PATIENCE = 30.0


def shown_at(port: int) -> str:
    """The fingerprint of the certificate that a newcomer is shown."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as plain, context.wrap_socket(plain) as secure:
        found = secure.getpeercert(binary_form=True)
    assert found is not None
    return hashlib.sha256(found).hexdigest()


def in_file(certificate: Path) -> str:
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate.read_text())).hexdigest()


class Renewal:
    """A server with a TLS listener of each kind, all with one certificate."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        certified(directory)
        self.certificate, self.key = directory / "certificate.pem", directory / "key.pem"
        files = {"certificate": str(self.certificate), "private_key": str(self.key)}
        remote = "adapters.FAR.data.FEED"
        self.process = ServerProcess(
            directory,
            {
                "log.format": "json",
                "demo.enabled": True,
                **{f"stream.tls.{name}": path for name, path in files.items()},
                "stream.tls.port": 0,
                **{f"api.tls.{name}": path for name, path in files.items()},
                "listeners.more.port": 0,
                **{f"listeners.more.tls.{name}": path for name, path in files.items()},
                "tlex.enabled": True,
                "tlex.port": 0,
                "tlex.tls_port": 0,
                **{f"tlex.{name}": path for name, path in files.items()},
                f"{remote}.adapter": "remote",
                f"{remote}.parameters.port": 0,
                **{f"{remote}.parameters.tls_{name}": path for name, path in files.items()},
            },
        )

    @property
    def events(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.process.log.splitlines() if line.startswith("{")]

    def tlex_port(self) -> int:
        """Only sessions are told which port has TLS, so the log of the start must do."""
        (found,) = [event for event in self.events if event["event"] == "TLEX listens"]
        port = found["tls_port"]
        assert isinstance(port, int)
        return port

    def remote_port(self) -> int:
        (found,) = [event for event in self.events if event["event"] == "waiting for a remote adapter"]
        ports = found["ports"]
        assert isinstance(ports, list)
        return int(ports[0])

    def ports(self) -> dict[str, int]:
        named = re.search(r"more=https://[\d.]+:(\d+)", self.process.ready)
        assert named is not None
        return {
            "stream": self.process.tls_port,
            "api": self.process.api_port,
            "more": int(named[1]),
            "tlex": self.tlex_port(),
            "remote": self.remote_port(),
        }

    def wait_for(self, event: str, listener: str) -> None:
        """Until the log has this event about a listener."""
        deadline = time.monotonic() + PATIENCE
        while not [found for found in self.events if (found["event"], found.get("listener")) == (event, listener)]:
            assert time.monotonic() < deadline, self.process.log
            time.sleep(0.02)

    def hang_up(self, *expected: str) -> None:
        """SIGHUP, and wait until the log has as many more lines of these events."""
        before = [sum(event["event"] == name for event in self.events) for name in expected]
        self.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + PATIENCE
        while True:
            after = [sum(event["event"] == name for event in self.events) for name in expected]
            if all(new > old for new, old in zip(after, before, strict=True)):
                return
            assert time.monotonic() < deadline, self.process.log
            time.sleep(0.02)


@pytest.fixture
def renewal(tmp_path: Path) -> Iterator[Renewal]:
    renewal = Renewal(tmp_path)
    with renewal.process:
        yield renewal


def test_newcomers_are_shown_the_new_certificate_and_nobody_is_disconnected(renewal: Renewal) -> None:
    first = in_file(renewal.certificate)
    ports = renewal.ports()
    assert {name: shown_at(port) for name, port in ports.items()} == dict.fromkeys(ports, first)

    trusting = ssl.create_default_context(cafile=renewal.certificate)
    exchange = Exchange("127.0.0.1", renewal.process.tls_port, trusting)
    with exchange.stream("WELCOME") as stream:
        certified(renewal.directory)
        second = in_file(renewal.certificate)
        assert second != first
        renewal.hang_up("configuration reloaded")
        assert {name: shown_at(port) for name, port in ports.items()} == dict.fromkeys(ports, second)

        plain = Exchange("127.0.0.1", renewal.process.port)
        asked = {"reqId": 1, "op": "add", "subId": 1, "group": "item2", "schema": "last_price", "mode": "MERGE"}
        assert plain.control(stream.session, **asked, data_adapter="STOCKS") == ["REQOK,1"]
        assert stream.read_until("U")
    read_again = [event for event in renewal.events if event["event"] == "certificate read again"]
    assert sorted(str(event["listener"]) for event in read_again) == [
        "adapters.FAR.data.FEED",
        "api",
        "more",
        "stream.tls",
        "tlex",
    ]


def test_a_certificate_that_is_no_good_is_refused_and_the_old_one_stays(renewal: Renewal) -> None:
    first = in_file(renewal.certificate)
    ports = renewal.ports()
    renewal.certificate.write_bytes((CERTIFICATES / "certificate.pem").read_bytes())
    renewal.hang_up("new configuration rejected, the old one stays in force")
    # Once the change of the files is noticed, each listener rejects them too.
    (refusal,) = [event for event in renewal.events if str(event["event"]).startswith("new configuration rejected")]
    assert "stream.tls.certificate" in str(refusal["reason"])
    assert "expected a PEM certificate chain that fits" in str(refusal["reason"])
    assert {name: shown_at(port) for name, port in ports.items()} == dict.fromkeys(ports, first)


def test_a_remote_adapter_keeps_its_old_certificate_when_the_new_one_is_no_good(tmp_path: Path) -> None:
    renewal = Renewal(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    certified(other)
    settings = renewal.process._settings
    for name, file in (("certificate", "certificate.pem"), ("private_key", "key.pem")):
        for table in ("stream.tls", "api.tls", "listeners.more.tls", "tlex"):
            settings[f"{table}.{name}"] = str(other / file)
    with renewal.process:
        first = in_file(renewal.certificate)
        renewal.key.write_text("no key")
        renewal.hang_up("certificate rejected, the old one stays", "configuration reloaded")
        refusal = next(event for event in renewal.events if event["level"] == "error")
        assert refusal["listener"] == "adapters.FAR.data.FEED"
        assert re.search(r"tls_certificate is .*certificate\.pem", str(refusal["reason"]))
        assert shown_at(renewal.remote_port()) == first


def test_files_of_other_names_are_taken_as_well(renewal: Renewal) -> None:
    other = renewal.directory / "other"
    other.mkdir()
    certified(other)
    file = renewal.directory / "penstock.toml"
    tables = r"stream\.tls|api\.tls|listeners\.more\.tls|tlex"
    renamed = re.sub(rf'(?m)^(({tables})\.\w+ = )"[^"]*/(\w+\.pem)"$', rf'\1"{other}/\3"', file.read_text())
    file.write_text(renamed)
    ports = renewal.ports()
    renewal.hang_up("configuration reloaded")
    new = in_file(other / "certificate.pem")
    assert {name: shown_at(ports[name]) for name in ports} == {
        **dict.fromkeys(ports, new),
        "remote": in_file(renewal.certificate),
    }
    assert not [event for event in renewal.events if event["event"] == "changes need a restart"]


def test_files_that_have_changed_are_read_again_without_a_signal(renewal: Renewal) -> None:
    ports = renewal.ports()
    first = in_file(renewal.certificate)
    renewal.key.write_text("no key")
    renewal.wait_for("certificate rejected, the old one stays", "api")
    assert shown_at(ports["api"]) == first
    certified(renewal.directory)
    for listener in ("stream.tls", "api", "more", "tlex", "adapters.FAR.data.FEED"):
        renewal.wait_for("certificate read again", listener)
    second = in_file(renewal.certificate)
    assert second != first
    assert {name: shown_at(port) for name, port in ports.items()} == dict.fromkeys(ports, second)
    refused = [event for event in renewal.events if event["event"] == "certificate rejected, the old one stays"]
    assert len([event for event in refused if event["listener"] == "api"]) == 1


def test_the_api_port_speaks_tls_and_nothing_else(renewal: Renewal) -> None:
    context = ssl.create_default_context(cafile=renewal.certificate)
    url = f"127.0.0.1:{renewal.process.api_port}/health"
    with urlopen(Request(f"https://{url}"), timeout=PATIENCE, context=context) as answer:
        assert (answer.status, json.load(answer)["status"]) == (200, "live")
    with pytest.raises((OSError, HTTPException)):
        urlopen(Request(f"http://{url}"), timeout=PATIENCE)
    assert f"api=https://127.0.0.1:{renewal.process.api_port}" in renewal.process.ready


def is_admitted(port: int, context: ssl.SSLContext) -> bool:
    """In TLS 1.3 a client learns of a refusal only when it reads."""
    with Exchange("127.0.0.1", port, context).http() as http:
        try:
            http.get("/health")
            return http.read_head() == 200
        except (ssl.SSLError, ConnectionError, EOFError):
            return False


def test_the_authorities_of_clients_are_read_again_too(tmp_path: Path) -> None:
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    known = tmp_path / "clients.pem"
    known.write_bytes(old.certificate.read_bytes())
    settings = {**TLS, "stream.tls.client_ca": str(known), "stream.tls.client_certificate": "required"}
    with ServerProcess(tmp_path, settings) as process:
        subject = (NameOID.COMMON_NAME, "ann")
        assert is_admitted(process.tls_port, old.context(subject))
        assert not is_admitted(process.tls_port, new.context(subject))
        known.write_bytes(new.certificate.read_bytes())
        process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + PATIENCE
        while "certificate read again" not in process.log:
            assert time.monotonic() < deadline, process.log
            time.sleep(0.02)
        assert is_admitted(process.tls_port, new.context(subject))
        assert not is_admitted(process.tls_port, old.context(subject))
