"""What Ditto clients are told of each reason; the texts of the errors themselves are in `wire.ditto.errors`."""

from __future__ import annotations

from typing import get_args

import pytest

from penstock.doors.ditto.answers import DittoAnswer, answer_of, error_of
from penstock.twins import reasons
from penstock.twins.decision import Effect, Migrated, Result
from penstock.twins.names import policy_key, thing_key
from penstock.twins.reasons import NotFound, NotModifiable, TwinReason, TwinRefusal
from penstock.wire.ditto import errors
from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.kinds import EntityGroup
from penstock.wire.ditto.resource import Part, Resource, parse_resource


def said(reason: TwinReason) -> DittoError:
    return error_of(TwinRefusal(reason))


THING, POLICY = thing_key("ns:t"), policy_key("ns:p")
PROBLEM = errors.RQL_INVALID.of("x")

# Every reason, with all that it can be told as.
TABLE: list[tuple[TwinReason, int, str]] = [
    (NotFound("ns:t", Resource(Part.THING, ())), 404, "things:thing.notfound"),
    (NotModifiable("ns:t", Resource(Part.THING, ())), 403, "things:thing.notmodifiable"),
    (reasons.NotDeletable("ns:t"), 403, "things:thing.notdeletable"),
    (reasons.AlreadyThere(THING), 409, "things:thing.conflict"),
    (reasons.AlreadyThere(POLICY), 409, "policies:policy.conflict"),
    (reasons.NeverWas(THING, 7, None), 404, "things:thing.history.notfound"),
    (reasons.NeverWas(POLICY, None, 7), 404, "policies:policy.history.notfound"),
    (reasons.NamespaceReserved("ns:t"), 400, "things:thing.notcreatable"),
    (reasons.PolicyNotUsable("ns:t", "ns:p"), 400, "things:thing.notcreatable"),
    (reasons.PolicyExists("ns:t", "ns:p"), 400, "things:thing.notcreatable"),
    (reasons.InlinePolicyNotAllowed("ns:t"), 400, "things:policy.id.notallowed"),
    (reasons.NobodyCouldWrite("ns:p", None), 403, "policies:policy.modificationinvalid"),
    (reasons.NobodyCouldWrite("ns:p", "L"), 403, "policies:entry.modificationinvalid"),
    (reasons.PartStays("/entries"), 400, "protocoladapter:unknown.path"),
    (reasons.SubjectExpired("2020-01-01T00:00:00Z"), 400, "policies:subjectexpiry.invalid"),
    (reasons.ImportOfItself("ns:p"), 400, "policies:import.invalid"),
    (reasons.ImportLoop("ns:p", ("ns:p", "ns:q", "ns:p")), 400, "policies:import.invalid"),
    (reasons.TooManyImports("ns:p", 10), 400, "policies:imports.toolarge"),
    (reasons.ReferenceBroken("E", '{"entry":"F"}'), 400, "policies:entry.invalid"),
    (reasons.EntryReferenced("ns:p", "E", "F"), 409, "policies:entry.referenceconflict"),
    (reasons.ImportReferenced("ns:p", "ns:q", "F"), 409, "policies:import.referenceconflict"),
    (reasons.NotApplicable("activateTokenIntegration"), 404, "policies:action.failed"),
    (reasons.DocumentTooLarge(False, 200_000, 100_000), 413, "things:thing.toolarge"),
    (reasons.DocumentTooLarge(True, 200_000, 100_000), 413, "policies:policy.toolarge"),
    (reasons.ModelsNeeded(("https://m/a",)), 421, "wot:tm.notfound"),
    (reasons.ModelNotAccessible("https://m/a", "Gone."), 421, "wot:tm.notfound"),
    (reasons.ModelInvalid("https://m/a", "Not JSON."), 400, "wot:tm.invalid"),
    (reasons.ModelInvalid("https://m/a"), 400, "wot:tm.invalid"),
    (reasons.NotAsModelled("Wrong.", (("/attributes/a", ("wrong",)),)), 400, "wot:payload.validation.error"),
    (reasons.PlaceholderUnknown("A", True), 400, "wot:tm.placeholder.unresolved"),
    (reasons.PlaceholderUnknown("A", False), 400, "placeholder:unresolved"),
    (reasons.DocumentTooDeep(128), 400, "json.invalid"),
    (reasons.ConditionUnreadable(PROBLEM), 400, "rql.expression.invalid"),
    (reasons.TagMismatch(False, False, "*", None), 412, "things:precondition.failed"),
    (reasons.TagMismatch(True, True, "*", "rev:1"), 412, "policies:precondition.failed"),
    (reasons.TagCurrent(False, "*", "rev:1"), 304, "things:precondition.notmodified"),
    (reasons.TagCurrent(True, "*", "rev:1"), 304, "policies:precondition.notmodified"),
    (reasons.NothingNew(False), 412, "things:precondition.failed"),
    (reasons.NothingNew(True), 412, "policies:precondition.failed"),
    (reasons.ConditionFailed(), 412, "things:condition.failed"),
    (reasons.ConditionHidden(), 412, "things:condition.failed"),
    (reasons.NotDurable(THING), 503, "things:thing.unavailable"),
    (reasons.NotDurable(POLICY), 503, "policies:policy.unavailable"),
]


