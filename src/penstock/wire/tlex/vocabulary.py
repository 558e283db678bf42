"""The terms of the specification as plain values: sessions, protocols, security modes, roles, controllers.

The values of the enumerations are those of the specification, in JSON, in the database and in texts. How JSON is made
of them is in `rest`. The rules (`exchange`) import no other module of `wire.tlex`. Specification: 5.2.
"""

from __future__ import annotations

from enum import Enum, StrEnum

from msgspec import Struct


class SessionType(Enum):
    """What a client is."""

    TLC = "TLC"
    BROKER = "Broker"
    MONITOR = "Monitor"


class Protocol(Enum):
    """Whether a session is of one controller or of several, and what its connection carries."""

    SINGLEPLEX = "TCPStreaming_Singleplex"
    MULTIPLEX = "TCPStreaming_Multiplex"
    # One controller of this type, which sends lines.
    VLOG = "VLOG"


class SecurityMode(Enum):
    """Whether the connection is encrypted."""

    NONE = "NONE"
    TLS = "TLSv1.2"

    @classmethod
    def _missing_(cls, value: object) -> SecurityMode | None:
        # Some clients cannot use a name with a dot.
        return cls.TLS if value == "TLSv1_2" else None


class TlcType(Enum):
    """How a registered controller delivers its data."""

    TCP_STREAMING = "TCPStreaming"
    VLOG = "VLOG"


class Role(StrEnum):
    """The roles that an account may have in a domain."""

    PLATFORM_ADMIN = "PLATFORM_ADMIN"
    DOMAIN_ADMIN = "DOMAIN_ADMIN"
    TLC_ADMIN = "TLC_ADMIN"
    TLC_SYSTEM = "TLC_SYSTEM"
    TLC_ANALYST = "TLC_ANALYST"
    BROKER_ADMIN = "BROKER_ADMIN"
    BROKER_SYSTEM = "BROKER_SYSTEM"
    BROKER_ANALYST = "BROKER_ANALYST"
    MONITOR_ADMIN = "MONITOR_ADMIN"
    MONITOR_SYSTEM = "MONITOR_SYSTEM"


class EndReason(StrEnum):
    """How a session ended, in the list of past sessions."""

    CLIENT_DISCONNECT = "CLIENT_DISCONNECT"
    SESSION_EXPIRED = "SESSION_EXPIRED"
    ADMIN_TERMINATION = "ADMIN_TERMINATION"
    TLC_DELETED = "TLC_DELETED"
    TOKEN_REVOKED = "TOKEN_REVOKED"
    CONNECTION_ERROR = "CONNECTION_ERROR"
    PROTOCOL_ERROR = "PROTOCOL_ERROR"


class Tlc(Struct, frozen=True, kw_only=True):
    """A registered controller."""

    uuid: str
    identifier: str
    type: TlcType
    domain: str
    account: str
