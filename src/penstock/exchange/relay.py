"""The way of payloads: from the frames of one publisher to the queues of their receivers.

Each form is made once, however many receivers it has: with identifier, without, and that of monitors. Frames are known
to be long enough for the session's layout. Specification: 6.3.3.
"""

from __future__ import annotations

from penstock.exchange.instant import Instant
from penstock.exchange.ports import Forms, PayloadBatch, PayloadReceiver
from penstock.exchange.receiver import Turn
from penstock.exchange.registry import Controller
from penstock.exchange.session import HubSession
from penstock.wire.tlex.vocabulary import SessionType


def relay(session: HubSession, frames: list[bytes], forms: Forms, turn: Turn, now: Instant) -> None:
    """Pass on payloads that are within the limits of the session."""
    if session.sends is not None:
        frames = _permitted(session, frames, session.sends)
    if session.is_singleplex:
        _relay_singleplex(session, frames, forms, turn, now)
    else:
        _relay_multiplex(session, frames, forms, turn, now)


def _permitted(session: HubSession, frames: list[bytes], allowed: frozenset[int]) -> list[bytes]:
    type_at = session.layout.type_at
    found = [frame for frame in frames if frame[type_at] in allowed]
    session.counters.forbidden += len(frames) - len(found)
    return found


def _relay_singleplex(session: HubSession, frames: list[bytes], forms: Forms, turn: Turn, now: Instant) -> None:
    type_at, reserved = session.layout.type_at, forms.first_reserved
    accepted = [frame for frame in frames if frame[type_at] < reserved]
    session.counters.reserved += len(frames) - len(accepted)
    for controller in session.scope.values():
        if accepted:
            _deliver(session, controller, accepted, forms, turn, now)
        return
    # Its successor has taken over its controller.
    session.counters.out_of_scope += len(accepted)


def _relay_multiplex(session: HubSession, frames: list[bytes], forms: Forms, turn: Turn, now: Instant) -> None:
    """Adjacent payloads for the same controller go together; grouping more would change their order."""
    counters = session.counters
    scope = session.scope
    identifier, type_at, reserved = session.layout.identifier, session.layout.type_at, forms.first_reserved
    group: list[bytes] = []
    current: Controller | None = None
    for frame in frames:
        controller = scope.get(frame[identifier])
        if controller is None:
            counters.out_of_scope += 1
            continue
        if frame[type_at] >= reserved:
            counters.reserved += 1
            continue
        if controller is not current:
            if current is not None:
                _deliver(session, current, group, forms, turn, now)
            current = controller
            group = []
        group.append(frame)
    if current is not None:
        _deliver(session, current, group, forms, turn, now)


def _deliver(
    session: HubSession, controller: Controller, frames: list[bytes], forms: Forms, turn: Turn, now: Instant
) -> None:
    """To all connected sessions of this controller on the other side, and to monitors."""
    size = sum(map(len, frames))
    if session.type is SessionType.TLC:
        traffic = controller.up
        receivers = controller.brokers
    else:
        traffic = controller.down
        receivers = controller.owners
    traffic.payloads += len(frames)
    traffic.bytes += size - len(frames) * session.layout.head
    traffic.last_seen = now.utc
    if turn.batches is not None:
        turn.record(PayloadBatch(session, controller.tlc.identifier, frames, now.utc, controller.tlc.uuid))
    if receivers:
        if session.is_singleplex:
            _put(receivers, forms.identified(frames, controller.key), now)
        elif receivers[0].is_singleplex:
            # A controller's own session; there is one at most.
            _put(receivers, forms.plain(frames), now)
        else:
            for receiver in receivers:
                receiver.put(frames, size, now)
    elif not controller.monitors:
        session.counters.unrouted += len(frames)
    if controller.monitors:
        # Received and sent are the same time, unless a monitor is slow: then its queue corrects the latter.
        monitored = forms.monitored(frames, controller.key, session.token_bytes, now.utc, now.utc)
        _put(controller.monitors, monitored, now)


def _put(receivers: tuple[PayloadReceiver, ...], forms: list[bytes | None], now: Instant) -> None:
    """None replaces a payload that is too long for a frame in this form."""
    frames = [form for form in forms if form is not None]
    size = sum(map(len, frames))
    for receiver in receivers:
        if len(frames) < len(forms):
            receiver.refuse(len(forms) - len(frames))
        if frames:
            receiver.put(frames, size, now)
