"""Documents of connections: what is wrong with one is named, and no secret is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.connections.document import ConnectionDocument, read_document, shown, to_json, with_secrets_of
from penstock.connections.source import SourceRules
from penstock.connections.target import TargetRules
from penstock.wire.ditto.envelope import parse_envelope
from penstock.wire.ditto.errors import DittoError

SOURCE = {"addresses": ["in"], "authorizationContext": ["a:b"]}
TARGET = {"address": "out", "topics": ["_/_/things/twin/events"], "authorizationContext": ["a:b"]}


def document(**more: Any) -> dict[str, Any]:
    return {"id": "c", "connectionType": "mqtt", "uri": "tcp://u:pass@host:1883", "sources": [SOURCE], **more}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"connectionType": "amqp-10"}, "expected one of mqtt, mqtt-5, kafka, http-push, nats"),
        ({"uri": "amqp://host"}, "expected one of tcp://, mqtt://, ssl://, mqtts://"),
        ({"uri": "tcp://host:x"}, "malformed"),
        ({"uri": "tcp://:1"}, "it has no host"),
        ({"connectionType": "kafka", "uri": "tcp://host"}, "it has no port"),
        ({"unknown": 1}, "unknown field `unknown`"),
        ({"sources": [{**SOURCE, "qos": 3}]}, "sources[0].qos = 3: expected 0, 1 or 2"),
        ({"sources": [{**SOURCE, "qos": "1"}]}, "Expected `int`, got `str`"),
        ({"sources": [{**SOURCE, "addresses": []}]}, "sources[0].addresses: expected at least one"),
        ({"sources": [{**SOURCE, "authorizationContext": []}]}, "expected at least one subject"),
        ({"sources": [{**SOURCE, "authorizationContext": ["{{ header:x }}"]}]}, "placeholders are not supported"),
        ({"sources": [{**SOURCE, "consumerCount": 2}]}, "consumerCount = 2: expected 1"),
        ({"sources": [{**SOURCE, "declaredAcks": ["c:x"]}]}, "unknown field `declaredAcks`"),
        ({"sources": []}, "at least one entry in sources or targets"),
        ({"connectionType": "http-push", "uri": "http://h"}, "has targets only"),
        ({"clientCount": 2}, "clientCount = 2: expected 1"),
        ({"id": "a/b"}, "is not valid: expected at most 128 letters"),
        ({"connectionStatus": "half"}, "expected open or closed"),
        ({"ca": "x"}, "need an encrypted URI"),
        ({"credentials": {"type": "hmac"}}, "expected plain, client-cert or bearer"),
    ],
)
def test_what_is_wrong_is_named_with_what_is_allowed(change: dict[str, Any], words: str) -> None:
    with pytest.raises(DittoError) as raised:
        read_document(document(**change))
    assert words in raised.value.message
    assert "pass@" not in raised.value.message


def rules(given: ConnectionDocument) -> None:
    for number in range(len(given.sources)):
        SourceRules(given, number)
    for number in range(len(given.targets)):
        TargetRules(given, number)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sources": [{**SOURCE, "payloadMapping": ["JavaScript"]}]}, "a Template does without code"),
        ({"sources": [{**SOURCE, "payloadMapping": ["mine"]}]}, "expected Ditto, Raw, Template"),
        (
            {
                "sources": [{**SOURCE, "payloadMapping": ["m"]}],
                "mappingDefinitions": {"m": {"mappingEngine": "Template"}},
            },
            "needs incoming, outgoing, or both",
        ),
        (
            {
                "sources": [{**SOURCE, "payloadMapping": ["m"]}],
                "mappingDefinitions": {
                    "m": {"mappingEngine": "Template", "options": {"incoming": {"topic": "{nothing}"}}}
                },
            },
            "options.incoming.topic: {nothing}: expected one of topic, key, value",
        ),
        ({"sources": [{**SOURCE, "headerMapping": {"a": "{{ b }}"}}]}, "sources[0].headerMapping.a"),
        ({"sources": [{**SOURCE, "enforcement": {"input": "{{ thing:id }}", "filters": ["x"]}}]}, "enforcement.input"),
        ({"sources": [{**SOURCE, "enforcement": {"input": "x", "filters": []}}]}, "expected at least one"),
        ({"sources": [{**SOURCE, "replyTarget": {"address": "{{ x }}"}}]}, "replyTarget.address"),
        ({"targets": [{**TARGET, "topics": ["_/_/things/twin/changes"]}]}, "is not supported; expected _/_/things"),
        ({"targets": [{**TARGET, "topics": ["_/_/things/twin/events?x=1"]}]}, "'x' is not a parameter"),
        ({"targets": [{**TARGET, "topics": ["_/_/things/twin/events?filter=eq("]}]}, "targets[0].topics"),
        ({"targets": [{**TARGET, "issuedAcknowledgementLabel": "other:x"}]}, "expected it to begin with 'c:'"),
    ],
)
def test_rules_that_cannot_work_are_refused_before_anything_is_stored(change: dict[str, Any], words: str) -> None:
    given = read_document(document(**change))
    with pytest.raises(DittoError) as raised:
        rules(given)
    assert words in raised.value.message


def test_secrets_are_not_shown_and_come_back_for_the_same_place_only() -> None:
    config = {"sasl.password": "hush", "groupId": "g"}
    credentials = {"type": "plain", "username": "u", "password": "secret"}
    stored = read_document(document(specificConfig=config, credentials=credentials))
    seen = shown(stored)
    assert not any(word in json.dumps(seen) for word in ("pass@", "hush", "secret"))
    assert (seen["uri"], seen["specificConfig"]["groupId"]) == ("tcp://u:*****@host:1883", "g")
    assert with_secrets_of(read_document(seen), stored) == stored
    # Whoever may change a connection cannot have its secrets sent to a place of their own.
    moved = read_document({**seen, "uri": "tcp://u:*****@elsewhere:1883"})
    assert "secret" not in json.dumps(to_json(with_secrets_of(moved, stored)))
    assert "hush" not in json.dumps(to_json(with_secrets_of(moved, stored)))
    assert "pass@" not in json.dumps(to_json(with_secrets_of(moved, stored)))
    # Options can name a place as well.
    options = {**seen["specificConfig"], "bootstrapServers": "elsewhere:9092"}
    moved = read_document({**seen, "specificConfig": options})
    assert with_secrets_of(moved, stored) == moved


def test_a_document_is_stored_as_it_was_given() -> None:
    given = document(targets=[TARGET], name="n", tags=["t"])
    assert read_document(to_json(read_document(given))) == read_document(given)


def test_an_event_whose_address_is_filtered_out_is_not_published() -> None:
    address = "out/{{ topic:action | fn:filter('ne','deleted') }}"
    rules = TargetRules(read_document(document(targets=[{**TARGET, "address": address}])), 0)

    def published(action: str) -> list[str]:
        topic = f"ns/t/things/twin/events/{action}"
        envelope = parse_envelope(json.dumps({"topic": topic, "path": "/", "headers": {}}).encode())
        return [each.address for each in rules.messages(envelope, 0)]

    assert published("modified") == ["out/modified"]
    assert published("deleted") == []
