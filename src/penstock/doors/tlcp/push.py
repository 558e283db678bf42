"""Requests about push notifications: carried out by a desk, answered, then told on the session's stream.

Here are their order, their notifications and their error codes. What they mean is in `penstock.push`; the desk is a
port, and who implements it is `penstock.services.push`. Specification: TLCP chapters 2 and 3, the parts on MPN.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from penstock.kernel.errors import Refusal
from penstock.log import get
from penstock.push.records import Platform
from penstock.push.refusals import PushReason, PushRefusal
from penstock.wire.form import MAX_ECHO
from penstock.wire.tlcp import lines
from penstock.wire.tlcp.errors import ControlCode, RequestError
from penstock.wire.tlcp.push import (
    ActivatePush,
    DeactivatePush,
    PushControl,
    ReconfigurePush,
    RegisterDevice,
    ResetBadge,
)

if TYPE_CHECKING:
    from penstock.kernel.session import Session

log = get(__name__)


class PushDesk(Protocol):
    """Does what clients ask for."""

    async def carry_out(self, session: Session, request: PushControl, answer: Callable[[Sequence[str]], None]) -> None:
        """Do it, and call `answer`; raises a PushRefusal, or a Refusal of the metadata adapter, and has changed nothing
        then.

        `answer` is given what the client is to be told: of a registration the id of the device and the name of the data
        adapter about it, of an activation the id of the subscription, of a deactivation those that are gone. It is
        called before items of the device say so, because clients drop what is said of a subscription that they do not
        know.

        It is awaited to its end, even if the client disconnects meanwhile; the session may be closed by then. Requests
        of a session come one after the other; those of several sessions about one device may come at the same time. The
        platform of a registration is one that `Platform` has.
        """


_PLATFORMS = tuple(platform.value for platform in Platform)

_OPERATIONS: dict[type[PushControl], str] = {
    RegisterDevice: "register",
    ResetBadge: "reset_badge",
    ActivatePush: "activate",
    ReconfigurePush: "pn_reconf",
    DeactivatePush: "deactivate",
}

_CODES = {
    PushReason.DISABLED: ControlCode.PUSH_DISABLED,
    PushReason.UNAVAILABLE: ControlCode.PUSH_UNAVAILABLE,
    PushReason.PLATFORM: ControlCode.PUSH_PLATFORM,
    PushReason.APPLICATION: ControlCode.PUSH_APPLICATION,
    PushReason.TOKEN: ControlCode.SYNTAX,
    PushReason.DEVICE: ControlCode.PUSH_DEVICE,
    PushReason.SUSPENDED: ControlCode.PUSH_SUSPENDED,
    PushReason.SUBSCRIPTION: ControlCode.PUSH_SUBSCRIPTION,
    PushReason.TRIGGER: ControlCode.PUSH_TRIGGER,
    PushReason.ARGUMENT: ControlCode.PUSH_ARGUMENT,
    PushReason.TOO_LONG: ControlCode.PUSH_TOO_LONG,
    PushReason.EMPTY: ControlCode.PUSH_EMPTY,
    PushReason.PAYLOAD_TOO_LARGE: ControlCode.PUSH_PAYLOAD_TOO_LARGE,
    PushReason.FORMAT_NOT_JSON: ControlCode.PUSH_FORMAT_NOT_JSON,
    PushReason.FORMAT_EMPTY: ControlCode.PUSH_FORMAT_EMPTY,
    PushReason.MISMATCH: ControlCode.PUSH_MISMATCH,
    PushReason.MODE: ControlCode.MODE,
    PushReason.CONFLICT: ControlCode.SYNTAX,
}

# The parameter that a refusal is about, where there is one alone.
_PARAMETERS = {
    PushReason.PLATFORM: "PN_type",
    PushReason.APPLICATION: "PN_appId",
    PushReason.TOKEN: "PN_deviceToken",
    PushReason.DEVICE: "PN_deviceId",
    PushReason.SUSPENDED: "PN_deviceId",
    PushReason.SUBSCRIPTION: "PN_subscriptionId",
    PushReason.TRIGGER: "PN_trigger",
    PushReason.PAYLOAD_TOO_LARGE: "PN_notificationFormat",
    PushReason.FORMAT_NOT_JSON: "PN_notificationFormat",
    PushReason.FORMAT_EMPTY: "PN_notificationFormat",
    PushReason.MODE: "LS_mode",
}


def push_error(refusal: PushRefusal, request: PushControl) -> RequestError:
    """For REQERR."""
    parameter = _PARAMETERS.get(refusal.reason)
    if refusal.reason is PushReason.DISABLED:
        text = f"LS_op={_OPERATIONS[type(request)]}: {refusal.text}"
    else:
        text = refusal.text if parameter is None else f"{parameter}: {refusal.text}"
    return RequestError(int(_CODES[refusal.reason]), text, request.request_id)


class PushCounter:
    """Where the requests about push notifications are taken to the desk; without one all are refused."""

    def __init__(self, desk: PushDesk | None) -> None:
        self.desk = desk
        # Those whose client has gone are finished as well.
        self._under_way: set[asyncio.Task[None]] = set()

    async def serve(self, session: Session, request: PushControl, acknowledge: Callable[[], None]) -> None:
        """Carry out a request, acknowledge it, and tell it on the session's stream; raises a PushRefusal or a Refusal.

        Once begun it is finished, even if this is cancelled, because what has been changed must be told to the client,
        which may come back to its session.
        """
        if self.desk is None:
            raise PushRefusal(PushReason.DISABLED, "the MPN module is disabled")
        if isinstance(request, RegisterDevice):
            _check_platform(request.platform)
        answer = partial(_answer, session, request, acknowledge)
        task = asyncio.create_task(self.desk.carry_out(session, request, answer))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_report)
            raise


def _answer(session: Session, request: PushControl, acknowledge: Callable[[], None], told: Sequence[str]) -> None:
    acknowledge()
    for line in _lines(request, told):
        session.notify(line)


def _report(done: asyncio.Task[None]) -> None:
    """The client has gone before its request was done, and nobody is left to tell that it was refused."""
    error = None if done.cancelled() else done.exception()
    if error is not None and not isinstance(error, PushRefusal | Refusal):
        log.raised("unexpected error in a request whose client has disconnected", error)


def _lines(request: PushControl, told: Sequence[str]) -> list[bytes]:
    """The notifications about what was done."""
    if isinstance(request, RegisterDevice):
        device, data_adapter = told
        return [lines.mpnreg(device, data_adapter)]
    if isinstance(request, ActivatePush):
        (subscription,) = told
        return [lines.mpnok(request.number, subscription)]
    if isinstance(request, DeactivatePush):
        return [lines.mpndel(subscription) for subscription in told]
    if isinstance(request, ReconfigurePush):
        return [lines.mpnconf(request.subscription)]
    assert isinstance(request, ResetBadge)
    return [lines.mpnzero(request.device)]


def _check_platform(name: str) -> None:
    if name not in _PLATFORMS:
        known = " ".join(_PLATFORMS)
        raise PushRefusal(PushReason.PLATFORM, f"unknown platform {name[:MAX_ECHO]}, expected one of {known}")
