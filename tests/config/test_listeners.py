"""Listeners with names of their own in a configuration file: what is refused, and in which words."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config import ConfigError, as_toml, load
from penstock.config.keys import named_values

TLS = Path(__file__).parent / "tls"


def complaint(directory: Path, text: str) -> str:
    file = directory / "penstock.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        load(file, {})
    return str(error.value).removeprefix(f"{directory}/")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[listeners.a]\n", "listeners.a.port: missing; expected a whole number from 0 to 65535"),
        ("[listeners.a]\nport = 70000\n", "listeners.a.port = 70000: expected a whole number from 0 to 65535"),
        ("[listeners.a]\nport = 0\nserves = 'all'\n", 'listeners.a.serves = "all": expected one of "stream", "api"'),
        (
            "[listeners.a]\nport = 0\ndoors = ['tlex']\n",
            'listeners.a.doors = ["tlex"]: expected a list, each entry one of "tlcp", "text6"',
        ),
        (
            "[listeners.a]\nport = 0\npaths = ['health']\n",
            'listeners.a.paths = ["health"]: expected a list, each entry a path such as "/lightstreamer", '
            'or "/" for all of them',
        ),
        (
            "[listeners.a]\nport = 0\npaths = ['/a//b']\n",
            'listeners.a.paths = ["/a//b"]: expected a list, each entry a path such as "/lightstreamer", '
            'or "/" for all of them',
        ),
        (
            "[listeners.'a b']\nport = 0\n",
            'listeners."a b": expected a name of 1 to 32 letters, digits, "_" or "-"',
        ),
        (
            "[listeners.api]\nport = 0\n",
            "listeners.api: expected another name: stream and api are tables of their own",
        ),
        (
            "[listeners.a]\nport = 0\nserves = 'api'\nnew_sessions = false\n",
            'listeners.a.new_sessions = false: expected true, because listeners.a.serves is "api"',
        ),
        (
            "[listeners.a]\nport = 0\nserves = 'api'\ncontrol_link_address = 'a.example.com'\n",
            'listeners.a.control_link_address = "a.example.com": expected "", because listeners.a.serves is "api"',
        ),
        (
            "[listeners.a]\nport = 8081\n",
            "listeners.a.port = 8081: expected a port other than api.port = 8081 (default)",
        ),
        (
            "[listeners.a]\nport = 9000\n[listeners.b]\nhost = '0.0.0.0'\nport = 9000\n",
            "listeners.b.port = 9000: expected a port other than listeners.a.port = 9000 (penstock.toml)",
        ),
        (
            f"[listeners.a]\nport = 0\n[listeners.a.tls]\ncertificate = '{TLS}/certificate.pem'\n",
            f'listeners.a.tls.certificate = "{TLS}/certificate.pem": expected listeners.a.tls.private_key to be set '
            "as well",
        ),
    ],
)
def test_a_wrong_listener_is_refused(tmp_path: Path, text: str, expected: str) -> None:
    line = complaint(tmp_path, text).replace(f"({tmp_path}/penstock.toml)", "(penstock.toml)")
    assert line == f"penstock.toml: {expected}"


def test_listeners_are_shown_and_load_again(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("[listeners.a]\nport = 9000\npaths = ['/x']\n[listeners.b]\nport = 9001\nserves = 'api'\n")
    loaded = load(file, {})
    again = tmp_path / "again.toml"
    again.write_text(as_toml(loaded))
    assert load(again, {}).config == loaded.config
    assert hash(load(again, {}).config) == hash(loaded.config)
    assert named_values(loaded.config)["listeners.a.paths"] == ("/x",)
    assert named_values(loaded.config)["listeners.b.tls.certificate"] == ""
    assert named_values(load(None, {}).config) == {}


@pytest.mark.parametrize("table", ["stream", "api", "listeners.a"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "addresses = ['proxy']\nproxy_protocol = true\n",
            '.addresses = ["proxy"]: expected a list, each entry an address or a network such as "10.0.0.7", '
            '"10.0.0.0/8" or "fd00::/8"',
        ),
        (
            "addresses = ['10.0.0.1/8']\nproxy_protocol = true\n",
            '.addresses = ["10.0.0.1/8"]: expected addresses and networks (10.0.0.1/8 has host bits set)',
        ),
        (
            "addresses = ['10.0.0']\nproxy_protocol = true\n",
            ".addresses = [\"10.0.0\"]: expected addresses and networks ('10.0.0' does not appear to be an IPv4 or "
            "IPv6 network)",
        ),
        ("proxy_protocol = true\n", ".proxy_protocol = true: expected TABLE.addresses to be set as well"),
    ],
)
def test_wrong_proxies_are_refused(tmp_path: Path, table: str, text: str, expected: str) -> None:
    port = "[listeners.a]\nport = 0\n" if table == "listeners.a" else ""
    line = complaint(tmp_path, f"{port}[{table}.proxies]\n{text}")
    assert line == f"penstock.toml: {table}.proxies{expected.replace('TABLE', f'{table}.proxies')}"


def test_a_header_needs_proxies_and_proxies_need_something_to_say(tmp_path: Path) -> None:
    line = complaint(tmp_path, "[stream.proxies]\nclient_header = 'X-Real-IP'\n")
    assert line.endswith(
        'stream.proxies.client_header = "X-Real-IP": expected stream.proxies.addresses to be set as well'
    )
    line = complaint(tmp_path, "[stream.proxies]\naddresses = ['10.0.0.1']\n")
    assert line.endswith("expected stream.proxies.proxy_protocol or stream.proxies.client_header to be set as well")
    line = complaint(tmp_path, "[stream.proxies]\naddresses = ['10.0.0.1']\nclient_header = 'a b'\n")
    assert line.endswith('stream.proxies.client_header = "a b": expected an HTTP header name, or empty')
