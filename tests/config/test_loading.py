import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.config import Config, ConfigError, load
from penstock.config.keys import all_keys, value_of

TLS = Path(__file__).parent / "tls"


def write(directory: Path, content: str | bytes, name: str = "penstock.toml") -> Path:
    path = directory / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def complaint(path: Path | None, overrides: dict[str, object] | None = None) -> str:
    """The one line, with the directory of the test cut off."""
    with pytest.raises(ConfigError) as caught:
        load(path, overrides or {})
    line = str(caught.value)
    assert len(line.splitlines()) == 1
    return line.replace(f"{path.parent}/", "") if path else line


def test_without_a_file_every_value_is_its_default() -> None:
    loaded = load(None, {})
    assert loaded.config == Config()
    assert loaded.origins == dict.fromkeys(all_keys(), "default")


def test_the_defaults_stated_in_the_schema_pass_their_own_constraints() -> None:
    assert msgspec.convert(msgspec.to_builtins(Config(), enc_hook=dict), Config) == Config()


def test_an_option_wins_over_the_file_and_the_file_over_the_default(tmp_path: Path) -> None:
    path = write(tmp_path, "[stream]\nport = 9000\nbacklog = 5\n")
    loaded = load(path, {"stream.port": 9001})
    assert (loaded.config.stream.port, loaded.origins["stream.port"]) == (9001, "--port")
    assert (loaded.config.stream.backlog, loaded.origins["stream.backlog"]) == (5, "penstock.toml")
    assert (loaded.config.stream.host, loaded.origins["stream.host"]) == ("127.0.0.1", "default")


def test_overrides_may_set_every_key_and_text_is_read_as_the_number_it_spells() -> None:
    loaded = load(None, {"stream.port": "0", "limits.max_sessions": 3, "demo.enabled": "false"})
    assert loaded.config.stream.port == 0
    assert loaded.config.limits.max_sessions == 3
    assert loaded.config.demo.enabled is False
    assert loaded.origins["limits.max_sessions"] == "override"


def test_an_override_of_no_key_is_a_bug_of_the_caller() -> None:
    with pytest.raises(KeyError, match="prot"):
        load(None, {"stream.prot": 1})


def test_a_loaded_configuration_is_frozen(tmp_path: Path) -> None:
    config = load(write(tmp_path, '[cors]\nallow_origins = ["https://a.example"]'), {}).config
    assert config.cors.allow_origins == ("https://a.example",)
    with pytest.raises(AttributeError):
        config.stream.port = 1  # type: ignore[misc]
    assert hash(config) == hash(config)


def test_tables_may_be_written_inline_and_with_dotted_keys(tmp_path: Path) -> None:
    path = write(tmp_path, "stream.tls = { port = 9443 }\nstream.port = 9000\n")
    loaded = load(path, {})
    assert (loaded.config.stream.tls.port, loaded.config.stream.port) == (9443, 9000)
    assert loaded.origins["stream.tls.port"] == "penstock.toml"


# Every kind of value, one key each, with values just inside and just outside.
ACCEPTED: list[tuple[str, str, Any]] = [
    ("stream.port", "0", 0),
    ("stream.port", "65535", 65535),
    ("stream.host", '"::1"', "::1"),
    ("stream.host", '"host-1.example"', "host-1.example"),
    ("stream.control_link_address", '"push1.example.com:443"', "push1.example.com:443"),
    ("stream.control_link_address", '"[::1]:443"', "[::1]:443"),
    ("stream.allow_websocket_origins", "[]", ()),
    (
        "stream.allow_websocket_origins",
        '["null", "https://a.example:8443"]',
        ("null", "https://a.example:8443"),
    ),
    ("server.name", '"Préços 🚀 | \\"quoted\\""', 'Préços 🚀 | "quoted"'),
    ("server.node", '"Node-7"', "Node-7"),
    ("server.server_tokens", '"minimal"', "minimal"),
    ("limits.request_limit", "2147483647", 2147483647),
    ("session.max_session_duration_minutes", "35791", 35791),
    ("session.use_compression", '"off"', "off"),
    ("cors.accept_credentials", "false", False),
    ("cors.accept_extra_headers", '["X-Trace-Id"]', ("X-Trace-Id",)),
    ("demo.pace", "2", 2.0),
    ("demo.pace", "0.001", 0.001),
]


@pytest.mark.parametrize(("key", "text", "value"), ACCEPTED)
def test_values_inside_the_range_are_taken(tmp_path: Path, key: str, text: str, value: Any) -> None:
    config = load(write(tmp_path, f"{key} = {text}"), {}).config
    assert value_of(config, key) == value
    assert type(value_of(config, key)) is type(value)


