import re
import tomllib
from pathlib import Path

import pytest

from penstock.adapters.loading import DATA_ADAPTERS, METADATA_ADAPTERS
from penstock.config import load
from penstock.config.keys import all_keys, documented_sections
from penstock.config.loading import OPTIONS
from penstock.config.reference import updated

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "configuration.md"
EXAMPLE = ROOT / "examples" / "penstock.toml"


def test_the_tables_of_the_page_are_those_of_the_schema() -> None:
    page = PAGE.read_text("utf-8")
    assert page == updated(page), "run: python -m penstock.config.reference docs/configuration.md"


def test_a_page_without_the_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="needs the marks"):
        updated("# Configuration\n")


def test_every_key_and_section_has_one_line_of_description() -> None:
    sections = list(documented_sections())
    described = {key.name: key.description for section in sections for key in section.keys}
    described |= {section.name: section.description for section in sections}
    assert set(all_keys()) < set(described)
    for name, description in described.items():
        assert description.endswith("."), name
        assert "\n" not in description, name


def test_the_page_names_every_option() -> None:
    page = PAGE.read_text("utf-8")
    for key, option in OPTIONS.items():
        assert option in page
        assert f"`{key}`" in page


def test_the_example_loads() -> None:
    loaded = load(EXAMPLE, {})
    assert loaded.config.server.name == "Prices"
    assert loaded.origins["session.max_recovery_length"] == "penstock.toml"


def test_the_tls_lines_of_the_example_name_keys_that_exist() -> None:
    lines = EXAMPLE.read_text("utf-8").splitlines()
    start = lines.index("# [stream.tls]")
    table = tomllib.loads("\n".join(line.removeprefix("# ") for line in lines[start : start + 4]))
    assert {f"stream.tls.{name}" for name in table["stream"]["tls"]} <= set(all_keys())


def test_the_toml_of_the_page_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configs = []
    # The page's log file is below the directory that the server is started in.
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    for block in re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL):
        path = tmp_path / "penstock.toml"
        path.write_text(block, "utf-8")
        configs.append(load(path, {}).config)
    first, sets, *others = configs
    assert first.server.node == "prices-1"
    assert others[0].log.file == "logs/penstock.log"
    assert list(sets.adapters["QUOTES"].data) == ["DEFAULT", "HISTORY"]


def test_the_page_names_every_ready_made_adapter() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ((?:metadata|data|, )+) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    named = {(name, sort) for name, sorts in rows for sort in sorts.split(", ")}
    assert named == {(name, "metadata") for name in METADATA_ADAPTERS} | {(name, "data") for name in DATA_ADAPTERS}
