"""What client and broker owe one another: acknowledgements in order, each message of quality 2 once."""

from __future__ import annotations

import pytest

from penstock.wire.mqtt.errors import MqttError
from penstock.wire.mqtt.packets import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    MqttAnswer,
    MqttMessage,
    MqttReader,
    acknowledge,
)
from penstock.wire.mqtt.session import MqttSession


def taken(session: MqttSession) -> bytes:
    out = bytes(session.out)
    session.out.clear()
    return out


def message(number: int, qos: int) -> MqttMessage:
    return MqttMessage("t", b"", qos, packet_id=number)


def test_acknowledgements_have_the_order_of_the_messages() -> None:
    session = MqttSession(is_new=True)
    first, second, third = (message(number, 1) for number in (1, 2, 3))
    assert all(session.received(each) for each in (first, second, third))
    session.settle(third)
    session.settle(second)
    assert (taken(session), session.unsettled) == (b"", 3)
    session.settle(first)
    assert taken(session) == b"".join(acknowledge(PUBACK, number) for number in (1, 2, 3))
    assert session.unsettled == 0


def test_a_message_of_quality_2_that_comes_twice_is_taken_once() -> None:
    session = MqttSession(is_new=True)
    first = message(5, 2)
    assert session.received(first)
    session.settle(first)
    assert taken(session) == acknowledge(PUBREC, 5)
    assert not session.received(message(5, 2))
    assert taken(session) == acknowledge(PUBREC, 5)
    assert session.answered(MqttAnswer(PUBREL, 5)) is None
    assert taken(session) == acknowledge(PUBCOMP, 5)
    # The identifier is free again: this is another message.
    assert session.received(message(5, 2))


def test_messages_without_quality_of_service_are_never_acknowledged() -> None:
    session = MqttSession(is_new=False)
    one = message(0, 0)
    assert session.received(one)
    session.settle(one)
    assert (taken(session), session.unsettled) == (b"", 0)


def test_a_message_is_sent_until_the_broker_has_it() -> None:
    session = MqttSession(is_new=False)
    sent = message(0, 1)
    session.give(sent)
    (read,) = MqttReader(is_new=False).feed(taken(session))
    assert isinstance(read, MqttMessage)
    assert read.packet_id == sent.packet_id == 1
    assert session.answered(MqttAnswer(PUBACK, 1)) == (1, 0)
    assert len(session._sent) == 0


def test_quality_2_has_two_steps_and_a_refusal_ends_it() -> None:
    session = MqttSession(is_new=True)
    session.give(message(0, 2))
    taken(session)
    assert session.answered(MqttAnswer(PUBREC, 1)) is None
    assert taken(session) == acknowledge(PUBREL, 1)
    assert session.answered(MqttAnswer(PUBCOMP, 1)) == (1, 0)
    session.give(message(0, 2))
    assert session.answered(MqttAnswer(PUBREC, 2, (0x97,))) == (2, 0x97)


def test_identifiers_in_use_are_not_given_again() -> None:
    session = MqttSession(is_new=False)
    session.give(message(0, 1))
    session._last_id = 65_535
    assert session.next_id() == 2


def test_there_are_as_many_identifiers_as_two_bytes_have_and_none_is_0() -> None:
    session = MqttSession(is_new=False)
    assert {session.next_id() for _ in range(65_535)} == set(range(1, 65_536))
    for _ in range(65_535):
        session.give(message(0, 1))
    assert len(session._sent) == 65_535
    with pytest.raises(MqttError, match="all packet identifiers are in use"):
        session.give(message(0, 1))
    session.answered(MqttAnswer(PUBACK, 7))
    assert session.next_id() == 7


def test_an_answer_to_what_was_sent_before_this_connection_means_nothing_but_is_brought_to_its_end() -> None:
    session = MqttSession(is_new=True)
    assert session.answered(MqttAnswer(PUBACK, 7)) is None
    assert taken(session) == b""
    assert session.answered(MqttAnswer(PUBREC, 7)) is None
    assert taken(session) == acknowledge(PUBREL, 7)


def test_codes_from_128_on_refuse_a_message() -> None:
    session = MqttSession(is_new=True)
    for code, end in ((0x7F, None), (0x80, (2, 0x80))):
        session.give(message(0, 2))
        assert session.answered(MqttAnswer(PUBREC, len(session._sent), (code,))) == end


def test_what_was_under_way_is_forgotten_with_the_connection() -> None:
    session = MqttSession(is_new=True)
    session.received(message(9, 1))
    waits = message(8, 1)
    session.received(waits)
    session.settle(waits)
    settled = message(5, 2)
    session.give(message(0, 1))
    assert session.lost() == [1]
    assert (session.unsettled, len(session._sent), taken(session)) == (0, 0, b"")
    session.received(settled)
    session.settle(settled)
    session.lost()
    assert taken(session) == b""
    # The identifier may be that of another message now.
    assert session.received(message(5, 2))