PORT = "expected a whole number from 0 to 65535"
POSITIVE = "expected a whole number from 1 to 2147483647"
LINE = "expected text on one line, not empty"
ORIGINS = 'expected a list, each entry "*", "null" or an origin in lower case such as "https://example.com"'
PACE = "expected a number above 0, up to 1000"
LEVEL = 'expected one of "debug", "info", "warning", "error"'
REFUSED: list[tuple[str, str, str]] = [
    ("stream.port", '"abc"', PORT),
    ("stream.port", '"8080"', PORT),
    ("stream.port", "-1", PORT),
    ("stream.port", "65536", PORT),
    ("stream.port", "80.0", PORT),
    ("stream.port", "true", PORT),
    ("stream.port", "[80]", PORT),
    ("stream.port", "{ a = 1 }", PORT),
    ("stream.port", "99999999999999999999999999", PORT),
    ("stream.tls.port", "65536", PORT),
    ("stream.host", '""', "expected a host name or address, without port"),
    ("stream.host", '"a b"', "expected a host name or address, without port"),
    ("stream.control_link_address", '"https://x"', "expected host or host:port, or empty"),
    ("stream.allow_websocket_origins", '"*"', ORIGINS),
    ("stream.allow_websocket_origins", "[5]", ORIGINS),
    ("cors.allow_origins", '["https://a.example/"]', ORIGINS),
    ("cors.allow_origins", '["HTTPS://A.example"]', ORIGINS),
    ("cors.allow_origins", '["a.example"]', ORIGINS),
    ("cors.accept_extra_headers", '["a b"]', "expected a list, each entry an HTTP header name"),
    ("cors.accept_credentials", '"yes"', "expected true or false"),
    ("cors.accept_credentials", "1", "expected true or false"),
    ("server.name", '""', LINE),
    ("server.name", '"a\\u000ab"', LINE),
    ("server.name", '"a\\u2028b"', LINE),
    ("server.name", "5", LINE),
    ("server.data_dir", '""', "expected a directory path"),
    ("server.node", '"a.b"', 'expected 1 to 32 letters, digits or "-"'),
    ("server.node", '"ab\\u000a"', 'expected 1 to 32 letters, digits or "-"'),
    ("server.node", f'"{"a" * 33}"', 'expected 1 to 32 letters, digits or "-"'),
    ("server.server_tokens", '"FULL"', 'expected one of "full", "minimal"'),
    ("limits.read_timeout_millis", "0", POSITIVE),
    ("limits.read_timeout_millis", "2147483648", POSITIVE),
    ("limits.read_timeout_millis", "2020-01-31", POSITIVE),
    ("session.max_session_duration_minutes", "35792", "expected a whole number from 0 to 35791"),
    ("log.level", '"loud"', LEVEL),
    ("log.level", "7", LEVEL),
    ("demo.pace", "0", PACE),
    ("demo.pace", "-1.5", PACE),
    ("demo.pace", "1000.5", PACE),
    ("demo.pace", "inf", PACE),
    ("demo.pace", "nan", PACE),
    ("demo.pace", '"1"', PACE),
]


@pytest.mark.parametrize(("key", "text", "expected"), REFUSED)
def test_a_wrong_value_is_named_with_file_key_and_what_is_allowed(
    tmp_path: Path, key: str, text: str, expected: str
) -> None:
    assert complaint(write(tmp_path, f"{key} = {text}")) == f"penstock.toml: {key} = {text}: {expected}"


@pytest.mark.parametrize(
    "value",
    [None, object(), datetime.time(8), "\ud800", "\x00", b"\xff", [None], {"": 1}, 10**400, float("nan")],
)
def test_a_value_no_key_allows_is_refused_in_one_line_by_every_key(value: object) -> None:
    for key in all_keys():
        assert "expected" in complaint(None, {key: value})


def test_a_long_value_is_cut_in_the_message(tmp_path: Path) -> None:
    line = complaint(write(tmp_path, f'server.node = "{"x" * 5000}"'))
    assert len(line) < 200
    assert "x…: expected" in line


