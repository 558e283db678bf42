"""Which source a message of an MQTT broker belongs to."""

from __future__ import annotations

import pytest

from penstock.brokers.mqtt_bridge import matches


@pytest.mark.parametrize(
    ("wanted", "topic", "met"),
    [
        ("a/b", "a/b", True),
        ("a/+", "a/b", True),
        ("a/+", "a/b/c", False),
        ("a/#", "a", True),
        ("a/#", "a/b/c", True),
        ("#", "$SYS/x", False),
        ("+/x", "$SYS/x", False),
        ("$share/g/a/+", "a/b", True),
        ("a", "a/b", False),
    ],
)
def test_topics_meet_filters_as_the_standard_says(wanted: str, topic: str, met: bool) -> None:
    assert matches(wanted.split("/"), topic.split("/")) is met
