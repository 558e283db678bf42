from __future__ import annotations

from dataclasses import replace

import pytest
import uvloop

from bench.rig import apns_peer
from bench.rig.machine import Cores
from bench.scenarios import notifications
from penstock.testing.http2_peer import PeerRequest


def test_both_senders_are_measured_and_every_notification_is_found_right() -> None:
    figures = uvloop.run(notifications.compare(0.2, 1, 10, Cores()))
    assert not figures.failures
    for pace in (*figures.ours, *figures.theirs):
        assert pace.by_clock > 0
        assert pace.by_cpu > 0


RIGHT = PeerRequest(
    "POST",
    "/3/device/" + notifications.token(1),
    {
        "apns-topic": apns_peer.TOPIC,
        "apns-push-type": "alert",
        "apns-priority": "10",
        "apns-id": notifications.identifier(1),
        "apns-expiration": "1",
        "authorization": "bearer eyJ",
    },
    b'{"aps":{}}',
    None,
)


@pytest.mark.parametrize(
    "wrong",
    [
        replace(RIGHT, method="GET"),
        replace(RIGHT, path="/3/device/1"),
        replace(RIGHT, body=b"{}"),
        *[replace(RIGHT, headers={**RIGHT.headers, name: "wrong"}) for name in RIGHT.headers],
    ],
)
def test_the_stand_in_notices_a_wrong_request(wrong: PeerRequest) -> None:
    assert apns_peer.judge(RIGHT).status == 200
    assert apns_peer.judge(wrong).status == 400
