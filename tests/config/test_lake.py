"""Where the lake is: what the configuration allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config import Config, ConfigError, load
from penstock.config.rendering import as_toml
from penstock.history.lake_root import lake_of, root_of
from penstock.history.lake_url import BadLake, LakeUrl

SECRET = "a-secret-that-nobody-sees"


def load_config(directory: Path, text: str) -> Config:
    path = directory / "penstock.toml"
    path.write_text(f"[lake]\n{text}")
    return load(path, {}).config


def test_the_lake_is_in_the_data_directory_unless_it_is_elsewhere(tmp_path: Path) -> None:
    config = load(None, {"server.data_dir": str(tmp_path)}).config
    assert lake_of(config) == tmp_path / "lake"
    assert lake_of(config, tmp_path / "other") == tmp_path / "other" / "lake"
    assert root_of(f"file://{tmp_path}/a%20lake") == tmp_path / "a lake"
    assert root_of(str(tmp_path)) == tmp_path
    with pytest.raises(BadLake, match="expected file:///"):
        root_of("file://host/lake")


@pytest.mark.parametrize(
    "url", ["s3://b/lake", "s3a://b/lake", "gs://b", "abfss://c@account.dfs.core.windows.net/lake/"]
)
def test_a_url_is_taken_with_its_options(tmp_path: Path, url: str) -> None:
    (tmp_path / "more.toml").write_text('timeout = "5s"\n')
    text = f'url = "{url}"\noptions = {{ max_retries = 3 }}\ncredentials_file = "{tmp_path}/more.toml"\n'
    lake = lake_of(load_config(tmp_path, text))
    assert isinstance(lake, LakeUrl)
    assert str(lake) == url.rstrip("/")
    assert {name: lake.options()[name] for name in ("max_retries", "timeout", "retry_timeout")} == {
        "max_retries": "3",
        "timeout": "5s",
        "retry_timeout": "60s",
    }


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('url = "ftp://x/y"', 'lake.url = "ftp://x/y": expected a URL such as "s3://bucket/lake"'),
        ('url = "s3://"', "expected a URL"),
        ('url = "gs:///lake"', 'or "file:///lake", or empty'),
        (
            'url = "abfss://container/lake"',
            'expected a URL such as "s3://bucket/lake", "gs://bucket/lake", "abfss://con',
        ),
        ('url = "abfss://container@account/lake"', '"abfss://container@account.dfs.core.windows.net/lake"'),
        ('url = "s3://key@bucket/x"', "expected a URL"),
        ('url = "s3://key:word@bucket/x?a=b"', "expected a URL"),
        ('options = { region = "x" }', "lake.options: expected lake.url as well, the object store that it is for"),
        ('url = "file:///x"\ncredentials_file = "y"', "lake.credentials_file: expected lake.url as well"),
        (
            f'url = "s3://b/l"\noptions = {{ secret_acces_key = "{SECRET}" }}',
            "lake.options.secret_acces_key: expected an option of s3://: allow_http, timeout",
        ),
        ('url = "gs://b/l"\noptions = { region = "x" }', "lake.options.region: expected an option of gs://"),
        (
            'url = "s3://b/l"\noptions = { endpoint = "localhost:9000" }',
            'lake.options.endpoint: expected an address such as "https://storage.example.com"',
        ),
    ],
)
def test_what_cannot_be_a_lake_is_refused_in_one_sentence(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config(tmp_path, text)
    assert problem in str(refused.value)
    assert SECRET not in str(refused.value)


def test_credentials_are_not_shown(tmp_path: Path) -> None:
    options = f'{{ access_key_id = "{SECRET}", secret_access_key = "{SECRET}", session_token = "{SECRET}" }}'
    load_config(tmp_path, f'url = "s3://b/l"\noptions = {options}\n')
    found = load(tmp_path / "penstock.toml", {})
    assert SECRET not in as_toml(found)
    lake = lake_of(found.config)
    assert isinstance(lake, LakeUrl)
    assert SECRET not in f"{lake} {lake!r}"
    assert lake.reason(OSError(f"PUT http://x/y?X-Amz-Security-Token={SECRET} broke near {SECRET}")) == (
        "PUT http://x/y broke near ***"
    )
