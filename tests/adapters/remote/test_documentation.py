"""docs/remote-adapters.md: its configuration loads, and its table names every parameter with its default."""

from __future__ import annotations

import re
from inspect import signature
from pathlib import Path

import pytest

from penstock.adapters.loading import Loader
from penstock.adapters.remote import RemoteDataAdapter, RemoteMetadataAdapter
from penstock.adapters.remote.settings import ConnectionParameters
from penstock.config import ConfigError, load

PAGE = Path(__file__).parents[3] / "docs" / "remote-adapters.md"


def blocks() -> list[str]:
    return re.findall(r"```toml penstock.toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


def read(tmp_path: Path, content: str) -> Loader:
    path = tmp_path / "penstock.toml"
    path.write_text(content, "utf-8")
    tables = load(path, {}).config.adapters
    loader = Loader(tmp_path, str(path))
    for name, table in tables.items():
        plan = loader.load(name, table)
        assert isinstance(plan.adapter_set.metadata, RemoteMetadataAdapter)
        assert isinstance(plan.adapter_set.data["QUOTES"], RemoteDataAdapter)
    return loader


def test_the_configuration_of_the_page_makes_the_adapters(tmp_path: Path) -> None:
    (block,) = blocks()
    read(tmp_path, block)


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("port = 6663", "port = 70000", "parameter port is 70000; allowed: a port, 0 to 65535"),
        ("port = 6663\n", "", "missing"),
        ("port = 6663", 'port = "6663"', "expected int"),
        ("status_item", "status_itm", "did you mean status_item"),
    ],
)
def test_a_mistake_in_it_is_told_with_the_parameter(tmp_path: Path, before: str, after: str, complaint: str) -> None:
    (block,) = blocks()
    with pytest.raises(ConfigError, match=complaint):
        read(tmp_path, block.replace(before, after, 1))


def test_the_table_names_every_parameter_once() -> None:
    own = [*signature(RemoteDataAdapter).parameters, *signature(RemoteMetadataAdapter).parameters]
    known = {name for name in (*own, *ConnectionParameters.__annotations__) if name != "connection"}
    rows = re.findall(r"^\| (`[^|]+) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    # Names in capitals are keys of what an adapter is told.
    named = [name for row in rows for name in re.findall(r"`([a-z_]+)`", row)]
    assert sorted(named) == sorted(known)
