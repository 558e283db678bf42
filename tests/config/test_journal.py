"""The tables of the journal and of the pipeline, and what of a data adapter is journaled."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from penstock.config import Config, ConfigError, as_json, as_toml, load

ADAPTER = '[adapters.Q.data.D]\nadapter = "a:A"\n'
JOURNALED = f'{ADAPTER}[adapters.Q.data.D.journal]\nitems = ["item1", "news.*"]\npolicy = "ack"\n'
SECRET = "hunter2-hunter2-hunter2"


def write(directory: Path, content: str) -> Path:
    path = directory / "penstock.toml"
    path.write_text(content)
    return path


def complaint(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    return str(caught.value).replace(f"{path.parent}/", "")


def test_by_default_there_is_a_journal_that_keeps_a_week() -> None:
    journal = Config().journal
    assert journal.enabled
    assert (journal.interval_millis, journal.max_age_hours, journal.max_bytes) == (50, 168, 0)


def test_a_data_adapter_journals_nothing_unless_told_to(tmp_path: Path) -> None:
    journal = load(write(tmp_path, ADAPTER), {}).config.adapters["Q"].data["D"].journal
    assert (journal.items, journal.policy) == ((), "interval")


def test_a_data_adapter_names_what_is_journaled_and_how(tmp_path: Path) -> None:
    journal = load(write(tmp_path, JOURNALED), {}).config.adapters["Q"].data["D"].journal
    assert (journal.items, journal.policy) == (("item1", "news.*"), "ack")


def test_adapters_that_differ_in_what_is_journaled_differ(tmp_path: Path) -> None:
    plain = load(write(tmp_path, ADAPTER), {}).config
    journaled = load(write(tmp_path, JOURNALED), {}).config
    assert plain.adapters["Q"] != journaled.adapters["Q"]
    assert len({plain, journaled, load(write(tmp_path, JOURNALED), {}).config}) == 2


WRONG = [
    (
        f"{ADAPTER}journal = 5",
        "adapters.Q.data.D.journal = 5: expected a table, written as [adapters.Q.data.D.journal]",
    ),
    (
        f'{ADAPTER}journal.items = "*"',
        'adapters.Q.data.D.journal.items = "*": expected a list of item names, with "*" for any characters',
    ),
    (
        f'{ADAPTER}journal.items = [""]',
        'adapters.Q.data.D.journal.items = [""]: expected a list of item names, with "*" for any characters',
    ),
    (
        f'{ADAPTER}journal.items = ["*"]\njournal.policy = "later"',
        'adapters.Q.data.D.journal.policy = "later": expected one of "ack", "interval", "off"',
    ),
    (
        f'{ADAPTER}journal.policy = "ack"',
        'adapters.Q.data.D.journal.policy = "ack": expected adapters.Q.data.D.journal.items to be set as well',
    ),
    (
        f"journal.enabled = false\n{JOURNALED}",
        "journal.enabled = false: expected true, because adapters.Q.data.D.journal.items is set (penstock.toml)",
    ),
    (f"{ADAPTER}journal.item = []", "adapters.Q.data.D.journal.item: unknown key (did you mean"),
    ("[journal]\ninterval_millis = 0", "journal.interval_millis = 0: expected a whole number from 1 to 60000"),
    ("[journal]\nqueue_bytes = 1000", "journal.queue_bytes = 1000: expected a whole number from 1048576 to 2147483647"),
    ("[journal]\nmax_bytes = -1", "journal.max_bytes = -1: expected a whole number from 0 to 9007199254740992"),
    ('[pipeline]\nmemory = "much"', 'pipeline.memory = "much": expected a number and "m" or "g", such as "1g"'),
    ('[pipeline]\nmaster = ""', 'pipeline.master = "": expected a Spark master such as'),
    ('[pipeline]\napi = "here"', 'pipeline.api = "here": expected an address such as'),
    ('[pipeline]\nrestart = "no"', 'pipeline.restart = "no": expected one of "always", "never"'),
    ("[pipeline]\nspark = 5", "pipeline.spark = 5: expected a table"),
    ("[pipeline.jobs]\ncandles = 5", "pipeline.jobs = { candles = 5 }: expected a table of tables"),
    (f'[pipeline]\ntoken = ["{SECRET}"]', 'pipeline.token = "***": expected text on one line, or empty'),
]


@pytest.mark.parametrize(("content", "expected"), WRONG)
def test_a_mistake_is_named_with_file_key_value_and_what_is_allowed(
    tmp_path: Path, content: str, expected: str
) -> None:
    assert complaint(write(tmp_path, content)).startswith(f"penstock.toml: {expected}")


PIPELINE = f"""
[pipeline]
master = "spark://host:7077"
token = "{SECRET}"
[pipeline.spark]
"spark.ui.enabled" = true
"spark.hadoop.fs.s3a.secret.key" = "{SECRET}"
[pipeline.jobs.candles]
sizes = ["1s", "1m"]
"""


def test_settings_of_spark_and_of_jobs_are_free(tmp_path: Path) -> None:
    pipeline = load(write(tmp_path, PIPELINE), {}).config.pipeline
    assert pipeline.spark["spark.ui.enabled"] is True
    assert pipeline.jobs["candles"] == {"sizes": ["1s", "1m"]}
    assert pipeline.token == SECRET
    assert hash(pipeline) == hash(load(write(tmp_path, PIPELINE), {}).config.pipeline)


def test_the_secrets_of_the_pipeline_are_never_printed(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, PIPELINE), {})
    for shown in (as_toml(loaded), as_json(loaded)):
        assert SECRET not in shown
    table = tomllib.loads(as_toml(loaded))["pipeline"]
    assert table["token"] == "***"
    assert table["spark"] == {"spark.ui.enabled": True, "spark.hadoop.fs.s3a.secret.key": "***"}


def test_a_token_that_is_not_set_is_shown_as_such() -> None:
    assert tomllib.loads(as_toml(load(None, {})))["pipeline"]["token"] == ""


# -- who may read it over the network -------------------------------------------------------------------------------

READER = f'[journal.readers.spark]\ntoken = "{SECRET}"\nentities = ["PLANT/*"]\n'


def test_a_reader_has_a_token_and_entities(tmp_path: Path) -> None:
    loaded = load(write(tmp_path, READER), {})
    config = loaded.config
    assert config.journal.readers["spark"].entities == ("PLANT/*",)
    assert config != load(None, {}).config
    assert hash(config) == hash(load(write(tmp_path, READER), {}).config)
    assert SECRET not in as_toml(loaded) + as_json(loaded)


WRONG_READERS = [
    (
        '[journal.readers.x]\ntoken = "0123456789abcdef"',
        "journal.readers.x.entities: missing; expected a list of patterns",
    ),
    ('[journal.readers.x]\nentities = ["*"]', "journal.readers.x: expected token or token_file, and not both"),
    (f'{READER}token_file = "t"', "journal.readers.spark: expected token or token_file, and not both"),
    (
        f'[journal.readers.x]\ntoken = "{SECRET}"\nentities = []',
        "journal.readers.x.entities = []: expected at least one",
    ),
    (
        '[journal.readers.x]\ntoken = "short"\nentities = ["*"]',
        "journal.readers.x.token: expected tokens of at least 16 ASCII characters without spaces",
    ),
    (
        '[journal.readers.x]\ntoken_file = "/no/such"\nentities = ["*"]',
        'journal.readers.x.token_file = "/no/such": expected a readable file (No such file or directory)',
    ),
    (
        f'{READER}expires = "tomorrow"',
        'journal.readers.spark.expires = "tomorrow": expected a time with its zone such as "2026-12-31T00:00:00Z"',
    ),
    (
        f'{READER}expires = "2026-12-31T00:00:00"',
        'journal.readers.spark.expires = "2026-12-31T00:00:00": expected a time with its zone',
    ),
    (f"[journal]\nenabled = false\n{READER}", "journal.readers.spark: expected journal.enabled to be true as well"),
]


@pytest.mark.parametrize(("content", "problem"), WRONG_READERS)
def test_a_reader_that_cannot_work_is_named(tmp_path: Path, content: str, problem: str) -> None:
    said = complaint(write(tmp_path, content))
    assert problem in said
    assert SECRET not in said


def test_tokens_in_a_file_are_checked_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("# a comment\n\nonly-a-short-1\n")
    content = f'[journal.readers.x]\ntoken_file = "{tmp_path}/tokens"\nentities = ["*"]'
    said = complaint(write(tmp_path, content))
    assert "journal.readers.x.token_file: expected tokens of at least 16" in said
    assert "only-a-short" not in said
    (tmp_path / "tokens").write_text("# nothing\n")
    assert "expected a file with a token" in complaint(write(tmp_path, content))
