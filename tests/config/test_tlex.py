from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config import ConfigError, load
from tests.doors.tlex.tls import certified

TLS = Path(__file__).parent / "tls"


def complaint(**overrides: object) -> str:
    with pytest.raises(ConfigError) as caught:
        load(None, {f"tlex.{key}": value for key, value in overrides.items()})
    return str(caught.value)


def test_the_door_is_closed_by_default() -> None:
    tlex = load(None, {}).config.tlex
    assert (tlex.enabled, tlex.host, tlex.port, tlex.tls_port) == (False, "127.0.0.1", 8090, 8091)


def test_each_type_of_session_has_limits_of_its_own() -> None:
    tlex = load(None, {"tlex.broker.payloads_per_second": 7}).config.tlex
    assert [each.payloads_per_second for each in (tlex.tlc, tlex.broker, tlex.monitor)] == [12, 7, 1_200]


def test_a_certificate_needs_its_key_and_the_other_way_round(tmp_path: Path) -> None:
    files = certified(tmp_path)
    assert load(None, files).config.tlex.certificate
    for key, partner in (("certificate", "private_key"), ("private_key", "certificate")):
        assert f"expected tlex.{partner} to be set as well" in complaint(**{key: files[f"tlex.{key}"]})


def test_a_certificate_whose_key_is_not_rsa_is_refused_since_nobody_could_connect() -> None:
    found = complaint(certificate=f"{TLS}/certificate.pem", private_key=f"{TLS}/private_key.pem")
    assert found.endswith(": expected a certificate with an RSA key")


def test_files_that_are_not_there_or_do_not_fit_are_named(tmp_path: Path) -> None:
    files = certified(tmp_path)
    missing = complaint(certificate="nowhere.pem", private_key=files["tlex.private_key"])
    assert '"nowhere.pem": expected a readable file (No such file or directory)' in missing
    other = complaint(certificate=files["tlex.certificate"], private_key=f"{TLS}/other_key.pem")
    assert "tlex.certificate = " in other
    assert "expected a PEM certificate chain that fits tlex.private_key" in other


def test_ports_that_are_the_same_are_refused_if_the_door_is_open() -> None:
    load(None, {"tlex.port": 8080})
    expected = "override: tlex.port = 8080: expected a port other than stream.port = 8080 (default)"
    assert complaint(enabled=True, port=8080) == expected


@pytest.mark.parametrize("role", ["edge", "both"])
def test_a_node_that_listens_everywhere_has_to_say_where_clients_reach_it(role: str) -> None:
    cluster: dict[str, object] = {"cluster.role": role, "cluster.nats": ("nats://127.0.0.1:4222",)}
    settings = {**cluster, "tlex.enabled": True, "tlex.host": "0.0.0.0"}
    with pytest.raises(ConfigError, match=r"tlex\.announced_host to be set as well, or the address of one interface"):
        load(None, settings)
    assert load(None, {**settings, "tlex.announced_host": "n1.example"}).config.tlex.announced_host == "n1.example"
    assert load(None, {**settings, "tlex.enabled": False}).config.tlex.host == "0.0.0.0"


def test_workers_have_the_ports_that_were_taken_for_them() -> None:
    tlex = load(None, {}, ports={"tlex.port": 1, "tlex.tls_port": 2}).config.tlex
    assert (tlex.port, tlex.tls_port) == (1, 2)
