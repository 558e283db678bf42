"""The requests about push notifications as typed records, and their parser. The specification calls these MPN.

What the values mean, such as a platform or a trigger, is decided elsewhere. Specification: chapter 2, "MPN Control
Requests".
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.wire.form import Parameters, shown
from penstock.wire.tlcp.control import MODES, Control, buffer_size, unknown
from penstock.wire.tlcp.errors import syntax

PUSH_OPERATIONS = ("register", "reset_badge", "activate", "pn_reconf", "deactivate")

# How a client names the subscriptions to deactivate.
STATUSES = ("ACTIVE", "TRIGGERED")


@dataclass(frozen=True, slots=True)
class PushControl(Control):
    """A request about push notifications."""


@dataclass(frozen=True, slots=True)
class RegisterDevice(PushControl):
    platform: str
    application: str
    # Whoever has it can be sent notifications.
    token: str = field(repr=False)
    new_token: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class ResetBadge(PushControl):
    device: str


@dataclass(frozen=True, slots=True)
class ActivatePush(PushControl):
    device: str
    subscription: str | None  # None: a new one
    number: int  # by which its client knows it in this session
    data_adapter: str
    group: str
    schema: str
    mode: str
    buffer_size: int | None  # None: not requested; 0: unlimited
    max_frequency: float | None  # None: unlimited
    format: str
    trigger: str | None
    coalescing: bool


@dataclass(frozen=True, slots=True)
class ReconfigurePush(PushControl):
    device: str
    subscription: str
    data_adapter: str
    group: str
    schema: str
    mode: str
    changes_frequency: bool
    max_frequency: float | None  # None: unlimited
    format: str | None  # None: stays as it is
    trigger: str | None  # None: stays as it is; empty: there is none from now on


@dataclass(frozen=True, slots=True)
class DeactivatePush(PushControl):
    device: str
    subscription: str | None
    status: str | None  # one of STATUSES; without it and without a subscription: all


def parse_push(operation: str, parameters: Parameters, session: str | None, request_id: str) -> PushControl:
    """The request of one of the PUSH_OPERATIONS; raises error 65."""
    if operation == "register":
        return _register(parameters, session, request_id)
    device = parameters.required("PN_deviceId")
    if operation == "reset_badge":
        return ResetBadge(session, request_id, device=device, unknown=unknown(parameters))
    if operation == "activate":
        return _activate(parameters, session, request_id, device)
    if operation == "pn_reconf":
        return _reconfigure(parameters, session, request_id, device)
    return DeactivatePush(
        session,
        request_id,
        device=device,
        subscription=_optional(parameters, "PN_subscriptionId"),
        status=_status(parameters),
        unknown=unknown(parameters),
    )


def _register(parameters: Parameters, session: str | None, request_id: str) -> RegisterDevice:
    return RegisterDevice(
        session,
        request_id,
        platform=parameters.required("PN_type"),
        application=parameters.required("PN_appId"),
        token=parameters.required("PN_deviceToken"),
        new_token=_optional(parameters, "PN_newDeviceToken"),
        unknown=unknown(parameters),
    )


def _activate(parameters: Parameters, session: str | None, request_id: str, device: str) -> ActivatePush:
    _, max_frequency = _frequency(parameters)
    format_text = parameters.text("PN_notificationFormat")
    if format_text is None:
        raise syntax("PN_notificationFormat is missing")
    return ActivatePush(
        session,
        request_id,
        device=device,
        subscription=_optional(parameters, "PN_subscriptionId"),
        number=parameters.required_integer("LS_subId", 1),
        data_adapter=parameters.text("LS_data_adapter") or "DEFAULT",
        group=parameters.required("LS_group"),
        schema=parameters.required("LS_schema"),
        mode=parameters.choice("LS_mode", MODES),
        buffer_size=buffer_size(parameters),
        max_frequency=max_frequency,
        format=format_text,
        trigger=parameters.text("PN_trigger") or None,
        coalescing=parameters.boolean("PN_coalescing", False),
        unknown=unknown(parameters),
    )


def _reconfigure(parameters: Parameters, session: str | None, request_id: str, device: str) -> ReconfigurePush:
    changes_frequency, max_frequency = _frequency(parameters)
    return ReconfigurePush(
        session,
        request_id,
        device=device,
        subscription=parameters.required("PN_subscriptionId"),
        data_adapter=parameters.text("LS_data_adapter") or "DEFAULT",
        group=parameters.required("LS_group"),
        schema=parameters.required("LS_schema"),
        mode=parameters.choice("LS_mode", MODES),
        changes_frequency=changes_frequency,
        max_frequency=max_frequency,
        format=parameters.text("PN_notificationFormat"),
        trigger=parameters.text("PN_trigger"),
        unknown=unknown(parameters),
    )


def _frequency(parameters: Parameters) -> tuple[bool, float | None]:
    """Whether there is one, and updates per second; None: unlimited."""
    value = parameters.rate("LS_requested_max_frequency", ("unlimited",))
    return value is not None, value if isinstance(value, float) else None


def _optional(parameters: Parameters, name: str) -> str | None:
    """An identifier that may be left out but not be empty, because of which one is meant would be a guess."""
    return None if parameters.text(name) is None else parameters.required(name)


def _status(parameters: Parameters) -> str | None:
    value = parameters.text("PN_subscriptionStatus")
    if value is not None and value not in STATUSES:
        raise syntax(f"{shown('PN_subscriptionStatus', value)}: expected one of {' '.join(STATUSES)}")
    return value
