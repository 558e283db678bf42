"""The lists of CONTRIBUTING.md, "How to add something", as far as a test can hold them."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest

from penstock.adapters.loading import DATA_ADAPTERS, METADATA_ADAPTERS
from penstock.config.keys import all_keys
from penstock.kernel.limits import SessionLimits
from penstock.pipeline.jobs import JOBS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "penstock"


def folders(place: Path) -> list[str]:
    return sorted(each.name for each in place.iterdir() if (each / "__init__.py").exists())


@pytest.mark.parametrize("door", folders(SOURCE / "doors"))
def test_every_door_belongs_to_a_service(door: str) -> None:
    services = [path.read_text("utf-8") for path in (SOURCE / "services").glob("*.py")]
    assert any(f"penstock.doors.{door}." in text for text in services)


@pytest.mark.parametrize("target", sorted({*DATA_ADAPTERS.values(), *METADATA_ADAPTERS.values()}))
def test_every_ready_made_adapter_has_a_folder_of_tests(target: str) -> None:
    room = target.partition(":")[0].removeprefix("penstock.adapters.")
    # The one that decides nothing is the base class itself.
    if room != "api":
        assert list((ROOT / "tests" / "adapters" / room).glob("test_*.py"))


@pytest.mark.parametrize("job", sorted(path.stem for path in (SOURCE / "pipeline" / "jobs").glob("[a-z]*.py")))
def test_every_job_is_in_the_list_and_has_settings_a_start_and_tests(job: str) -> None:
    assert job in JOBS
    module = ast.parse((SOURCE / "pipeline" / "jobs" / f"{job}.py").read_text("utf-8"))
    defined = {node.name for node in module.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    assert {"Settings", "start"} <= defined
    assert list((ROOT / "tests" / "pipeline" / "jobs").glob(f"test_{job}*.py"))


def test_every_key_of_the_configuration_is_read_somewhere() -> None:
    readers = [path for path in SOURCE.rglob("*.py") if path.parent.name != "config"]
    texts = [path.read_text("utf-8") for path in [*readers, SOURCE / "config" / "checks.py"]]
    read = {name for text in texts for name in re.findall(r"\.(\w+)", text)}
    # The kernel's limits are filled by name.
    read |= {field.name for field in fields(SessionLimits)}
    assert [key for key in all_keys() if key.rpartition(".")[2] not in read] == []


def test_every_file_that_the_lists_name_exists() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    section = page.partition("## How to add something")[2].partition("\n## ")[0]
    named = re.findall(r"`(tests/[\w/]+\.py)", section)
    assert len(named) > 5
    assert [path for path in named if not (ROOT / path).exists()] == []
    sources = re.findall(r"`(src/penstock/[\w/]+\.py|(?:adapters|config|transport)/[\w/]+\.py)`", section)
    assert len(sources) > 4
    for path in [each for each in sources if "NAME" not in each]:
        assert (ROOT / path).exists() or (SOURCE / path).exists(), path
