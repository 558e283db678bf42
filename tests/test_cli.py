import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from penstock import BUILD, __version__
from tests.support import forge

SOURCE = Path(__file__).parents[1] / "src"


def penstock(*arguments: str | bytes, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return forge.run(arguments, cwd)


def test_version_prints_version_and_build() -> None:
    done = penstock("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"penstock {__version__} ({BUILD})\n", "")


def test_help_lists_the_commands() -> None:
    done = penstock("--help")
    assert done.returncode == 0
    for command in ("serve", "demo", "config"):
        assert f"  {command} " in done.stdout


@pytest.mark.parametrize("command", [("serve",), ("demo",), ("config", "check"), ("config", "show")])
def test_every_command_takes_the_same_options(command: tuple[str, ...]) -> None:
    shown = penstock(*command, "--help").stdout
    for option in ("--config", "--host", "--port", "--api-port", "--data-dir", "--log-level"):
        assert f"{option} " in shown


@pytest.mark.parametrize("command", [("serve",), ("demo",), ("config", "check"), ("config", "show")])
def test_a_wrong_value_stops_every_command_with_one_line(command: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text('[stream]\nport = "abc"\n')
    done = penstock(*command, "--config", "penstock.toml", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ('penstock: penstock.toml: stream.port = "abc": expected a whole number from 0 to 65535\n')


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--port", "abc"), '--port = "abc": expected a whole number from 0 to 65535'),
        (("--api-port", "70000"), '--api-port = "70000": expected a whole number from 0 to 65535'),
        (("--host", ""), '--host = "": expected a host name or address, without port'),
        (
            ("--log-level", "LOUD"),
            '--log-level = "LOUD": expected one of "debug", "info", "warning", "error"',
        ),
        ((b"--data-dir", b"\xff"), r'--data-dir = "\udcff": expected a directory path'),
        (
            ("--config", "none.toml"),
            "none.toml: cannot read the configuration file (No such file or directory); expected a readable TOML file",
        ),
    ],
)
def test_a_wrong_option_stops_the_start_with_one_line(
    arguments: tuple[str | bytes, ...], line: str, tmp_path: Path
) -> None:
    done = penstock("serve", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"penstock: {line}\n")


def test_an_unknown_option_stops_with_exit_code_2() -> None:
    done = penstock("serve", "--prot", "1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "No such option: --prot" in done.stderr


def test_check_says_ok(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text("[stream]\nport = 9000\n")
    done = penstock("config", "check", "--config", "penstock.toml", cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "penstock: penstock.toml: ok\n", "")
    done = penstock("config", "check")
    assert (done.returncode, done.stdout, done.stderr) == (0, "penstock: defaults: ok\n", "")


def test_check_answers_scripts_in_json(tmp_path: Path) -> None:
    done = penstock("config", "check", "--json")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"ok": True})
    done = penstock("config", "check", "--json", "--port", "abc")
    assert (done.returncode, done.stderr) == (2, "")
    assert json.loads(done.stdout) == {
        "ok": False,
        "error": '--port = "abc": expected a whole number from 0 to 65535',
        "place": "--port",
        "key": "stream.port",
        "value": '"abc"',
        "problem": "expected a whole number from 0 to 65535",
    }


def test_show_prints_every_value_with_its_origin(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('[stream]\nport = 9000\n[log]\nlevel = "debug"\n')
    done = penstock(
        "config", "show", "--config", "mine.toml", "--host", "0.0.0.0", "--log-level", "error", cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")
    shown = tomllib.loads(done.stdout)
    assert (shown["stream"]["host"], shown["api"]["host"]) == ("0.0.0.0", "0.0.0.0")
    assert shown["log"]["level"] == "error"
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "port = 9000 # mine.toml" in lines
    assert lines.count('host = "0.0.0.0" # --host') == 2
    assert 'level = "error" # --log-level' in lines
    assert 'name = "Penstock" # default' in lines


def test_show_answers_scripts_in_json() -> None:
    done = penstock("config", "show", "--json", "--port", "0", "--data-dir", "/tmp/dir with space")
    shown = json.loads(done.stdout)
    assert shown["stream.port"] == {"value": 0, "origin": "--port"}
    assert shown["server.data_dir"] == {"value": "/tmp/dir with space", "origin": "--data-dir"}
    assert shown["limits.request_limit"] == {"value": 50000, "origin": "default"}


def test_no_file_is_read_unless_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text("[stream]\nport = 9000\n")
    assert tomllib.loads(penstock("config", "show", cwd=tmp_path).stdout)["stream"]["port"] == 8080


def test_showing_a_configuration_does_not_load_the_server() -> None:
    # What takes long to import; the command answers in a fraction of a second because of it.
    code = (
        "import sys, penstock.cli as cli\n"
        "try: cli.app(['config', 'show'])\n"
        "except SystemExit as stop: assert not stop.code\n"
        "print(sorted({'asyncio', 'fastapi', 'ssl', 'uvloop', 'penstock.server'}"
        " & set(sys.modules)), file=sys.stderr)"
    )
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (0, "[]\n")
