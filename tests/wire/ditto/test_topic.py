from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.ditto.errors import DittoError
from penstock.wire.ditto.kinds import Action, EntityGroup
from penstock.wire.ditto.topic import (
    UNKNOWN,
    Criterion,
    StreamingAction,
    Topic,
    TopicChannel,
    parse_topic,
    policy_topic,
    thing_topic,
)

TOPICS = [
    (
        "org.eclipse.ditto/thing-2/things/twin/streaming/subscribeForPersistedEvents",
        Topic(
            "org.eclipse.ditto",
            "thing-2",
            EntityGroup.THINGS,
            TopicChannel.TWIN,
            Criterion.STREAMING,
            "subscribeForPersistedEvents",
        ),
    ),
    ("a/b/things/twin/streaming/next", thing_topic("a", "b", Criterion.STREAMING, StreamingAction.NEXT)),
    ("a/b/policies/streaming/request", policy_topic("a", "b", Criterion.STREAMING, StreamingAction.REQUEST)),
    (
        "_/conn/connections/streaming/cancel",
        Topic("_", "conn", EntityGroup.CONNECTIONS, None, Criterion.STREAMING, "cancel"),
    ),
    (
        "a/b/things/live/commands/modify",
        Topic("a", "b", EntityGroup.THINGS, TopicChannel.LIVE, Criterion.COMMANDS, "modify"),
    ),
    ("a/b/policies/events/created", policy_topic("a", "b", Criterion.EVENTS, Action.CREATED)),
    ("a/b/things/twin/errors", thing_topic("a", "b", Criterion.ERRORS)),
    ("//things/twin/commands/retrieve", thing_topic("", "", Criterion.COMMANDS, "retrieve")),
    (
        "a/b/things/live/messages/x/y",
        Topic("a", "b", EntityGroup.THINGS, TopicChannel.LIVE, Criterion.MESSAGES, None, "x/y"),
    ),
    ("a/b/things/twin/search/subscribe", thing_topic("a", "b", Criterion.SEARCH, "subscribe")),
    ("a/b/things/twin/acks", thing_topic("a", "b", Criterion.ACKS)),
    ("unknown/unknown/things/twin/errors", UNKNOWN),
]


@pytest.mark.parametrize(("text", "topic"), TOPICS)
def test_a_topic_is_read_and_written(text: str, topic: Topic) -> None:
    assert parse_topic(text) == topic
    assert str(topic) == text


def test_what_follows_an_action_is_ignored() -> None:
    assert str(parse_topic("a/b/things/twin/streaming/request/more/of/it")) == "a/b/things/twin/streaming/request"


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("", "The topic path has no namespace part."),
        ("a", "The topic path has no entity name part."),
        ("a/b", "The topic path has no group part."),
        ("a/b/things", "The topic path has no channel part."),
        ("a/b/things/twin", "The topic path has no criterion part."),
        ("a/b/policies", "The topic path has no criterion part."),
        ("a/b/things/twin/commands", "The topic path has no action part."),
        ("a/b/things/twin/streaming", "The topic path has no streaming action part."),
        ("a/b/foo/twin/commands/modify", "Group name <foo> is unknown."),
        ("a/b/things/foo/commands/modify", "Channel name <foo> is unknown."),
        ("a/b/things/streaming/request", "Channel name <streaming> is unknown."),
        ("a/b/policies/twin/streaming/request", "Criterion name <twin> is unknown."),
        ("a/b/things/twin/foo/modify", "Criterion name <foo> is unknown."),
        ("a/b/things/twin/commands/foo", "Action name <foo> is unknown."),
        ("a/b/things/twin/streaming/foo", "Streaming action name <foo> is unknown."),
        ("a/b/things/twin/search/foo", "Search action name <foo> is unknown."),
    ],
)
def test_a_bad_topic_is_error_400_that_names_the_part_at_fault(text: str, description: str) -> None:
    with pytest.raises(DittoError) as caught:
        parse_topic(text)
    assert caught.value.as_value() == {
        "status": 400,
        "error": "protocoladapter:unknown.topicpath",
        "message": f"The topic path '{text}' is not supported.",
        "description": description,
    }


@given(
    st.text(max_size=40)
    | st.lists(st.sampled_from(["a", "", "things", "twin", "policies", "streaming", "next"])).map("/".join)
)
def test_any_text_is_a_topic_or_that_error(text: str) -> None:
    code = None
    try:
        assert parse_topic(str(parse_topic(text))) == parse_topic(text)
    except DittoError as error:
        code = error.code
    assert code in (None, "protocoladapter:unknown.topicpath")


def test_answers_go_to_the_twin_and_errors_to_the_channel_of_the_message() -> None:
    live = parse_topic("a/b/things/live/commands/modify")
    assert str(live.errors()) == "a/b/things/live/errors"
    assert str(live.event(Action.MODIFIED)) == "a/b/things/twin/events/modified"
    assert str(live.streaming(StreamingAction.CREATED)) == "a/b/things/twin/streaming/created"
    policy = parse_topic("a/b/policies/commands/modify")
    assert str(policy.errors()) == "a/b/policies/errors"
    assert str(policy.streaming(StreamingAction.NEXT)) == "a/b/policies/streaming/next"


def test_an_entity_is_named_as_in_errors() -> None:
    assert parse_topic("a/b/things/twin/errors").entity == "a:b"
    assert parse_topic("_/conn/connections/errors").entity == "conn"


def test_a_topic_may_name_no_entity_at_all() -> None:
    assert parse_topic("//things/twin/commands/retrieve").is_about_several
    assert parse_topic("_/_/things/twin/commands/retrieve").is_about_several
    assert not parse_topic("/b/things/twin/commands/retrieve").is_about_several
