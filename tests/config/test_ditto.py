"""The table `[ditto]`: when the door is open, and what contradicts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config import ConfigError, load
from penstock.config.checks import serves_ditto

USERS = "[adapters.SITE]\n[ditto]\nadapter_set = 'SITE'\n"


def write(directory: Path, text: str) -> Path:
    path = directory / "penstock.toml"
    path.write_text(text)
    return path


def complaint(directory: Path, text: str) -> str:
    with pytest.raises(ConfigError) as error:
        load(write(directory, text), {})
    return str(error.value).replace(f"{directory}/", "")


def test_the_door_is_open_in_the_demo() -> None:
    assert serves_ditto(load(None, {}).config)


@pytest.mark.parametrize("key", ["ditto.enabled", "demo.enabled", "journal.enabled"])
def test_it_is_closed_without_the_demo_without_a_journal_and_when_it_is_not_wanted(key: str) -> None:
    assert not serves_ditto(load(None, {key: False}).config)


def test_it_is_closed_with_adapter_sets_of_which_none_is_named(tmp_path: Path) -> None:
    assert not serves_ditto(load(write(tmp_path, "[adapters.SITE]"), {}).config)


def test_it_is_open_with_one_that_is_named(tmp_path: Path) -> None:
    assert serves_ditto(load(write(tmp_path, USERS), {}).config)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[ditto]\nadapter_set = 'SITE'",
            'penstock.toml: ditto.adapter_set = "SITE": expected an adapter set of this configuration, or empty',
        ),
        (
            "[adapters.A]\n[adapters.B]\n[ditto]\nadapter_set = 'SITE'",
            'penstock.toml: ditto.adapter_set = "SITE": expected one of A, B, or empty',
        ),
        (
            f"{USERS}[journal]\nenabled = false",
            "penstock.toml: journal.enabled = false: expected true,"
            ' because ditto.adapter_set = "SITE" (penstock.toml) is set',
        ),
        (
            f"{USERS}[adapters.DITTO]",
            'penstock.toml: ditto.adapter_set = "SITE": expected ditto.enabled = false,'
            " or another name for adapters.DITTO",
        ),
        (
            "[adapters.DITTO]\n[demo]\nenabled = true",
            "penstock.toml: demo.enabled = true: expected ditto.enabled = false, or another name for adapters.DITTO",
        ),
        (
            "[ditto]\nissuer = 'a:b'",
            'penstock.toml: ditto.issuer = "a:b": expected 1 to 64 letters, digits, ".", "_" or "-"',
        ),
        (
            "[ditto]\ndefault_namespace = '9'",
            'penstock.toml: ditto.default_namespace = "9": expected words with dots between them,'
            ' such as "com.example"',
        ),
    ],
)
def test_contradictions_are_told(tmp_path: Path, text: str, expected: str) -> None:
    assert complaint(tmp_path, text) == expected


def test_what_is_not_served_contradicts_nothing(tmp_path: Path) -> None:
    text = "[adapters.DITTO]\n[ditto]\nenabled = false\nadapter_set = 'GONE'"
    assert not serves_ditto(load(write(tmp_path, text), {}).config)
