from __future__ import annotations

from typing import Any

import pytest

from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.subject import check_subject

LABELS = ["my:label"]


@pytest.mark.parametrize(
    "subject",
    [
        {},
        {"type": "generated", "expiry": "2099-12-31T23:59:59Z"},
        {"announcement": {"beforeExpiry": "1h", "whenDeleted": True, "randomizationInterval": "5m"}},
        {"announcement": {"requestedAcks": {}}},
        {"announcement": {"requestedAcks": {"labels": LABELS, "timeout": "60s"}}},
    ],
)
def test_subjects_that_are_understood(subject: dict[str, Any]) -> None:
    check_subject(subject, "/subjects/a:b")


@pytest.mark.parametrize(
    ("announcement", "code", "told"),
    [
        ({"beforeExpiry": "soon"}, "policies:subjectannouncement.invalid", "'beforeExpiry' of an announcement, 'soon'"),
        ({"beforeExpiry": "0s"}, "policies:subjectannouncement.invalid", "such as '5m'"),
        ({"randomizationInterval": 5}, "policies:subjectannouncement.invalid", "'randomizationInterval'"),
        ({"later": True}, "protocoladapter:unknown.path", "beforeExpiry, whenDeleted"),
        ({"requestedAcks": {"label": LABELS}}, "protocoladapter:unknown.path", "It has labels and a timeout"),
        ({"requestedAcks": {"labels": ["a b"]}}, "acknowledgement:label.invalid", "<a b>"),
        ({"requestedAcks": {"timeout": "61s"}}, "policies:subjectannouncement.invalid", "at most one minute"),
        ({"requestedAcks": {"timeout": "0s"}}, "policies:subjectannouncement.invalid", "at most one minute"),
        ({"requestedAcks": {"timeout": 10}}, "policies:subjectannouncement.invalid", "at most one minute"),
    ],
)
def test_announcements_that_are_not_understood(announcement: dict[str, Any], code: str, told: str) -> None:
    with pytest.raises(DittoError) as raised:
        check_subject({"announcement": announcement}, "/subjects/a:b")
    assert raised.value.code == code
    assert told in f"{raised.value} {raised.value.description}"


@pytest.mark.parametrize("expiry", ["tomorrow", 5, "2023-13-01T00:00:00Z"])
def test_an_expiry_that_is_no_time(expiry: Any) -> None:
    with pytest.raises(DittoError) as raised:
        check_subject({"expiry": expiry}, "/subjects/a:b")
    assert raised.value.code == "policies:subjectexpiry.invalid"
