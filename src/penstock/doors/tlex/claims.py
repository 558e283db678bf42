"""Which controllers a session may have: all that it asks for, or none.

Checked whole before anything changes. Specification: 6.3.3; texts name the place in the request.
"""

from __future__ import annotations

from penstock.doors.tlex.errors import bad_request, forbidden
from penstock.doors.tlex.registry import Controller, Registry
from penstock.doors.tlex.session import Session
from penstock.store.records import Authorization
from penstock.wire.tlex.vocabulary import TlcType


def find(
    registry: Registry, authorization: Authorization, session: Session, identifiers: tuple[str, ...], field: str
) -> list[Controller]:
    """The controllers that a session, new or not, asks for in `field`; raises a Refusal unless it can have all."""
    found = []
    for index, identifier in enumerate(identifiers):
        place = field if session.is_singleplex else f"{field}[{index}]"
        controller = registry.find(session.domain, identifier)
        if controller is None:
            raise bad_request(f"{place}: {identifier!r} is not registered in domain {session.domain!r}")
        if authorization.identifiers and identifier not in authorization.identifiers:
            raise forbidden(f"{place}: {identifier!r} is not one of those of the authorization")
        if controller.tlc.type is not TlcType.TCP_STREAMING:
            raise bad_request(
                f"{place}: {identifier!r} is of type {controller.tlc.type.value}; "
                f"it must be of type {TlcType.TCP_STREAMING.value}"
            )
        if controller.claims.get(session.claim_key, session) is not session:
            # Not by whom: that is nobody else's business.
            raise bad_request(f"{place}: {identifier!r} is in use by another session")
        found.append(controller)
    return found


def take(session: Session, controllers: list[Controller]) -> None:
    """Make these the session's, instead of those that it had."""
    wanted = {each.key: each for each in controllers}
    for key, controller in session.scope.items():
        if key not in wanted:
            controller.release(session)
            controller.leave(session)
    for controller in wanted.values():
        controller.claims[session.claim_key] = session
    session.scope = wanted
    session.identifiers = tuple([each.tlc.identifier for each in controllers])


def lose(session: Session, controller: Controller) -> None:
    """Take a controller that exists no longer from the session."""
    del session.scope[controller.key]
    controller.leave(session)
    session.identifiers = tuple([each for each in session.identifiers if each != controller.tlc.identifier])


def join(session: Session) -> None:
    """Let the session, now connected, have the payloads of its controllers; one that was to go loses them."""
    for key, controller in session.scope.items():
        before = controller.join(session)
        if before is not None:
            before.scope.pop(key, None)


def release(session: Session) -> None:
    """Let others have its controllers; payloads still come and go."""
    for controller in session.scope.values():
        controller.release(session)


def leave(session: Session) -> None:
    """It is gone."""
    for controller in session.scope.values():
        controller.release(session)
        controller.leave(session)
