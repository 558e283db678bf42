from __future__ import annotations

from pathlib import Path

from penstock.store.node import FILE, node_name


def test_a_server_keeps_its_name(tmp_path: Path) -> None:
    name = node_name(tmp_path)
    assert len(name) == 36
    assert node_name(tmp_path) == name


def test_servers_have_different_names(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    assert node_name(tmp_path) != node_name(tmp_path / "other")
    assert node_name(None) != node_name(None)


def test_an_empty_file_of_a_crash_gets_a_name(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("")
    name = node_name(tmp_path)
    assert name
    assert node_name(tmp_path) == name
