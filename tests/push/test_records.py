"""Records of devices and subscriptions: what others rely on."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from penstock.push.records import Device, DeviceKey, DeviceStatus, Platform


def test_a_record_does_not_change_and_equals_its_like() -> None:
    key = DeviceKey(Platform("Apple"), "com.mydomain.myapp", "123456")
    device = Device("28c6ec93-283a-43cd-8d03-2c82ea72510b", key, DeviceStatus.ACTIVE, 1, 1)
    assert device == Device("28c6ec93-283a-43cd-8d03-2c82ea72510b", key, DeviceStatus.ACTIVE, 1, 1)
    with pytest.raises(FrozenInstanceError):
        device.badge = 1  # type: ignore[misc]


@pytest.mark.parametrize("name", ["apple", "iOS", ""])
def test_platforms_are_named_exactly_as_clients_name_them(name: str) -> None:
    with pytest.raises(ValueError, match="is not a valid Platform"):
        Platform(name)
