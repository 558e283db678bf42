from __future__ import annotations

import sys
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


NATS_FORM = (
    'expected a list, each entry an address such as "nats://host:4222" or "tls://host:4222", without user and password'
)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("nats://a:b:c", NATS_FORM),
        ("nats://host:", NATS_FORM),
        ("nats://:4222", NATS_FORM),
        ("nats://::1:4222", NATS_FORM),
        ("nats://[::1", NATS_FORM),
        ("nats://host:123456", NATS_FORM),
        (
            "nats://127.0.0.1:99999",
            "expected addresses of NATS servers; the port of nats://127.0.0.1:99999 is not one of 1 to 65535",
        ),
        ("tls://h:0", "expected addresses of NATS servers; the port of tls://h:0 is not one of 1 to 65535"),
        (
            "nats://[:::]:4222",
            "expected addresses of NATS servers; what is in the brackets of nats://[:::]:4222 is not an IPv6 address",
        ),
    ],
)
def test_what_is_no_address_of_a_nats_server_is_refused(tmp_path: Path, address: str, expected: str) -> None:
    text = f'[cluster]\nrole = "edge"\nnats = ["nats://right:1", "{address}"]'
    assert problem(tmp_path, text) == f'cluster.nats = ["nats://right:1", "{address}"]: {expected}'


@pytest.mark.parametrize(
    "address",
    ["nats://host", "nats://host_1.example:65535", "tls://10.0.0.1:1", "nats://[::1]", "tls://[fe80::1]:4222"],
)
def test_addresses_of_nats_servers(tmp_path: Path, address: str) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(f'[cluster]\nrole = "edge"\nnats = ["{address}"]')
    assert load(file, {}).config.cluster.nats == (address,)


# -- databases ---------------------------------------------------------------------------------------------------------

UNREADABLE = "this one cannot be read"


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("postgresql", UNREADABLE),
        ("postgresql+psycopg://:::bad", UNREADABLE),
        ("postgresql+psycopg://me:s3cret@:x/d", UNREADABLE),
        # Its host was forgotten.
        ("postgresql+psycopg://me:s3cret", UNREADABLE),
        ("postgresql+psycopg://me:s3/cret@host:x/d", UNREADABLE),
        ("postgresql+psycopg://me:s3cret@host:65536/d", "its port is not one of 1 to 65535"),
        ("postgresql+psycopg://host:0/d", "its port is not one of 1 to 65535"),
        ("postgresqlx://host/d", "there is no kind of database called postgresqlx"),
        ("postgresql+nosuch://host/d", "there is no kind of database called postgresql+nosuch"),
        ("postgresql+asyncpg://host/d", "postgresql+asyncpg is asynchronous, and cannot be used here"),
    ],
)
def test_what_is_no_url_of_a_database_is_refused_without_what_it_says(tmp_path: Path, url: str, fault: str) -> None:
    expected = f"expected the URL of a PostgreSQL database, or empty for no standby; {fault}"
    assert problem(tmp_path, HUB + f'store = "{url}"') == f"cluster.store: {expected}"
    for table in ("tlex", "push"):
        expected = f'expected a database URL such as "postgresql+psycopg://host/name", or empty; {fault}'
        assert problem(tmp_path, f'[{table}]\nstore = "{url}"') == f"{table}.store: {expected}"


def test_a_database_of_another_kind_is_named_without_its_password(tmp_path: Path) -> None:
    url = "mysql+pymysql://me:s3/cret@host/d?password=s3cret"
    assert problem(tmp_path, HUB + f'store = "{url}"') == (
        'cluster.store = "mysql+pymysql://me:***@host/d": expected the URL of a PostgreSQL database, or empty for no '
        "standby"
    )
    assert problem(tmp_path, HUB + POSTGRES + f'[tlex]\nenabled = true\nstore = "{url}"') == (
        'tlex.store = "mysql+pymysql://me:***@host/d": expected the URL of a PostgreSQL database, because a standby '
        "cannot use an SQLite file, and cluster.store is set"
    )


def test_a_driver_that_is_not_installed_is_named_to_hubs_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert problem(tmp_path, HUB + POSTGRES) == (
        "cluster.store: expected a database that can be used; the extra postgres is not installed: "
        "pip install 'penstock[postgres]'"
    )
    file = tmp_path / "penstock.toml"
    file.write_text(HUB.replace("hub", "edge") + POSTGRES)
    assert load(file, {}).config.cluster.role == "edge"


# -- a single server ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ('nats = ["nats://a:1"]', 'cluster.nats = ["nats://a:1"]'),
        ('store = "postgresql+psycopg://me:s3/cret@host/name"', "cluster.store"),
        ('name = "plant"', 'cluster.name = "plant"'),
        ('password = "s3cret"', "cluster.password"),
        ('tls.server_name = "nats.example"', 'cluster.tls.server_name = "nats.example"'),
    ],
)
def test_what_belongs_to_a_cluster_is_refused_without_a_role(tmp_path: Path, line: str, shown: str) -> None:
    for role in ("", 'role = "none"\n'):
        expected = f'{shown}: expected cluster.role to be "hub", "edge" or "both" as well'
        assert problem(tmp_path, f"[cluster]\n{role}{line}") == expected


def test_what_is_written_as_it_is_by_default_asks_for_nothing(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(as_toml(load(None, {})))
    assert load(file, {}).config.cluster.role == "none"


# -- files -------------------------------------------------------------------------------------------------------------


def test_files_without_credentials_are_named_as_other_mistakes_are(tmp_path: Path) -> None:
    file = tmp_path / "node"
    file.write_text("nothing of the kind")
    assert problem(tmp_path, HUB + f'credentials_file = "{file}"') == (
        f'cluster.credentials_file = "{file}": expected a NATS credentials file, which has a user\'s JWT and seed '
        "between BEGIN and END lines"
    )
    assert problem(tmp_path, HUB + f'nkey_file = "{file}"') == (
        f'cluster.nkey_file = "{file}": expected a file that contains nothing but the seed of a user nkey, which '
        "begins with SU"
    )


def test_a_key_that_does_not_fit_and_a_file_that_is_no_certificate(tmp_path: Path) -> None:
    tls = f'[cluster.tls]\ncertificate = "{CERTIFICATES}/certificate.pem"\nprivate_key = "{CERTIFICATES}/other_key.pem"'
    assert "a PEM certificate chain that fits cluster.tls.private_key" in problem(tmp_path, HUB + tls)
    (tmp_path / "text").write_text("no certificate")
    assert "a file of PEM certificates" in problem(tmp_path, HUB + f'[cluster.tls]\ntrusted_ca = "{tmp_path}/text"')


def test_secrets_are_not_printed(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text(HUB + 'user = "me"\npassword = "s3cret"\n')
    assert "s3cret" not in as_toml(load(file, {})) + as_json(load(file, {}))
