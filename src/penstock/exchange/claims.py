"""Which controllers a session gets: all that it asks for, or none.

All are checked before anything changes; a refusal says which identifier it is about. Specification: 6.3.3.
"""

from __future__ import annotations

from penstock.exchange.authorization import Authorization
from penstock.exchange.refusals import HubReason, HubRefusal
from penstock.exchange.registry import Controller, ControllerRegistry
from penstock.exchange.rights import require_identifier
from penstock.exchange.session import HubSession
from penstock.wire.tlex.vocabulary import Protocol, SessionType, TlcType

# Which controllers a session of their own may have; brokers and monitors may have all.
_TYPES = {
    Protocol.SINGLEPLEX: TlcType.TCP_STREAMING,
    Protocol.MULTIPLEX: TlcType.TCP_STREAMING,
    Protocol.VLOG: TlcType.VLOG,
}


def find(
    registry: ControllerRegistry, authorization: Authorization, session: HubSession, identifiers: tuple[str, ...]
) -> list[Controller]:
    """The controllers that a session, new or not, asks for; raises HubRefusal unless it can have all."""
    most = session.limits.max_identifiers
    if len(identifiers) > most:
        raise HubRefusal(HubReason.TOO_MANY, f"{len(identifiers)} identifiers, allowed: 1 to {most}")
    found = []
    for index, identifier in enumerate(identifiers):
        position = None if session.is_singleplex else index
        controller = registry.find(session.domain, identifier)
        if controller is None:
            text = f"{identifier!r} is not registered in domain {session.domain!r}"
            raise HubRefusal(HubReason.NOT_REGISTERED, text, position)
        require_identifier(authorization, identifier, position)
        if session.type is SessionType.TLC and controller.tlc.type is not _TYPES[session.protocol]:
            text = (
                f"{identifier!r} is of type {controller.tlc.type.value}; "
                f"protocol {session.protocol.value!r} is for type {_TYPES[session.protocol].value}"
            )
            raise HubRefusal(HubReason.TLC_TYPE, text, position)
        if controller.claims.get(session.claim_key, session) is not session:
            # The text does not say by whom, because that is confidential.
            raise HubRefusal(HubReason.IN_USE, f"{identifier!r} is in use by another session", position)
        found.append(controller)
    return found


def take(session: HubSession, controllers: list[Controller]) -> None:
    """Give these to the session, instead of those that it had."""
    wanted = {each.key: each for each in controllers}
    for key, controller in session.scope.items():
        if key not in wanted:
            controller.release(session)
            controller.leave(session)
    for controller in wanted.values():
        controller.claims[session.claim_key] = session
    session.scope = wanted
    session.identifiers = tuple([each.tlc.identifier for each in controllers])


def lose(session: HubSession, controller: Controller) -> None:
    """Take a controller that exists no longer from the session."""
    del session.scope[controller.key]
    controller.leave(session)
    session.identifiers = tuple([each for each in session.identifiers if each != controller.tlc.identifier])


def join(session: HubSession) -> None:
    """The session is connected: route the payloads of its controllers to it, and away from one that is leaving."""
    for key, controller in session.scope.items():
        before = controller.join(session)
        if before is not None:
            before.scope.pop(key, None)


def release(session: HubSession) -> None:
    """Let others claim its controllers; its payloads are still relayed."""
    for controller in session.scope.values():
        controller.release(session)


def leave(session: HubSession) -> None:
    """The session is gone."""
    for controller in session.scope.values():
        controller.release(session)
        controller.leave(session)
