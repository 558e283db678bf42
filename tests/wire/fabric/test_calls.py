"""Bodies of calls: what is written is read, and nothing else is."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.fabric import calls
from penstock.wire.fabric.calls import (
    AdmissionBody,
    AdoptBody,
    AdoptedSession,
    AuthenticateBody,
    BandwidthBody,
    ClientBody,
    ClosedBody,
    EndAfterBody,
    EndBody,
    FrequenciesBody,
    FrequencyBody,
    GrantBody,
    ItemGrantBody,
    KnownSubscription,
    MessageBody,
    OutcomeBody,
    PresentBody,
    ResolveBody,
    SessionBody,
    SubscriptionBody,
    UnsubscribeBody,
    WelcomeBody,
    WishBody,
    decode_body,
    encode_body,
    push_body,
    push_request,
)
from penstock.wire.fabric.messages import FabricError
from penstock.wire.tlcp.push import (
    ActivatePush,
    DeactivatePush,
    PushControl,
    ReconfigurePush,
    RegisterDevice,
    ResetBadge,
)

CLIENT = ClientBody("192.0.2.7", True, {"cookie": "a=b"}, 1, "CN=x", "R", "stream", "lib", None)
ADMISSION = AdmissionBody(1.5, True, "ann", ("a", "b"), None, True, False)
WELCOME = WelcomeBody("S1", "ann", "SET", CLIENT, ADMISSION)
WISH = WishBody("A", "g", "s", "MERGE", None, 0, 0.5, False, True, None)
FACTS = SubscriptionBody(1, "A", "MERGE", "g", "s", "sel", ("i", "j"))

BODIES = [
    CLIENT,
    ADMISSION,
    WELCOME,
    WISH,
    FACTS,
    AuthenticateBody("SET", "ann", None, CLIENT),
    SessionBody("S1"),
    ResolveBody("S1", 7, WISH),
    GrantBody((ItemGrantBody("i", None, 3, 10, 0.0),), ("x",), FACTS),
    FrequenciesBody("S1", "A", ("i",)),
    ClosedBody("S1", 7, ((1, 2, 3), (0, 0, 0))),
    MessageBody("S1", "text with \0 and \u2028"),
    OutcomeBody(-3, "no"),
    PresentBody(3, ("S1", "S2"), ("S3",)),
    AdoptBody(3, (AdoptedSession(WELCOME, "dev", (KnownSubscription(1, True, FACTS, WISH, ("i",)),)),), True),
    EndBody("S1", -4, "enough"),
    EndAfterBody("S1", 2.5),
    UnsubscribeBody("S1", 2),
    BandwidthBody("S1", None),
    FrequencyBody("S1", 2, 0.25),
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: type(body).__name__)
def test_a_body_is_read_as_it_was_written(body: object) -> None:
    assert decode_body(type(body), encode_body(body)) == body


REQUESTS = [
    RegisterDevice("S1", "", "Apple", "app", "token", None),
    ResetBadge("S1", "", "device"),
    ActivatePush("S1", "", "device", "sub", 3, "A", "g", "s", "MERGE", 0, 2.0, "{}", None, True),
    ReconfigurePush("S1", "", "device", "sub", "A", "g", "s", "MERGE", True, None, None, ""),
    DeactivatePush("S1", "", "device", None, "TRIGGERED"),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_a_request_about_push_notifications_is_read_as_it_was_written(request_: PushControl) -> None:
    body = decode_body(calls.PushBody, encode_body(push_body("S1", request_)))
    assert push_request(body) == request_


@given(st.binary(max_size=60))
def test_anything_else_is_refused_and_raises_nothing_else(payload: bytes) -> None:
    for body in BODIES:
        with suppress(FabricError):
            assert isinstance(decode_body(type(body), payload), type(body))


def test_a_body_that_is_cut_off_is_refused() -> None:
    payload = encode_body(WELCOME)
    for length in range(len(payload)):
        with pytest.raises(FabricError, match="WelcomeBody"):
            decode_body(WelcomeBody, payload[:length])


@pytest.mark.parametrize("secret", ["a=b", "hidden", "pass"])
def test_secrets_are_not_in_what_a_body_looks_like(secret: str) -> None:
    register = push_body("S1", RegisterDevice("S1", "", "Apple", "app", "hidden", "hidden"))
    assert secret not in f"{AuthenticateBody('SET', 'ann', 'pass', CLIENT)!r} {WELCOME!r} {register!r}"