UNKNOWN = [
    (
        "[api]\nprot = 1",
        "api.prot: unknown key (did you mean api.port?); allowed here: host, port",
    ),
    (
        "[lgo]\nlevel = 1",
        "lgo: unknown key (did you mean log?); allowed here: server, stream, api, listeners, limits, session, cors, "
        "pages, log, demo",
    ),
    (
        "[log]\nmax_sessions = 1",
        "log.max_sessions: unknown key (did you mean limits.max_sessions?); allowed here: level, format",
    ),
    (
        "[log]\nport = 1",
        "log.port: unknown key (did you mean stream.port or stream.tls.port or api.port or tlex.port?); "
        "allowed here: level, format",
    ),
    ("[log]\nzzz = 1", "log.zzz: unknown key; allowed here: level, format"),
    ("[log.level]\nzzz = 1", "log.level = { zzz = 1 }: " + LEVEL),
    ('[log]\n"a\\nb" = 1', 'log."a\\u000ab": unknown key; allowed here: level, format'),
    ('[log]\n"" = 1', 'log."": unknown key; allowed here: level, format'),
    ('"log.level" = "info"', '"log.level": unknown key'),
    (
        "[stream.tls.more]",
        "stream.tls.more: unknown key; allowed here: certificate, private_key, ciphers, client_ca, "
        "client_certificate, port",
    ),
    ("stream = 8080", "stream = 8080: expected a table, written as [stream]"),
    ("[[stream]]\nport = 1", "stream = [{ port = 1 }]: expected a table, written as [stream]"),
]


@pytest.mark.parametrize(("content", "expected"), UNKNOWN)
def test_an_unknown_key_is_named_with_the_nearest_one_and_all_that_are_allowed(
    tmp_path: Path, content: str, expected: str
) -> None:
    assert complaint(write(tmp_path, content)).startswith("penstock.toml: " + expected)


SYNTAX = [
    ("[stream]\nport = \n", "line 2, column 8: invalid value"),
    ("[stream\n", "line 1, column 8: expected ']' at the end of a table declaration"),
    ("[log]\n[log]\n", "line 2, column 5: cannot declare ('log',) twice"),
    ('[log]\nlevel = "info', "end of document: "),
    (b"[log]\nlevel = '\xff'\n", "line 2: not UTF-8; expected a TOML file in UTF-8"),
    ("a = " + "[" * 20000, "nested too deeply; expected tables of keys"),
    ("a = " + "1" * 5000, "TOML: exceeds the limit"),
]


@pytest.mark.parametrize(("content", "expected"), SYNTAX)
def test_a_file_that_is_no_toml_is_named_with_the_place_of_the_mistake(
    tmp_path: Path, content: str | bytes, expected: str
) -> None:
    assert complaint(write(tmp_path, content)).lower().startswith(f"penstock.toml: {expected}".lower())


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert complaint(tmp_path / "none.toml") == (
        "none.toml: cannot read the configuration file (No such file or directory); expected a readable TOML file"
    )


def test_a_directory_in_place_of_the_file_is_named(tmp_path: Path) -> None:
    assert "cannot read the configuration file (Is a directory)" in complaint(tmp_path)


def test_a_file_name_with_a_line_break_still_gives_one_line(tmp_path: Path) -> None:
    assert complaint(tmp_path / "a\nb.toml").startswith("a\\u000ab.toml: cannot read")


def test_a_wrong_option_is_named_by_the_option() -> None:
    assert complaint(None, {"stream.port": "abc"}) == f'--port = "abc": {PORT}'
    assert complaint(None, {"log.level": "loud"}) == f'--log-level = "loud": {LEVEL}'


ORDER = [
    (
        "session.max_keepalive_millis = 2000",
        "session.max_keepalive_millis = 2000: expected at least session.default_keepalive_millis = 5000 (default)",
    ),
    (
        "session.min_keepalive_millis = 6000",
        "session.min_keepalive_millis = 6000: expected at most session.default_keepalive_millis = 5000 (default)",
    ),
    (
        "session.default_keepalive_millis = 50000",
        "session.default_keepalive_millis = 50000: expected at most session.max_keepalive_millis = 30000 (default)",
    ),
    (
        "session.min_inactivity_millis = 500\nsession.max_inactivity_millis = 400",
        "session.max_inactivity_millis = 400: expected at least session.min_inactivity_millis = 500 (",
    ),
    (
        "session.content_length = 999",
        "session.content_length = 999: expected at least session.min_content_length = 1000 (default)",
    ),
]


@pytest.mark.parametrize(("content", "expected"), ORDER)
def test_keys_that_bound_one_another_are_compared(tmp_path: Path, content: str, expected: str) -> None:
    assert complaint(write(tmp_path, content)).startswith("penstock.toml: " + expected)


