from __future__ import annotations

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from penstock.wire.mqtt.errors import REASONS, MqttRefused

# From this one on a reason says no.
FIRST_REFUSAL = 0x80


def test_reasons_are_those_that_another_client_knows() -> None:
    theirs = {
        code: plain(name)
        for code, names in ReasonCode(PacketTypes.CONNACK).names.items()
        for name in names
        if code >= FIRST_REFUSAL
    }
    assert {code: plain(name) for code, name in REASONS.items()} == theirs


def plain(name: str) -> str:
    """The standard has the plural where the other client has not."""
    return name.lower().replace("subscriptions", "subscription")


def test_a_refusal_names_the_reason_and_its_number_even_if_nobody_knows_it() -> None:
    assert str(MqttRefused("SUBSCRIBE", 0x87)) == "SUBSCRIBE: not authorized (135)"
    assert str(MqttRefused("SUBSCRIBE", 0xFE)) == "SUBSCRIBE: reason (254)"
