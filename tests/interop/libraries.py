"""The published client libraries that the tests run: versions, the commands that start their drivers, their faults.

What a driver is told and what it tells: `published`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent
REPOSITORY = ROOT.parents[1]
PYTHON_DRIVER = ROOT / "drivers" / "python_client.py"
NODE_DRIVER = ROOT / "node" / "client.cjs"


@dataclass(frozen=True)
class Library:
    """One version of a published client."""

    version: str
    # The TLCP version that it speaks, as (major, minor).
    protocol: tuple[int, int]
    command: tuple[str | Path, ...]
    needs: tuple[Path, ...]
    # Whether most tests with it are for `make test-interop-long`.
    is_long: bool = False
    # Version 8 of JavaScript puts a message on a WebSocket as it is: what is reserved in it cannot be told from syntax.
    encodes_messages: bool = True
    # Version 4 of Java takes the answer to a control request for data of a poll that is just being bound, and closes
    # its session without a word. Polls follow one another, so it must keep still; `test_previous_generation` does.
    loses_sessions_when_polling: bool = False

    @property
    def program(self) -> Path:
        return Path(self.command[0])


def require(path: Path) -> Path:
    """A missing client is a failure, never a skip."""
    if not path.exists():
        raise AssertionError(f"{path.relative_to(REPOSITORY)} is missing: run `make interop-setup`")
    return path


def _python(version: str, protocol: tuple[int, int], environment: str) -> Library:
    python = REPOSITORY / ".interop" / environment / "bin/python"
    return Library(version, protocol, (python, PYTHON_DRIVER), (python,))


def _node(version: str, protocol: tuple[int, int], folder: Path, is_old: bool = False) -> Library:
    node = REPOSITORY / ".venv/bin/node"
    needs = (node, folder / "node_modules/lightstreamer-client-node")
    return Library(version, protocol, (node, NODE_DRIVER, folder), needs, is_long=is_old, encodes_messages=not is_old)


def _web(version: str, protocol: tuple[int, int], folder: Path) -> Library:
    command = (REPOSITORY / ".venv/bin/python", "-m", "tests.interop.drivers.web_client", folder)
    needs = (folder / "node_modules/lightstreamer-client-web",)
    return Library(version, protocol, command, needs, is_long=True, encodes_messages=False)


def _java(version: str, protocol: tuple[int, int], is_old: bool = False) -> Library:
    folder = REPOSITORY / ".interop" / f"java-{version}"
    options = (
        # As small as it gets: the tests share the machine with it.
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        f"-Djavax.net.ssl.trustStore={folder / 'trust.p12'}",
        "-Djavax.net.ssl.trustStorePassword=penstock",
    )
    command = ("java", *options, "-cp", f"{folder / 'classes'}:{folder / 'jars'}/*", "Client")
    needs = (folder / ".stamp",)
    return Library(version, protocol, command, needs, is_long=True, loses_sessions_when_polling=is_old)


def libraries() -> dict[str, Library]:
    """All of them, by the names that tests use."""
    return {
        "python-2.2.3": _python("2.2.3", (2, 5), "client-2"),
        "python-1.0.3": _python("1.0.3", (2, 4), "client-1"),
        "node-9.2.2": _node("9.2.2", (2, 5), ROOT / "node"),
        "java-5.2.1": _java("5.2.1", (2, 5)),
        "java-4.3.7": _java("4.3.7", (2, 1), is_old=True),
        "node-8.0.5": _node("8.0.5", (2, 1), ROOT / "javascript-8", is_old=True),
        "web-8.0.9": _web("8.0.9", (2, 1), ROOT / "javascript-8"),
    }