def test_two_listeners_on_one_port_are_refused(tmp_path: Path) -> None:
    assert complaint(None, {"stream.port": 8081}) == (
        "--port = 8081: expected a port other than api.port = 8081 (default)"
    )
    assert complaint(write(tmp_path, 'api.port = 8080\napi.host = "0.0.0.0"')) == (
        "penstock.toml: api.port = 8080: expected a port other than stream.port = 8080 (default)"
    )
    tls: dict[str, object] = {
        "stream.tls.certificate": f"{TLS}/certificate.pem",
        "stream.tls.private_key": f"{TLS}/private_key.pem",
    }
    assert complaint(None, {**tls, "stream.port": 8443}) == (
        "--port = 8443: expected a port other than stream.tls.port = 8443 (default)"
    )


@pytest.mark.parametrize(
    "overrides",
    [
        {"stream.port": 0, "api.port": 0},
        {"stream.port": 8081, "stream.host": "127.0.0.2"},
        {"stream.port": 8443},
    ],
)
def test_listeners_that_do_not_meet_may_share_a_number(overrides: dict[str, object]) -> None:
    assert load(None, overrides).config.stream.port == overrides["stream.port"]


def tls_file(directory: Path, certificate: object, key: object) -> Path:
    return write(directory, f'[stream.tls]\ncertificate = "{certificate}"\nprivate_key = "{key}"\n')


def test_a_certificate_and_its_key_turn_tls_on(tmp_path: Path) -> None:
    assert not load(None, {}).config.stream.tls.enabled
    path = tls_file(tmp_path, TLS / "certificate.pem", TLS / "private_key.pem")
    assert load(path, {}).config.stream.tls.enabled


def test_a_certificate_and_its_key_come_together(tmp_path: Path) -> None:
    assert "stream.tls.certificate = " in (line := complaint(tls_file(tmp_path, TLS / "certificate.pem", "")))
    assert line.endswith("expected stream.tls.private_key to be set as well")
    assert "stream.tls.private_key = " in (line := complaint(tls_file(tmp_path, "", TLS / "private_key.pem")))
    assert line.endswith("expected stream.tls.certificate to be set as well")


def test_files_of_tls_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    line = complaint(tls_file(tmp_path, "none.pem", TLS / "private_key.pem"))
    assert line == (
        'penstock.toml: stream.tls.certificate = "none.pem": expected a readable file (No such file or directory)'
    )
    line = complaint(tls_file(tmp_path, TLS / "certificate.pem", TLS))
    assert line.endswith("expected a readable file (Is a directory)")


@pytest.mark.parametrize(
    ("certificate", "key", "reason"),
    [
        ("certificate.pem", "other_key.pem", "KEY_VALUES_MISMATCH"),
        ("certificate.pem", "encrypted_key.pem", ""),
        ("private_key.pem", "private_key.pem", ""),
        ("../test_loading.py", "private_key.pem", ""),
    ],
)
def test_files_of_tls_that_do_not_fit_are_refused_without_asking_for_a_password(
    tmp_path: Path, certificate: str, key: str, reason: str
) -> None:
    line = complaint(tls_file(tmp_path, TLS / certificate, TLS / key))
    assert "expected a PEM certificate chain that fits stream.tls.private_key = " in line
    assert reason in line


def test_a_cipher_list_unknown_to_openssl_is_refused(tmp_path: Path) -> None:
    accepted = load(write(tmp_path, 'stream.tls.ciphers = "ECDHE+AESGCM:!aNULL"'), {})
    assert accepted.config.stream.tls.ciphers == "ECDHE+AESGCM:!aNULL"
    line = complaint(write(tmp_path, 'stream.tls.ciphers = "NONSENSE"'))
    assert line.startswith('penstock.toml: stream.tls.ciphers = "NONSENSE": expected a cipher list that OpenSSL')


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (TLS / "certificate.pem", None),
        ("none.pem", "stream.tls.client_ca"),
        (TLS / "private_key.pem", "expected a file of PEM certificates"),
    ],
)
def test_the_authorities_of_clients_must_be_certificates(tmp_path: Path, file: Path, expected: str | None) -> None:
    path = tls_file(tmp_path, TLS / "certificate.pem", TLS / "private_key.pem")
    path.write_text(path.read_text() + f'client_ca = "{file}"\nclient_certificate = "required"\n')
    if expected is None:
        assert load(path, {}).config.stream.tls.client_certificate == "required"
    else:
        assert expected in complaint(path)


def test_the_authorities_of_clients_need_a_certificate_of_the_server(tmp_path: Path) -> None:
    line = complaint(write(tmp_path, f'[stream.tls]\nclient_ca = "{TLS}/certificate.pem"\n'))
    assert line.endswith("expected stream.tls.certificate to be set as well")
