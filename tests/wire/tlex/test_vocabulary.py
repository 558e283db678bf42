from __future__ import annotations

from penstock.wire.tlex.vocabulary import EndReason


def test_the_ends_of_sessions_are_those_of_the_wider_interface() -> None:
    assert {str(end) for end in EndReason} == {
        "CLIENT_DISCONNECT",
        "SESSION_EXPIRED",
        "ADMIN_TERMINATION",
        "TLC_DELETED",
        "TOKEN_REVOKED",
        "CONNECTION_ERROR",
        "PROTOCOL_ERROR",
    }