@pytest.mark.parametrize(("reason", "status", "code"), TABLE)
def test_every_reason_has_a_status_and_a_code(reason: TwinReason, status: int, code: str) -> None:
    error = said(reason)
    assert (error.status, error.code) == (status, code)
    # The same is worth trying again exactly where the status says so.
    assert reason.retry is (status in (421, 503))


def test_the_table_above_has_every_reason() -> None:
    assert {type(reason) for reason, _, _ in TABLE} == set(get_args(TwinReason))


@pytest.mark.parametrize(
    ("path", "missing", "unwritable", "words"),
    [
        ("/", "things:thing.notfound", "things:thing.notmodifiable", ["a:b"]),
        ("/policyId", "things:thing.notfound", "things:thing.notmodifiable", ["a:b"]),
        ("/definition", "things:definition.notfound", "things:definition.notmodifiable", ["a:b"]),
        ("/attributes", "things:attributes.notfound", "things:attributes.notmodifiable", ["a:b"]),
        ("/attributes/x/y", "things:attribute.notfound", "things:attribute.notmodifiable", ["a:b", "/x/y"]),
        ("/features", "things:features.notfound", "things:features.notmodifiable", ["a:b"]),
        ("/features/f", "things:feature.notfound", "things:feature.notmodifiable", ["a:b", "'f'"]),
        (
            "/features/f/definition",
            "things:feature.definition.notfound",
            "things:feature.definition.notmodifiable",
            ["a:b", "'f'"],
        ),
        (
            "/features/f/properties",
            "things:feature.properties.notfound",
            "things:feature.properties.notmodifiable",
            ["a:b", "'f'"],
        ),
        (
            "/features/f/properties/p",
            "things:feature.property.notfound",
            "things:feature.property.notmodifiable",
            ["a:b", "'f'", "'/p'"],
        ),
        (
            "/features/f/desiredProperties",
            "things:feature.desiredProperties.notfound",
            "things:feature.desiredProperties.notmodifiable",
            ["a:b", "'f'"],
        ),
        (
            "/features/f/desiredProperties/p",
            "things:feature.desiredProperty.notfound",
            "things:feature.desiredProperty.notmodifiable",
            ["a:b", "'f'", "'/p'"],
        ),
    ],
)
def test_each_part_has_errors_of_its_own(path: str, missing: str, unwritable: str, words: list[str]) -> None:
    resource = parse_resource(EntityGroup.THINGS, path)
    not_found, not_modifiable = said(NotFound("a:b", resource)), said(NotModifiable("a:b", resource))
    assert (not_found.status, not_found.code) == (404, missing)
    assert (not_modifiable.status, not_modifiable.code) == (403, unwritable)
    for word in words:
        assert word in not_found.message
        assert word in not_modifiable.message


@pytest.mark.parametrize(
    ("path", "code", "words"),
    [
        ("/", "policies:policy.notfound", ["'a:b'"]),
        ("/entries", "policies:policy.notfound", ["'a:b'"]),
        ("/entries/E", "policies:entry.notfound", ["'E'", "'a:b'"]),
        ("/entries/E/subjects", "policies:entry.notfound", ["'E'", "'a:b'"]),
        ("/entries/E/resources", "policies:entry.notfound", ["'E'", "'a:b'"]),
        ("/entries/E/subjects/nginx:x", "policies:subject.notfound", ["'nginx:x'", "'E'", "'a:b'"]),
        ("/entries/E/resources/thing:/a/b", "policies:resource.notfound", ["'thing:/a/b'", "'E'", "'a:b'"]),
    ],
)
def test_each_part_of_a_policy_is_missing_by_its_own_name(path: str, code: str, words: list[str]) -> None:
    resource = parse_resource(EntityGroup.POLICIES, path)
    assert said(NotFound("a:b", resource)).code == code
    assert all(word in said(NotFound("a:b", resource)).message for word in words)
    assert said(NotModifiable("a:b", resource)).code == "policies:policy.notmodifiable"


@pytest.mark.parametrize(("tried", "status", "word"), [(False, 200, "APPLIED"), (True, 202, "DRY_RUN")])
def test_a_migration_is_told_with_its_patch_and_whether_it_was_only_tried(tried: bool, status: int, word: str) -> None:
    result = Result(Migrated("ns:t", {"definition": "https://m/a"}, tried), tag=None if tried else "T")
    told = {"thingId": "ns:t", "patch": {"definition": "https://m/a"}, "mergeStatus": word}
    assert answer_of(result) == DittoAnswer(status, told, None if tried else '"T"')


@pytest.mark.parametrize(
    ("text", "told"), [("Not JSON.", "Not JSON."), (None, "ditto.wot_models in the configuration")]
)
def test_what_is_wrong_with_a_model_is_told_and_where_to_name_one_that_is_unknown(text: str | None, told: str) -> None:
    assert told in (said(reasons.ModelInvalid("https://m/a", text)).description or "")


def test_tags_are_between_quotes() -> None:
    assert answer_of(Result(Effect.CHANGED, tag="rev:1")).etag == '"rev:1"'
    assert answer_of(Result(Effect.CHANGED)).etag is None
    assert "actual entity-tag: '\"rev:1\"'." in said(reasons.TagMismatch(False, False, "*", "rev:1")).message
    assert "actual entity-tag: 'null'." in said(reasons.TagMismatch(False, False, "*", None)).message
    assert "not to match actual: '\"rev:1\"'." in said(reasons.TagCurrent(True, "*", "rev:1")).message
