from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config import ConfigError, load
from penstock.config.rendering import as_json, as_toml
from tests.support.tls import CERTIFICATES

HUB = '[cluster]\nrole = "hub"\nnats = ["nats://127.0.0.1:4222"]\n'
POSTGRES = 'store = "postgresql+psycopg://host/name"\n'


def problem(tmp_path: Path, text: str) -> str:
    file = tmp_path / "penstock.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as raised:
        load(file, {})
    return str(raised.value).removeprefix(f"{file}: ").replace(str(file), "FILE")


def test_a_server_is_no_cluster_by_default() -> None:
    assert load(None, {}).config.cluster.role == "none"


def test_a_hub_an_edge_and_both(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    for role in ("hub", "edge", "both"):
        file.write_text(HUB.replace("hub", role, 1) + POSTGRES)
        assert load(file, {}).config.cluster.role == role


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[cluster]\nrole = "boss"', 'cluster.role = "boss": expected one of "none", "hub", "edge", "both"'),
        (
            '[cluster]\nrole = "hub"',
            'cluster.role = "hub": expected cluster.nats to have the address of a NATS server as well',
        ),
        (
            '[cluster]\nnats = ["nats://a:1"]',
            'cluster.nats = ["nats://a:1"]: expected cluster.role to be "hub", "edge" or "both" as well',
        ),
        (
            '[cluster]\nnats = ["http://a"]',
            'cluster.nats = ["http://a"]: expected a list, each entry an address such as "nats://host:4222" or '
            '"tls://host:4222", without user and password',
        ),
        (
            '[cluster]\nnats = ["nats://me:s3cret@a"]',
            'cluster.nats = ["nats://me:***@a"]: expected a list, each entry an address such as "nats://host:4222" or '
            '"tls://host:4222", without user and password',
        ),
        ('[cluster]\nname = "a.b"', 'cluster.name = "a.b": expected 1 to 32 letters, digits, "_" or "-"'),
        (
            HUB + 'store = "sqlite:///file"',
            'cluster.store = "sqlite:///file": expected the URL of a PostgreSQL database, or empty for no standby',
        ),
        (
            HUB + POSTGRES + "[tlex]\nenabled = true",
            'tlex.store = "": expected the URL of a PostgreSQL database, because a standby cannot use an '
            "SQLite file, and cluster.store is set",
        ),
        (HUB + 'user = "me"', "cluster.user: expected cluster.password to be set as well"),
        (HUB + 'password = "s3cret"', "cluster.password: expected cluster.user to be set as well"),
        (
            HUB + 'user = "me"\npassword = "s3cret"\ntoken = "s3cret"',
            "cluster.token: expected only one way to log in; cluster.user is also set",
        ),
        (HUB + "token = 3", 'cluster.token = "***": expected text on one line, or empty'),
        (
            HUB + 'credentials_file = "/none"',
            'cluster.credentials_file = "/none": expected a readable file (No such file or directory)',
        ),
        (
            HUB + "[server]\nworkers = 2",
            'server.workers = 2: expected 0, because of cluster.role = "hub" (FILE); start several edges instead',
        ),
        (HUB + "lease_millis = 5", "cluster.lease_millis = 5: expected a whole number from 1000 to 600000"),
        (
            HUB + '[cluster.tls]\ntrusted_ca = "/none"',
            'cluster.tls.trusted_ca = "/none": expected a readable file (No such file or directory)',
        ),
        (
            HUB + f'[cluster.tls]\ncertificate = "{CERTIFICATES}/certificate.pem"',
            f'cluster.tls.certificate = "{CERTIFICATES}/certificate.pem": expected cluster.tls.private_key to be set '
            "as well",
        ),
    ],
)
def test_what_is_wrong_is_named_with_what_is_allowed(tmp_path: Path, text: str, expected: str) -> None:
    assert problem(tmp_path, text) == expected


def test_a_key_that_does_not_fit_and_a_file_that_is_no_certificate(tmp_path: Path) -> None:
    tls = f'[cluster.tls]\ncertificate = "{CERTIFICATES}/certificate.pem"\nprivate_key = "{CERTIFICATES}/other_key.pem"'
    assert "a PEM certificate chain that fits cluster.tls.private_key" in problem(tmp_path, HUB + tls)
    (tmp_path / "text").write_text("no certificate")
    assert "a file of PEM certificates" in problem(tmp_path, HUB + f'[cluster.tls]\ntrusted_ca = "{tmp_path}/text"')


def test_secrets_are_not_printed(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(HUB + 'user = "me"\npassword = "s3cret"\n')
    assert "s3cret" not in as_toml(load(file, {})) + as_json(load(file, {}))
