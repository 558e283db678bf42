"""The tables of adapter sets: tables whose names the file chooses."""

import json
import tomllib
from pathlib import Path

import pytest

from penstock.adapters.demo import demo_sets
from penstock.config import AdapterSetSection, ConfigError, DataSection, MetadataSection, as_json, as_toml, load
from penstock.config.checks import DEMO_SETS
from penstock.config.keys import all_keys, documented_sections
from penstock.config.loading import MAX_DEPTH
from penstock.config.secret import is_secret, masked

QUOTES = """
[adapters.QUOTES]
timeout_millis = 500

[adapters.QUOTES.metadata]
adapter = "access"
parameters = { users = "users.toml" }

[adapters.QUOTES.data.DEFAULT]
adapter = "quotes:Quotes"
parameters = { url = "https://feed.example/", depth = 3 }
optional = true

[adapters.QUOTES.data.NEWS]
adapter = "feeds.news:News"
"""


def write(directory: Path, content: str, name: str = "penstock.toml") -> Path:
    path = directory / name
    path.write_text(content, "utf-8")
    return path


def complaint(path: Path) -> str:
    """The one line, with the directory of the test cut off."""
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    line = str(caught.value)
    assert len(line.splitlines()) == 1
    return line.replace(f"{path.parent}/", "")


def test_a_set_is_read_with_its_metadata_adapter_and_its_data_adapters_in_order(tmp_path: Path) -> None:
    adapters = load(write(tmp_path, QUOTES), {}).config.adapters
    assert adapters == {
        "QUOTES": AdapterSetSection(
            timeout_millis=500,
            metadata=MetadataSection(adapter="access", parameters={"users": "users.toml"}),
            data={
                "DEFAULT": DataSection(
                    adapter="quotes:Quotes", parameters={"url": "https://feed.example/", "depth": 3}, optional=True
                ),
                "NEWS": DataSection(adapter="feeds.news:News"),
            },
        )
    }
    assert list(adapters["QUOTES"].data) == ["DEFAULT", "NEWS"]


def test_without_its_tables_a_set_has_the_literal_metadata_adapter_and_no_data(tmp_path: Path) -> None:
    adapters = load(write(tmp_path, "[adapters.EMPTY]"), {}).config.adapters
    assert adapters == {
        "EMPTY": AdapterSetSection(timeout_millis=10_000, metadata=MetadataSection(adapter="literal"), data={})
    }


def test_without_sets_there_are_none() -> None:
    assert load(None, {}).config.adapters == {}


def test_adapter_sets_are_frozen_like_the_rest_and_compare_by_what_they_say(tmp_path: Path) -> None:
    config = load(write(tmp_path, QUOTES), {}).config
    with pytest.raises(TypeError):
        config.adapters["MORE"] = AdapterSetSection()  # type: ignore[index]
    with pytest.raises(TypeError):
        config.adapters["QUOTES"].data["DEFAULT"].parameters["url"] = ""  # type: ignore[index]
    again = load(write(tmp_path, QUOTES, "again.toml"), {}).config
    assert (config, hash(config)) == (again, hash(again))
    other = load(write(tmp_path, QUOTES.replace("depth = 3", "depth = 4"), "other.toml"), {}).config
    assert config.adapters["QUOTES"] != other.adapters["QUOTES"]


@pytest.mark.parametrize("name", ["a.b", "Börse", "two words", 'quo"ted'])
def test_a_set_and_an_adapter_may_have_any_name_on_one_line(tmp_path: Path, name: str) -> None:
    quoted = name.replace('"', '\\"')
    loaded = load(write(tmp_path, f'[adapters."{quoted}".data."{quoted}"]\nadapter = "quotes:Quotes"'), {})
    assert list(loaded.config.adapters) == [name]
    assert list(loaded.config.adapters[name].data) == [name]
    assert loaded.origins[f'adapters."{quoted}".data."{quoted}".adapter'] == "penstock.toml"
    assert load(write(tmp_path, as_toml(loaded), "shown.toml"), {}).config == loaded.config


