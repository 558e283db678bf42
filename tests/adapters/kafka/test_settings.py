"""What the adapter takes, and what it says about everything else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

import pytest

from penstock.adapters.kafka import KafkaAdapter
from penstock.adapters.kafka.settings import KafkaParameters, KafkaSettings


def settings(**parameters: object) -> KafkaSettings:
    given = {"servers": "broker:9092", "topics": "quotes", **parameters}
    return KafkaSettings.of(cast(KafkaParameters, given))


def test_servers_and_topics_may_be_one_or_several() -> None:
    made = settings(servers="a:9092, b:9092", topics=["quotes", "^orders\\..*"])
    assert made.config["bootstrap.servers"] == "a:9092,b:9092"
    assert made.topics == ("quotes", "^orders\\..*")
    assert settings(servers=["[::1]:9092"]).servers == "[::1]:9092"


def test_a_time_is_where_to_begin() -> None:
    assert settings(start="1970-01-01T00:00:01.5Z").start == 1_500


def test_options_come_from_the_configuration_and_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text("# credentials\n\nsasl.password = a=b\n! more\nsecurity.protocol=SASL_SSL\n")
    made = settings(options={"fetch.min.bytes": 5}, options_file=file)
    assert made.options == {"fetch.min.bytes": 5, "sasl.password": "a=b", "security.protocol": "SASL_SSL"}
    # Only what belongs to it can be set.
    assert made.config["enable.auto.commit"] is False


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"servers": ""}, "servers = '': expected host:port"),
        ({"servers": []}, "servers = '': expected host:port"),
        ({"servers": "http://broker:9092"}, "servers = 'http://broker:9092': expected host:port"),
        ({"topics": []}, "topics = []: expected at least one"),
        ({"topics": "a b"}, "topics = 'a b': expected a name"),
        ({"topics": ["^("]}, "topics = '^(': not a regular expression"),
        ({"start": "yesterday"}, "start = 'yesterday': expected latest, earliest, or a time"),
        ({"start": "2026-11-18T09:00:00"}, "expected latest, earliest, or a time such as"),
        ({"start": "2026-11-18T09:00:00Z", "group": "g"}, "expected latest or earliest, because group is set"),
        ({"catch_up_seconds": -1.0}, "catch_up_seconds = -1.0: expected 0 or more"),
        ({"options": {"group.id": "x"}}, "options: group.id is set by the adapter"),
        ({"options_file": Path("/nonexistent")}, "options_file = '/nonexistent': No such file"),
    ],
)
def test_a_wrong_parameter_is_told_with_what_is_allowed(parameters: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        settings(**parameters)


def test_a_line_of_the_file_is_not_repeated_because_it_may_be_a_password(tmp_path: Path) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text("a=b\nhunter2\n")
    with pytest.raises(ValueError, match="line 2 is not NAME=VALUE") as raised:
        settings(options_file=file)
    assert "hunter2" not in str(raised.value)


def test_the_registry_is_checked_with_the_rest() -> None:
    with pytest.raises(ValueError, match="registry = 'registry': expected an address"):
        KafkaAdapter(servers="broker:9092", topics="quotes", value_format="avro", registry="registry")
