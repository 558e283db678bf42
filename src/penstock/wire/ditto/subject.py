"""A subject of a policy as clients write it: its type, when it expires, and who is told before it is deleted.

    {"type": "…", "expiry": "2099-12-31T23:59:59Z", "announcement": {"beforeExpiry": "1h", "whenDeleted": true}}

What becomes of it in time is in `twins.expiry`. Upstream documentation: "Policies", expiring policy subjects.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.wire.ditto.acks import labels_in
from penstock.wire.ditto.document import Json, expect, text_of
from penstock.wire.ditto.errors import UNKNOWN_PATH
from penstock.wire.ditto.instant import parse_instant
from penstock.wire.ditto.policy_errors import SUBJECT_ANNOUNCEMENT_INVALID, SUBJECT_EXPIRY_INVALID

_DURATION = re.compile(r"([0-9]{1,9})(ms|s|m|h)", re.ASCII)
_MICROS: Final = {"ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
_FIELDS: Final = ("beforeExpiry", "whenDeleted", "requestedAcks", "randomizationInterval")
_ALLOWED: Final = "It must be a positive integer followed by 'ms', 's', 'm' or 'h', such as '5m'."


def check_subject(subject: dict[str, Json], place: str) -> None:
    """Raises `policies:subjectexpiry.invalid`, `policies:subjectannouncement.invalid`, or a wrong type."""
    if subject.get("type") is not None:
        expect(subject["type"], str, f"{place}/type")
    expiry = subject.get("expiry")
    if expiry is not None and (type(expiry) is not str or parse_instant(expiry) is None):
        raise SUBJECT_EXPIRY_INVALID.of(expiry if type(expiry) is str else text_of(expiry))
    announcement = subject.get("announcement")
    if announcement is not None:
        _check_announcement(expect(announcement, dict, f"{place}/announcement"), f"{place}/announcement")


def _check_announcement(value: dict[str, Json], place: str) -> None:
    for name, inside in value.items():
        if name not in _FIELDS:
            raise UNKNOWN_PATH.of(f"{place}/{name}", description=f"An announcement has {', '.join(_FIELDS)}.")
        if name in ("beforeExpiry", "randomizationInterval"):
            if type(inside) is not str or not micros_of(inside):
                told = inside if type(inside) is str else text_of(inside)
                raise SUBJECT_ANNOUNCEMENT_INVALID.of(name, told, description=_ALLOWED)
        elif name == "whenDeleted":
            expect(inside, bool, f"{place}/{name}")
        else:
            _check_acks(expect(inside, dict, f"{place}/{name}"), f"{place}/{name}")


def _check_acks(value: dict[str, Json], place: str) -> None:
    for name in value:
        if name not in ("labels", "timeout"):
            raise UNKNOWN_PATH.of(f"{place}/{name}", description="It has labels and a timeout.")
    labels_in({"labels": expect(value.get("labels", []), list, f"{place}/labels")}, "labels")
    timeout = value.get("timeout", "10s")
    if type(timeout) is not str or not 0 < micros_of(timeout) <= _MICROS["m"]:
        told = "It must be at most one minute, such as '10s'."
        raise SUBJECT_ANNOUNCEMENT_INVALID.of("timeout", text_of(timeout), description=told)


def micros_of(text: str) -> int:
    """Microseconds of a duration such as `5m`; 0 for what is not one."""
    found = _DURATION.fullmatch(text)
    return 0 if found is None else int(found[1]) * _MICROS[found[2]]