PATH = 'expected "module:Class" or the name of a ready-made adapter'
NAME = "expected a name that is text on one line, not empty"
WRONG = [
    ("adapters = 5", "adapters = 5: expected a table, written as [adapters.NAME]"),
    ("[[adapters]]\nx = 1", "adapters = [{ x = 1 }]: expected a table, written as [adapters.NAME]"),
    ("[adapters]\nQ = 5", "adapters.Q = 5: expected a table, written as [adapters.Q]"),
    ("[adapters.Q]\ndata = 5", "adapters.Q.data = 5: expected a table, written as [adapters.Q.data.NAME]"),
    ("[adapters.Q.data]\nD = 5", "adapters.Q.data.D = 5: expected a table, written as [adapters.Q.data.D]"),
    ('[adapters.Q.data]\nadapter = "x"', 'adapters.Q.data.adapter = "x": expected a table, written as'),
    ('[adapters.""]', f'adapters."": {NAME}'),
    ('[adapters."a\\nb"]', f'adapters."a\\u000ab": {NAME}'),
    ('[adapters.Q.data.""]', f'adapters.Q.data."": {NAME}'),
    ("[adapters.Q.data.D]", f"adapters.Q.data.D.adapter: missing; {PATH}"),
    ("[adapters.Q.data.D]\noptional = true", f"adapters.Q.data.D.adapter: missing; {PATH}"),
    ("[adapters.Q.data.D]\nadapter = 5", f"adapters.Q.data.D.adapter = 5: {PATH}"),
    ('[adapters.Q.data.D]\nadapter = ""', f'adapters.Q.data.D.adapter = "": {PATH}'),
    ('[adapters.Q.data.D]\nadapter = "a b"', f'adapters.Q.data.D.adapter = "a b": {PATH}'),
    ('[adapters.Q.data.D]\nadapter = "a/b.py"', f'adapters.Q.data.D.adapter = "a/b.py": {PATH}'),
    ('[adapters.Q.data.D]\nadapter = ":Quotes"', f'adapters.Q.data.D.adapter = ":Quotes": {PATH}'),
    ('[adapters.Q.data.D]\nadapter = "quotes:"', f'adapters.Q.data.D.adapter = "quotes:": {PATH}'),
    ('[adapters.Q.metadata]\nadapter = "a:b:c"', f'adapters.Q.metadata.adapter = "a:b:c": {PATH}'),
    ("[adapters.Q.metadata]\nparameters = 1", "adapters.Q.metadata.parameters = 1: expected a table"),
    (
        "[adapters.Q]\ntimeout_millis = 0",
        "adapters.Q.timeout_millis = 0: expected a whole number from 1 to 2147483647",
    ),
    (
        '[adapters.Q.data.D]\nadapter = "a:A"\noptional = "yes"',
        'adapters.Q.data.D.optional = "yes": expected true or false',
    ),
    (
        "[adapters.Q.metdata]",
        "adapters.Q.metdata: unknown key (did you mean adapters.Q.metadata?); "
        "allowed here: timeout_millis, metadata, data",
    ),
    (
        '[adapters.Q.data.D]\nadapter = "a:A"\nparams = {}',
        "adapters.Q.data.D.params: unknown key (did you mean adapters.Q.data.D.parameters?); "
        "allowed here: adapter, parameters, optional",
    ),
    (
        '[adapters.Q.data.D]\nclass = "a:A"',
        "adapters.Q.data.D.class: unknown key; allowed here: adapter, parameters, optional",
    ),
    (
        "[adapters.Q.metadata]\noptional = true",
        "adapters.Q.metadata.optional: unknown key; allowed here: adapter, parameters",
    ),
]


@pytest.mark.parametrize(("content", "expected"), WRONG)
def test_a_mistake_is_named_with_file_key_value_and_what_is_allowed(
    tmp_path: Path, content: str, expected: str
) -> None:
    assert complaint(write(tmp_path, content)).startswith(f"penstock.toml: {expected}")


