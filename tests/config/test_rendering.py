import json
import tomllib
from pathlib import Path

from penstock.config import as_json, as_toml, load
from penstock.config.keys import all_keys

# A character that TOML wants escaped, one beyond the 16-bit range, quotes and a comment sign.
AWKWARD = 'a\\b "c" # 🚀 é\u200b'


def test_the_toml_shown_loads_again_as_the_same_configuration(tmp_path: Path) -> None:
    first = load(
        None,
        {
            "server.name": AWKWARD,
            "stream.port": 9000,
            "cors.allow_origins": ["https://a.example", "null"],
            "cors.accept_extra_headers": [],
            "demo.pace": 1e-5,
            "demo.enabled": False,
        },
    )
    path = tmp_path / "shown.toml"
    path.write_text(as_toml(first), "utf-8")
    again = load(path, {})
    assert again.config == first.config
    assert set(again.origins.values()) == {"shown.toml"}


def test_each_line_of_the_toml_ends_with_the_origin(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text('[server]\nnode = "n1"\n')
    lines = as_toml(load(path, {"stream.port": "9000"})).splitlines()
    assert 'node = "n1"                   # penstock.toml' in lines
    assert "port = 9000                      # --port" in lines
    assert 'host = "127.0.0.1"               # default' in lines


def test_the_toml_has_every_key_once() -> None:
    tables = tomllib.loads(as_toml(load(None, {})))
    expected = {"certificate", "private_key", "port", "ciphers", "client_ca", "client_certificate"}
    assert set(tables["stream"]["tls"]) == expected
    assert sum(line.endswith("# default") for line in as_toml(load(None, {})).splitlines()) == len(all_keys())


def test_a_file_name_cannot_break_out_of_its_comment(tmp_path: Path) -> None:
    path = tmp_path / "a\n[evil]"
    path.write_text("stream.port = 1\n")
    assert tomllib.loads(as_toml(load(path, {})))["stream"]["port"] == 1


def test_the_json_gives_value_and_origin_of_every_key() -> None:
    shown = json.loads(as_json(load(None, {"api.port": 0})))
    assert list(shown) == list(all_keys())
    assert shown["api.port"] == {"value": 0, "origin": "--api-port"}
    assert shown["cors.allow_origins"] == {"value": ["*"], "origin": "default"}
