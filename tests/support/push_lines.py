"""The parameter lines of requests about push notifications."""

from __future__ import annotations

from tests.support.raw import params

# What each request about push notifications needs at least.
_FLOW: dict[str, object] = {"group": "a", "schema": "x", "mode": "MERGE"}
_LEAST: dict[str, dict[str, object]] = {
    "register": {"type": "Apple", "appId": "com.example.app", "deviceToken": "123456"},
    "reset_badge": {"deviceId": "d"},
    "activate": {"deviceId": "d", "subId": 1, **_FLOW, "notificationFormat": '{"aps":{"alert":"${x}"}}'},
    "pn_reconf": {"deviceId": "d", "subscriptionId": "s", **_FLOW},
    "deactivate": {"deviceId": "d"},
}
# Their parameters that begin with PN.
_OF_PUSH = {
    "type",
    "appId",
    "deviceToken",
    "newDeviceToken",
    "deviceId",
    "subscriptionId",
    "notificationFormat",
    "trigger",
    "coalescing",
    "subscriptionStatus",
}


def push(operation: str, /, **changes: object) -> str:
    """The line of a request with the least it needs, unless changed.

    Names of parameters are without prefix, and None leaves one out.
    """
    given = {"reqId": 1, "op": operation, **_LEAST[operation], **changes}
    lines = (
        params(**{name: value}).replace("LS", "PN" if name in _OF_PUSH else "LS", 1)
        for name, value in given.items()
        if value is not None
    )
    return "&".join(lines)
