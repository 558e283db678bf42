"""The way of payloads: from the frames of one publisher into the queues of those who are to have them.

Each form is made once, however many receivers it has: with identifier, without, and that of monitors. Frames are known
to have the session's kind and a right size (`connection`). Specification: 6.3.3.
"""

from __future__ import annotations

from penstock.doors.tlex.moment import Moment
from penstock.doors.tlex.ports import Batch
from penstock.doors.tlex.receiver import Receiver
from penstock.doors.tlex.registry import Controller
from penstock.doors.tlex.session import Session
from penstock.doors.tlex.turn import Turn
from penstock.wire.tlex.datagrams import FIRST_RESERVED_TYPE
from penstock.wire.tlex.forms import for_monitor, with_identifier, without_identifier
from penstock.wire.tlex.payloads import (
    BODY_AT,
    BODY_HEAD_SIZE,
    IDENTIFIED_BODY_AT,
    IDENTIFIER_AT,
)
from penstock.wire.tlex.vocabulary import SessionType


def relay(session: Session, frames: list[bytes], turn: Turn, now: Moment) -> None:
    """Pass on payloads that are within the limits of the session."""
    if session.is_singleplex:
        _relay_singleplex(session, frames, turn, now)
    else:
        _relay_multiplex(session, frames, turn, now)


def _relay_singleplex(session: Session, frames: list[bytes], turn: Turn, now: Moment) -> None:
    accepted = [frame for frame in frames if frame[BODY_AT] < FIRST_RESERVED_TYPE]
    session.counters.reserved += len(frames) - len(accepted)
    for controller in session.scope.values():
        if accepted:
            _deliver(session, controller, accepted, turn, now)
        return
    # Its controller has gone to its successor.
    session.counters.out_of_scope += len(accepted)


def _relay_multiplex(session: Session, frames: list[bytes], turn: Turn, now: Moment) -> None:
    """Neighbours for the same controller go together; sorting them further would change their order."""
    counters = session.counters
    scope = session.scope
    group: list[bytes] = []
    current: Controller | None = None
    for frame in frames:
        controller = scope.get(frame[IDENTIFIER_AT:IDENTIFIED_BODY_AT])
        if controller is None:
            counters.out_of_scope += 1
            continue
        if frame[IDENTIFIED_BODY_AT] >= FIRST_RESERVED_TYPE:
            counters.reserved += 1
            continue
        if controller is not current:
            if current is not None:
                _deliver(session, current, group, turn, now)
            current = controller
            group = []
        group.append(frame)
    if current is not None:
        _deliver(session, current, group, turn, now)


def _deliver(session: Session, controller: Controller, frames: list[bytes], turn: Turn, now: Moment) -> None:
    """To everybody who is connected for this controller and on the other side, and to monitors."""
    size = sum(map(len, frames))
    head = BODY_AT if session.is_singleplex else IDENTIFIED_BODY_AT
    if session.type is SessionType.TLC:
        traffic = controller.up
        receivers = controller.brokers
    else:
        traffic = controller.down
        receivers = controller.owners
    traffic.payloads += len(frames)
    traffic.bytes += size - len(frames) * (head + BODY_HEAD_SIZE)
    traffic.last_seen = now.utc
    if turn.batches is not None:
        turn.record(Batch(session, controller.tlc.identifier, frames, now.utc, controller.tlc.uuid))
    if receivers:
        if session.is_singleplex:
            _put(receivers, [with_identifier(frame, controller.key) for frame in frames], now)
        elif receivers[0].is_singleplex:
            # A controller's own session; there is one at most.
            _put(receivers, [without_identifier(frame) for frame in frames], now)
        else:
            for receiver in receivers:
                receiver.put(frames, size, now)
    elif not controller.monitors:
        session.counters.unrouted += len(frames)
    if controller.monitors:
        token = session.token_bytes
        # Received and sent are the same moment, unless a monitor is slow: then its queue corrects the second.
        forms = [for_monitor(frame, controller.key, token, now.utc, now.utc) for frame in frames]
        _put(controller.monitors, forms, now)


def _put(receivers: tuple[Receiver, ...], forms: list[bytes] | list[bytes | None], now: Moment) -> None:
    """None is in the place of what no frame can hold in this form."""
    frames = [form for form in forms if form is not None]
    size = sum(map(len, frames))
    for receiver in receivers:
        if len(frames) < len(forms):
            receiver.refuse(len(forms) - len(frames))
        if frames:
            receiver.put(frames, size, now)
