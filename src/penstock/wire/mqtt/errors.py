"""What a broker may do wrong: MqttError. The text says what was expected."""

from __future__ import annotations


class MqttError(Exception):
    """The broker has sent what the standard forbids, or has refused; the connection is of no use any more."""


class MqttRefused(MqttError):
    """The broker has answered with a code that says no; `code` is its number."""

    def __init__(self, what: str, code: int) -> None:
        super().__init__(f"{what}: {REASONS.get(code, 'reason')} ({code})")
        self.code = code


# Of version 5; those of 3.1.1 are translated to these numbers.
REASONS = {
    0x80: "unspecified error",
    0x81: "malformed packet",
    0x82: "protocol error",
    0x83: "implementation specific error",
    0x84: "unsupported protocol version",
    0x85: "client identifier not valid",
    0x86: "bad user name or password",
    0x87: "not authorized",
    0x88: "server unavailable",
    0x89: "server busy",
    0x8A: "banned",
    0x8B: "server shutting down",
    0x8C: "bad authentication method",
    0x8D: "keep alive timeout",
    0x8E: "session taken over",
    0x8F: "topic filter invalid",
    0x90: "topic name invalid",
    0x91: "packet identifier in use",
    0x92: "packet identifier not found",
    0x93: "receive maximum exceeded",
    0x94: "topic alias invalid",
    0x95: "packet too large",
    0x96: "message rate too high",
    0x97: "quota exceeded",
    0x98: "administrative action",
    0x99: "payload format invalid",
    0x9A: "retain not supported",
    0x9B: "QoS not supported",
    0x9C: "use another server",
    0x9D: "server moved",
    0x9E: "shared subscriptions not supported",
    0x9F: "connection rate exceeded",
    0xA0: "maximum connect time",
    0xA1: "subscription identifiers not supported",
    0xA2: "wildcard subscriptions not supported",
}

# What 3.1.1 answers to CONNECT, as codes of version 5.
OLD_REASONS = {1: 0x84, 2: 0x85, 3: 0x88, 4: 0x86, 5: 0x87}
