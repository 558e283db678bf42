from __future__ import annotations

import re

import pytest

from penstock.wire.ditto import errors, policy_errors, thing_errors
from penstock.wire.ditto.errors import MAX_ECHO, DittoError, ErrorEntry

ENTRIES = {
    name: value
    for module in (errors, thing_errors, policy_errors)
    for name, value in vars(module).items()
    if isinstance(value, ErrorEntry)
}
ENTRIES.update({f"{part} not found": entry for part, entry in thing_errors.PART_NOT_FOUND.items()})
ENTRIES.update({f"{part} not modifiable": entry for part, entry in thing_errors.PART_NOT_MODIFIABLE.items()})

# Status and code as the notes have them; the status is what clients look at.
STATUSES = {
    "json.invalid": 400,
    "json.field.missing": 400,
    "protocoladapter:unknown.topicpath": 400,
    "rql.expression.invalid": 400,
    "signal.unsupported": 400,
    "streaming.subscription.not.found": 404,
    "streaming.subscription.protocol.error": 400,
    "streaming.subscription.timeout": 408,
    "internalerror": 500,
    "too.many.requests": 429,
    "things:thing.notfound": 404,
    "things:thing.conflict": 409,
    "things:thing.history.notfound": 404,
    "things:thing.toolarge": 413,
    "things:precondition.failed": 412,
    "policies:policy.notfound": 404,
    "policies:policy.history.notfound": 404,
    "policies:policy.toolarge": 413,
    "connectivity:connection.notfound": 404,
    "connectivity:connection.history.notfound": 404,
    "gateway:authentication.failed": 401,
}


@pytest.mark.parametrize(("code", "status"), STATUSES.items())
def test_a_code_has_the_status_of_the_notes(code: str, status: int) -> None:
    assert {entry.status for entry in ENTRIES.values() if entry.code == code} == {status}


@pytest.mark.parametrize("name", ENTRIES)
def test_every_error_can_be_made_and_leaves_no_gap_in_its_text(name: str) -> None:
    error = ENTRIES[name].of("{first}", "second", "third")
    assert not re.search(r"\{[0-9]\}", error.message)
    assert 300 <= error.status < 600
    assert error.as_value()["error"] == error.code


def test_an_error_without_description_or_link_has_no_such_members() -> None:
    assert errors.SUBSCRIPTION_NOT_FOUND.of("7").as_value() == {
        "status": 404,
        "error": "streaming.subscription.not.found",
        "message": "No subscription with ID '7' exists.",
    }
    assert thing_errors.THING_ID_INVALID.of("x").as_value() == {
        "status": 400,
        "error": "things:id.invalid",
        "message": "Thing ID 'x' is not valid!",
        "description": "It must conform to the namespaced entity ID notation (see Ditto documentation)",
        "href": "https://www.eclipse.dev/ditto/basic-namespaces-and-names.html#namespaced-id",
    }


def test_the_history_of_a_thing_that_is_missing_is_told_as_in_the_notes() -> None:
    assert thing_errors.THING_REVISION_NOT_FOUND.of("x", 785).message == (
        "The Thing with ID 'x' at revision '785' could not be found or requester had insufficient permissions to"
        " access it."
    )


def test_what_a_client_sent_is_cut_short() -> None:
    message = errors.UNKNOWN_TOPIC.of("x" * 10_000).message
    assert len(message) < MAX_ECHO + 60
    assert "…" in message
    assert len(errors.wrong_type("x" * 10_000, "/p", "Long").message) < 200


def test_errors_that_say_the_same_are_equal() -> None:
    assert thing_errors.THING_CONFLICT.of("a") == thing_errors.THING_CONFLICT.of("a")
    assert hash(thing_errors.THING_CONFLICT.of("a")) == hash(thing_errors.THING_CONFLICT.of("a"))
    assert thing_errors.THING_CONFLICT.of("a") != thing_errors.THING_CONFLICT.of("b")
    assert thing_errors.THING_CONFLICT.of("a") != DittoError(409, "x", "y")


def test_an_unsupported_body_is_told_what_is_supported() -> None:
    error = errors.media_type_unsupported("text/plain", "application/merge-patch+json")
    assert (error.status, error.description) == (415, "Allowed Content-Types are: application/merge-patch+json")


def test_what_is_too_large_is_told_in_kilobytes() -> None:
    error = errors.too_large(thing_errors.THING_TOO_LARGE, 100 * 1024 + 512, 100 * 1024)
    assert (error.status, error.code) == (413, "things:thing.toolarge")
    assert error.message == "The size of '100.5' kB exceeds the maximal allowed Thing size of '100' kB."
    error = errors.too_large(policy_errors.POLICY_TOO_LARGE, 100 * 1024 + 1, 100 * 1024)
    assert (error.status, error.code) == (413, "policies:policy.toolarge")
