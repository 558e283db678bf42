from __future__ import annotations

from pathlib import Path

import pytest

from penstock.config import ConfigError, load
from penstock.config.keys import named_values


def written(directory: Path, text: str) -> Path:
    path = directory / "penstock.toml"
    path.write_text(text, "utf-8")
    return path


def complaint(directory: Path, text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(written(directory, text), {})
    return str(caught.value)


def test_there_are_no_push_notifications_by_default() -> None:
    push = load(None, {}).config.push
    assert (push.enabled, push.data_adapter) == (False, "MPN_INTERNAL_DATA_ADAPTER")
    assert not push.apple
    assert not push.google
    assert not push.web


def test_applications_are_tables_of_their_platforms(tmp_path: Path) -> None:
    text = """
    [push]
    enabled = true
    [push.apple."com.mydomain.myapp"]
    triggers = ['Double\\.parseDouble\\(\\$\\[\\d+\\]\\) [<>] [+-]?(\\d*\\.)?\\d+']
    [push.google."com.mydomain.myapp"]
    min_send_delay_millis = 0
    [push.web.shop]
    """
    push = load(written(tmp_path, text), {}).config.push
    assert push.apple["com.mydomain.myapp"].service_level == "test"
    assert push.google["com.mydomain.myapp"].min_send_delay_millis == 0
    assert list(push.web) == ["shop"]
    assert hash(push) == hash(load(written(tmp_path, text), {}).config.push)


@pytest.mark.parametrize(
    ("table", "key", "because"),
    [
        ('[push.apple.app]\nservice_level = "production"', "push.apple.app.key_file", "certificate is not set"),
        ('[push.apple.app]\nkey_file = "/dev/null"\nteam_id = "T"', "push.apple.app.key_id", "key_file is set"),
        ('[push.apple.app]\nkey_file = "/dev/null"\nkey_id = "K"', "push.apple.app.team_id", "key_file is set"),
        ('[push.apple.app]\ncertificate = "/dev/null"', "push.apple.app.private_key", "certificate is set"),
        (
            '[push.apple."web.x"]\nservice_level = "production"\ncertificate = "/dev/null"\nprivate_key = "/dev/null"',
            'push.apple."web.x".push_package_file',
            "the id is that of a website",
        ),
        ('[push.google.app]\nservice_level = "dry_run"', "push.google.app.service_json_file", '"dry_run"'),
        ('[push.web.app]\nservice_level = "production"', "push.web.app.contact", '"production"'),
    ],
)
def test_an_application_that_could_not_be_sent_to_is_refused_with_what_it_lacks(
    tmp_path: Path, table: str, key: str, because: str
) -> None:
    found = complaint(tmp_path, table)
    assert key in found
    assert "expected it to be set, because " in found
    assert because in found


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    found = complaint(tmp_path, '[push.google.app]\nservice_json_file = "nowhere.json"')
    assert 'push.google.app.service_json_file = "nowhere.json"' in found
    assert "expected a readable file (No such file or directory)" in found


def test_a_trigger_pattern_that_is_none_is_named_by_its_number(tmp_path: Path) -> None:
    found = complaint(tmp_path, "[push.apple.app]\ntriggers = ['a+', 'a(']")
    assert "push.apple.app.triggers" in found
    assert "number 2 is not (character 2: an opening ( has no closing one)" in found


def test_a_pattern_that_only_other_engines_understand_is_refused_with_the_configuration(tmp_path: Path) -> None:
    assert "number 1 is not (character " in complaint(tmp_path, "[push.apple.app]\ntriggers = ['(a)\\1']")


def test_a_data_adapter_cannot_have_the_name_of_the_internal_one(tmp_path: Path) -> None:
    text = '[push]\nenabled = true\ndata_adapter = "QUOTES"\n[adapters.A.data.QUOTES]\nadapter = "demo_quotes"'
    assert "expected another name: push.data_adapter has it" in complaint(tmp_path, text)


def test_what_is_sent_can_be_journaled_only_if_there_is_a_journal(tmp_path: Path) -> None:
    found = complaint(tmp_path, "[push]\njournal = true\n[journal]\nenabled = false")
    assert "expected false, because journal.enabled is false" in found


def test_the_values_of_applications_are_among_those_of_tables_with_names_of_their_own(tmp_path: Path) -> None:
    config = load(written(tmp_path, "[push.web.shop]\nmin_send_delay_millis = 7"), {}).config
    assert named_values(config)["push.web.shop.min_send_delay_millis"] == 7