def test_parameters_nested_too_deeply_are_refused_however_they_are_written(tmp_path: Path) -> None:
    head = "[adapters.Q.metadata]\nparameters"
    deepest = ".".join(["a"] * (MAX_DEPTH - 1))
    assert load(write(tmp_path, f"{head}.{deepest} = 1"), {}).config.adapters["Q"].metadata.parameters
    for many in (MAX_DEPTH + 1, 2_000):
        line = complaint(write(tmp_path, f"{head}.{'.'.join(['a'] * many)} = 1"))
        assert line == "penstock.toml: adapters.Q.metadata.parameters: nested too deeply; expected a table"


# -- the demo sets beside them -------------------------------------------------------------------------------------


def test_the_demo_sets_are_off_by_default_once_there_is_a_set(tmp_path: Path) -> None:
    assert load(None, {}).config.demo.enabled
    loaded = load(write(tmp_path, "[adapters.EMPTY]"), {})
    assert not loaded.config.demo.enabled
    assert loaded.origins["demo.enabled"] == "default with adapter sets"


def test_the_demo_sets_can_be_had_beside_other_sets(tmp_path: Path) -> None:
    assert load(write(tmp_path, "[adapters.EMPTY]\n[demo]\nenabled = true"), {}).config.demo.enabled
    assert load(write(tmp_path, "[adapters.EMPTY]"), {"demo.enabled": True}).config.demo.enabled


def test_an_empty_table_of_sets_is_no_set(tmp_path: Path) -> None:
    assert load(write(tmp_path, "[adapters]"), {}).config.demo.enabled


@pytest.mark.parametrize("name", DEMO_SETS)
def test_a_set_cannot_have_the_name_of_a_demo_set_that_is_served(tmp_path: Path, name: str) -> None:
    assert load(write(tmp_path, f"[adapters.{name}]"), {}).config.adapters.keys() == {name}
    assert complaint(write(tmp_path, f"[adapters.{name}]\n[demo]\nenabled = true")) == (
        f"penstock.toml: demo.enabled = true: expected false, or another name for adapters.{name}: "
        "it is the name of a demo adapter set"
    )


def test_a_set_cannot_have_the_name_of_the_set_of_the_dashboard(tmp_path: Path) -> None:
    problem = "adapters.DASHBOARD: expected another name: the dashboard's own adapter set has it"
    assert complaint(write(tmp_path, "[adapters.DASHBOARD]")) == f"the configuration: {problem}"
    named = '[adapters.DASHBOARD.data.MONITOR]\nadapter = "monitor"'
    assert complaint(write(tmp_path, named)) == f"penstock.toml: {problem}"


@pytest.mark.parametrize("address", ["https://push.example.com", "http://10.0.0.1:8080/prefix/", "http://[::1]:80", ""])
def test_the_stream_is_at_an_address_of_the_web(tmp_path: Path, address: str) -> None:
    path = write(tmp_path, f'[admin]\nstream_address = "{address}"')
    assert load(path, {}).config.admin.stream_address == address


@pytest.mark.parametrize(
    "address", ["push.example.com", "ws://push.example.com", "https://a b", "https://a;x", "http://"]
)
def test_and_at_no_other(tmp_path: Path, address: str) -> None:
    path = write(tmp_path, f'[admin]\nstream_address = "{address}"')
    assert complaint(path).endswith('expected an address such as "https://example.com/path", or empty')


def test_the_names_of_the_demo_sets_are_known_here() -> None:
    assert tuple(one.name for one in demo_sets()) == DEMO_SETS


# -- printing ------------------------------------------------------------------------------------------------------


def test_the_toml_shown_loads_again_as_the_same_sets(tmp_path: Path) -> None:
    awkward = """
[adapters.Q.data.D]
adapter = "quotes:Quotes"
[adapters.Q.data.D.parameters]
when = 2026-11-15T08:00:00Z
list = [1, 2.5, "a\\\\b", [true]]
"odd name" = { inner = { x = "é" } }
"""
    first = load(write(tmp_path, QUOTES + awkward), {})
    again = load(write(tmp_path, as_toml(first), "shown.toml"), {})
    assert again.config == first.config


