"""Where people start commands: full disks, closed pipes, Ctrl-C at a bad moment, poor terminals.

Ports in use, data directories of others and second processes are in test_process.py.
"""

from __future__ import annotations

import gzip
import os
import shlex
import signal
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen
from zlib import crc32

import pytest

from penstock.services.data_directory import ROOM
from penstock.store.schema import VERSION
from tests.support.background import BackgroundServer
from tests.support.command import PENSTOCK, PORTS
from tests.support.forge import Forked
from tests.support.process import PATIENCE, READY
from tests.support.raw import CID, Http, params
from tests.support.terminal import Terminal
from tests.support.waiting import wait_until

FULL = "No space left on device"

DEMO = ("demo", "--no-pipeline", *PORTS, "--data-dir")
FIRST_LAYOUT = Path(__file__).parents[1] / "store" / "layout_1.db.gz"


def test_output_on_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [PENSTOCK, "config", "show"], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE
        )
    assert (done.returncode, done.stderr) == (1, f"penstock: the output cannot be written: {FULL}\n")


@pytest.mark.parametrize("output", ["full", "closed"])
def test_a_server_whose_output_nobody_can_read_serves_all_the_same(tmp_path: Path, output: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    descriptor = writer if output == "closed" else os.open("/dev/full", os.O_WRONLY)
    log = tmp_path / "log"
    with log.open("w") as errors:
        server = subprocess.Popen(
            [PENSTOCK, "serve", "--data-dir", str(tmp_path / "data"), *PORTS, "--log-level", "info"],
            stdout=descriptor,
            stderr=errors,
        )
    for each in {descriptor, writer}:
        os.close(each)
    try:
        wait_until(lambda: "the output cannot be written; the server runs" in log.read_text(), log.read_text())
        server.send_signal(signal.SIGTERM)
        assert server.wait(PATIENCE) == 0
    finally:
        server.kill()
        server.wait()
    assert "Traceback" not in log.read_text()
    assert "Exception ignored" not in log.read_text()


def test_a_pipeline_whose_figures_nobody_can_read_is_stopped_in_order_all_the_same() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    said = "from penstock.cli import _say_over_figures as say; say('pipeline: stopping…'); say('and stopped')"
    done = subprocess.run(
        [sys.executable, "-c", said], stdout=writer, stderr=subprocess.PIPE, text=True, timeout=PATIENCE
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("place", ["/proc/penstock", "/dev/null/data"])
def test_a_directory_that_cannot_be_written_is_one_sentence(place: str) -> None:
    process = Forked(["serve", "--data-dir", place, *PORTS])
    stdout, stderr = process.communicate(timeout=PATIENCE)
    assert process.wait(PATIENCE) == 1
    assert stdout == ""
    assert stderr.count("\n") == 1
    assert f"the data directory {place} cannot be used" in stderr


def demo_on_a_disk_of(size: int, data: Path) -> list[str]:
    """A command for which the folder of the data directory is a disk of its own, of so many bytes."""
    data.parent.mkdir()
    script = f'mount -t tmpfs -o size={size} none {shlex.quote(str(data.parent))} && exec "$@"'
    command = [str(PENSTOCK), "demo", "--no-pipeline", "--data-dir", str(data), *PORTS]
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", *command]


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        while file.write(bytes(4096)) == 4096:
            pass


@pytest.mark.parametrize("size", [4096, 65536, ROOM - 4096])
def test_a_start_on_a_full_disk_is_one_sentence(tmp_path: Path, size: int) -> None:
    data = tmp_path / "disk" / "data"
    done = subprocess.run(demo_on_a_disk_of(size, data), capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
    assert f"the disk of the data directory {data} is full" in done.stderr


def test_a_disk_that_fills_up_stops_nobody_and_is_told(tmp_path: Path) -> None:
    data, log = tmp_path / "disk" / "data", tmp_path / "log"
    with log.open("w") as errors:
        server = subprocess.Popen(demo_on_a_disk_of(2 * ROOM, data), stdout=subprocess.PIPE, stderr=errors, text=True)
    assert server.stdout is not None
    with server.stdout as output:
        try:
            found = [READY.match(output.readline()) for _ in range(2)][1]
            assert found is not None
            with pytest.raises(OSError, match=FULL):
                fill(Path(f"/proc/{server.pid}/root{data}/fill"))  # its own file system, seen from here
            wait_until(lambda: "journal failed" in log.read_text(), "the journal that says so")
            with pytest.raises(HTTPError) as raised:
                urlopen(f"http://127.0.0.1:{found[4]}/ready", timeout=PATIENCE)
            raised.value.close()
            assert raised.value.code == 503
            with Http("127.0.0.1", int(found[2])) as client:
                client.post("create_session", f"{params(adapter_set='WELCOME')}&LS_cid={CID}")
                assert client.read_head() == 200
                assert client.read_line().startswith("CONOK,")
            server.send_signal(signal.SIGTERM)
            assert server.wait(PATIENCE) == 0
        finally:
            server.kill()
            server.wait()
    assert "Traceback" not in log.read_text()


# From the first module that is imported to the server that runs.
@pytest.mark.parametrize("seconds", [0.05, 0.3, 0.8, 1.6])
def test_ctrl_c_at_any_moment_of_a_start_is_quiet(tmp_path: Path, seconds: float) -> None:
    arguments = [str(PENSTOCK), "demo", "--no-pipeline", "--data-dir", str(tmp_path / "data"), *PORTS]
    server = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        server.wait(seconds)
    except subprocess.TimeoutExpired:
        server.send_signal(signal.SIGINT)
    _, stderr = server.communicate(timeout=PATIENCE)
    # Until Python has found the command, it says itself where it was.
    if "Fatal Python error: init_" in stderr:
        return
    assert server.returncode in (0, 130, -signal.SIGINT), stderr
    assert "in main\n" not in stderr
    assert "Traceback" not in stderr or "import main" in stderr


def test_a_port_in_use_is_told_before_any_address(tmp_path: Path, server: BackgroundServer) -> None:
    process = Forked(
        ["demo", "--no-pipeline", "--port", str(server.port), "--api-port", "0", "--data-dir", str(tmp_path / "data")]
    )
    stdout, stderr = process.communicate(timeout=PATIENCE)
    assert process.wait(PATIENCE) == 1
    assert "http://" not in stdout
    assert f"{server.port}" in stderr
    assert "in use" in stderr


@pytest.mark.parametrize(("lines", "columns"), [(3, 12), (24, 20)])
def test_a_table_on_a_narrow_terminal_does_not_fail(
    server: BackgroundServer, tmp_path: Path, lines: int, columns: int
) -> None:
    server.adapter.state["a"] = {"x": "1", "y": "a long text that does not fit"}
    arguments = ("watch", "TEST", "a", "--fields", "x y", "--url", server.url)
    with Terminal(tmp_path, *arguments, lines=lines, columns=columns) as terminal:
        wait_until(lambda: server.adapter.subscribed, "the subscription")
        server.update("a", x="2")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.process.wait(PATIENCE) == 0
        assert "Traceback" not in terminal.text


def test_without_colours_none_are_sent(
    server: BackgroundServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    server.adapter.state["a"] = {"x": "1", "y": "2"}
    with Terminal(tmp_path, "watch", "TEST", "a", "--fields", "x y", "--url", server.url) as terminal:
        wait_until(lambda: server.adapter.subscribed, "the subscription")
        terminal.read_until("1")
        server.update("a", x="2")
        terminal.read_until("2")
        assert b"\x1b[32m" not in terminal.raw
        assert b"\x1b[31m" not in terminal.raw


def test_a_machine_without_a_display_is_no_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "TERM", "HOME", "LANG"):
        monkeypatch.delenv(name, raising=False)
    environment = {name: value for name, value in os.environ.items() if name in ("PATH",)}
    server = Forked(["demo", "--no-pipeline", "--data-dir", str(tmp_path / "data"), *PORTS], environment=environment)
    try:
        found = [READY.match(server.stdout.readline()) for _ in range(2)][1]
        assert found is not None
        with urlopen(f"http://127.0.0.1:{found[2]}/", timeout=PATIENCE) as answer:
            assert answer.status == 200
    finally:
        server.terminate()
        server.wait(PATIENCE)
        server.close()


def start_and_stop(data: Path) -> None:
    """A server that gets ready, and ends by itself."""
    server = Forked([*DEMO, str(data)])
    try:
        assert any(READY.match(line) for line in server.stdout), "the server did not start"
        server.terminate()
        server.stdout.read()
        assert server.wait(PATIENCE) == 0
    finally:
        server.close()


def make_journal_newer(data: Path) -> str:
    """Both copies of the header of a segment say version 9 (tests/journal/test_segment.py)."""
    file = min((data / "journal").glob("*.segment"))
    content = bytearray(file.read_bytes())
    block = 4096
    for begin in (0, block):
        struct.pack_into("<H", content, begin + 8, 9)
        end = begin + 44 + struct.unpack_from("<I", content, begin + 40)[0]
        struct.pack_into("<I", content, end, crc32(content[begin:end]))
    file.write_bytes(content)
    return f"segment {file.name} has version 9; this program reads versions up to 2"


def make_database_newer(data: Path) -> str:
    with closing(sqlite3.connect(data / "store.db")) as database, database:
        database.execute("UPDATE penstock_store SET version = 99")
    return "The database has layout 99; this version of Penstock knows layouts up to"


@pytest.mark.parametrize("make_newer", [make_journal_newer, make_database_newer])
def test_data_of_a_later_version_is_one_sentence_and_stays_as_it_is(
    tmp_path: Path, make_newer: Callable[[Path], str]
) -> None:
    data = tmp_path / "data"
    start_and_stop(data)
    sentence = make_newer(data)
    before = {path: path.read_bytes() for path in [data / "store.db", *(data / "journal").glob("*.segment")]}
    process = Forked([*DEMO, str(data)])
    stdout, stderr = process.communicate(timeout=PATIENCE)
    assert process.wait(PATIENCE) == 1
    assert "http://" not in stdout
    assert stderr.count("\n") == 1, stderr
    assert sentence in stderr
    assert {path: path.read_bytes() for path in before} == before


def test_a_data_directory_of_the_first_version_is_brought_up_to_date(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    (data / "store.db").write_bytes(gzip.decompress(FIRST_LAYOUT.read_bytes()))
    start_and_stop(data)
    start_and_stop(data)
    with closing(sqlite3.connect(data / "store.db")) as database:
        assert database.execute("SELECT version FROM penstock_store").fetchone() == (VERSION,)
        assert database.execute("SELECT count(*) FROM tlcs").fetchone()[0] > 0