def test_the_values_of_a_set_are_shown_with_their_origin(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, QUOTES), {})
    lines = [" ".join(line.split()) for line in as_toml(loaded).splitlines()]
    begin = lines.index("[adapters.QUOTES]")
    assert lines[begin:] == [
        "[adapters.QUOTES]",
        "timeout_millis = 500 # penstock.toml",
        "",
        "[adapters.QUOTES.metadata]",
        'adapter = "access" # penstock.toml',
        'parameters = { users = "users.toml" } # penstock.toml',
        "",
        "[adapters.QUOTES.data.DEFAULT]",
        'adapter = "quotes:Quotes" # penstock.toml',
        'parameters = { url = "https://feed.example/", depth = 3 } # penstock.toml',
        "optional = true # penstock.toml",
        "",
        "[adapters.QUOTES.data.DEFAULT.journal]",
        "items = [] # default",
        'policy = "interval" # default',
        "",
        "[adapters.QUOTES.data.NEWS]",
        'adapter = "feeds.news:News" # penstock.toml',
        "parameters = {} # default",
        "optional = false # default",
        "",
        "[adapters.QUOTES.data.NEWS.journal]",
        "items = [] # default",
        'policy = "interval" # default',
    ]
    shown = json.loads(as_json(loaded))
    assert shown["adapters.QUOTES.timeout_millis"] == {"value": 500, "origin": "penstock.toml"}
    assert shown["adapters.QUOTES.data.NEWS.parameters"] == {"value": {}, "origin": "default"}
    assert set(all_keys()) < set(shown)


SECRET = "hunter2"
SECRETS = f"""
[adapters.Q.metadata]
adapter = "access"
[adapters.Q.metadata.parameters]
password = "{SECRET}"
jwt_secret = "{SECRET}"
credentials = [{{ user = "ann", password = "{SECRET}" }}]
inner = {{ list = [{{ "API-Key" = "{SECRET}" }}], hubToken = "{SECRET}" }}
url = "https://ann:{SECRET}@feed.example/path"
user = "ann"
"""


def test_secrets_are_never_printed(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, SECRETS), {})
    for shown in (as_toml(loaded), as_json(loaded)):
        assert SECRET not in shown
    parameters = tomllib.loads(as_toml(loaded))["adapters"]["Q"]["metadata"]["parameters"]
    assert parameters == {
        "password": "***",
        "jwt_secret": "***",
        "credentials": "***",
        "inner": {"list": [{"API-Key": "***"}], "hubToken": "***"},
        "url": "https://ann:***@feed.example/path",
        "user": "ann",
    }
    assert loaded.config.adapters["Q"].metadata.parameters["password"] == SECRET


def test_a_mistake_does_not_give_a_secret_away(tmp_path: Path) -> None:
    content = f'[[adapters.Q.metadata.parameters]]\npassword = "{SECRET}"'
    assert complaint(write(tmp_path, content)) == (
        'penstock.toml: adapters.Q.metadata.parameters = [{ password = "***" }]: expected a table'
    )


@pytest.mark.parametrize("name", ["password", "PASSWORD", "user_password", "apiKey", "api-key", "token", "jwt_secret"])
def test_a_name_that_says_so_is_secret(name: str) -> None:
    assert is_secret(name)


@pytest.mark.parametrize("name", ["user", "url", "keyword", "monkey", "tokenizer", "key_format", ""])
def test_a_name_that_only_looks_like_it_is_not(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize("text", ["https://a.example:80/b@c", "ann@example.com", "12:30@noon"])
def test_an_address_without_a_password_is_shown_as_it_is(text: str) -> None:
    assert masked(text) == text


def test_every_table_with_a_chosen_name_is_documented() -> None:
    names = [section.name for section in documented_sections()]
    assert names[-4:] == [
        "adapters.NAME",
        "adapters.NAME.metadata",
        "adapters.NAME.data.NAME",
        "adapters.NAME.data.NAME.journal",
    ]
