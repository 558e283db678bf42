from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from penstock.providers.apns import ApnsProvider, ApnsSettings
from penstock.providers.errors import ProviderError
from penstock.push.ports import Handover, Verdict
from penstock.push.records import Platform
from penstock.push.refusals import PushReason, PushRefusal
from penstock.testing.http2_peer import Fault, Http2Peer, PeerAnswer, PeerRequest
from tests.providers.peers import (
    IMPATIENCE,
    NOW,
    PATIENCE,
    PRIVATE_KEY,
    TRUSTED,
    Book,
    notification,
    peer,
    run,
    write_key,
)

TOKEN = "0123456789abcdef" * 4
APPLICATION = "com.mydomain.myapp"

Story = Callable[[Http2Peer, ApnsProvider], Awaitable[None]]


def play(story: Story, judge: Any, settings: ApnsSettings, **options: Any) -> None:
    async def whole() -> None:
        async with peer(judge, **options) as server:
            provider = ApnsProvider(replace(settings, address=f"https://localhost:{server.port}"))
            try:
                await story(server, provider)
            finally:
                await provider.close()

    run(whole())


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    return tmp_path / "AuthKey.p8"


@pytest.fixture
def key(key_file: Path) -> ec.EllipticCurvePrivateKey:
    return write_key(key_file)


@pytest.fixture
def settings(key: ec.EllipticCurvePrivateKey, key_file: Path) -> ApnsSettings:
    return ApnsSettings(
        APPLICATION,
        "https://set.later",
        str(key_file),
        "KEY1234567",
        "TEAM123456",
        trusted_ca=TRUSTED,
        timeout=PATIENCE,
    )


def signature(request: PeerRequest, key: ec.EllipticCurvePrivateKey) -> dict[str, Any]:
    """The claims of a request's token, once its head and signature are found right."""
    scheme, _, token = request.headers["authorization"].partition(" ")
    assert scheme == "bearer"
    assert jwt.get_unverified_header(token) == {"alg": "ES256", "kid": "KEY1234567", "typ": "JWT"}
    options: Any = {"verify_iat": False}
    claims: dict[str, Any] = jwt.decode(token, key.public_key(), algorithms=["ES256"], options=options)
    return claims


def test_a_request_has_every_header_that_apple_asks_for(
    settings: ApnsSettings, key: ec.EllipticCurvePrivateKey
) -> None:
    book = Book()

    async def story(server: Http2Peer, provider: ApnsProvider) -> None:
        assert await provider.send(TOKEN, notification(), NOW) == Handover(Verdict.ACCEPTED)
        (asked,) = book.asked
        assert (asked.method, asked.path) == ("POST", f"/3/device/{TOKEN}")
        assert json.loads(asked.body) == {"aps": {"alert": "x"}}
        assert signature(asked, key) == {"iss": "TEAM123456", "iat": int(NOW)}
        del asked.headers["authorization"]
        assert asked.headers == {
            ":method": "POST",
            ":scheme": "https",
            ":authority": f"localhost:{server.port}",
            ":path": f"/3/device/{TOKEN}",
            "apns-topic": APPLICATION,
            "apns-push-type": "alert",
            "apns-priority": "10",
            "apns-id": "0b5e0000-0000-4000-8000-000000000001",
            "apns-expiration": str(int(NOW) + 60),
            "content-length": "21",
        }

    play(story, book, settings)


@pytest.mark.parametrize(
    ("payload", "kind", "priority"),
    [
        ('{"aps":{"content-available":1},"x":1}', "background", "5"),
        ('{"aps":{"content-available":1,"badge":1}}', "alert", "10"),
        ('{"aps":{"alert":"about \\"content-available\\""}}', "alert", "10"),
        ('{"aps":{"sound":"x"}}', "alert", "10"),
    ],
)
def test_what_only_wakes_the_application_is_sent_as_such(
    settings: ApnsSettings, payload: str, kind: str, priority: str
) -> None:
    book = Book()

    async def story(server: Http2Peer, provider: ApnsProvider) -> None:
        await provider.send(TOKEN, notification(payload), NOW)
        headers = book.asked[0].headers
        assert (headers["apns-push-type"], headers["apns-priority"]) == (kind, priority)

    play(story, book, settings)


def test_an_id_that_is_no_uuid_becomes_one_and_stays_the_same(settings: ApnsSettings) -> None:
    book = Book()

    async def story(server: Http2Peer, provider: ApnsProvider) -> None:
        for number in ("17", "17", "18"):
            await provider.send(TOKEN, replace(notification(), id=number), NOW)
        first, second, third = [asked.headers["apns-id"] for asked in book.asked]
        assert first == second != third

    play(story, book, settings)


def test_a_signature_is_used_for_fifty_minutes(settings: ApnsSettings, key: ec.EllipticCurvePrivateKey) -> None:
    book = Book()

    async def story(server: Http2Peer, provider: ApnsProvider) -> None:
        # The last is what a clock shows that was set back.
        for seconds in (0, 2_999, 3_000, 5_999, -10):
            await provider.send(TOKEN, notification(), NOW + seconds)
        made = [signature(asked, key)["iat"] - int(NOW) for asked in book.asked]
        assert made == [0, 0, 3_000, 3_000, -10]

    play(story, book, settings)


def test_an_expired_signature_is_renewed_but_not_more_often_than_apple_allows(
    settings: ApnsSettings, key: ec.EllipticCurvePrivateKey
) -> None:
    book = Book(PeerAnswer(403, b'{"reason":"ExpiredProviderToken"}'))

    async def story(server: Http2Peer, provider: ApnsProvider) -> None:
        early = await provider.send(TOKEN, notification(), NOW)
        assert (early.verdict, early.retry_after) == (Verdict.RETRY, None)
        assert "clock" in early.reason
        late = await provider.send(TOKEN, notification(), NOW + 1_200)
        assert (late.verdict, late.retry_after) == (Verdict.RETRY, 0.0)
        await provider.send(TOKEN, notification(), NOW + 1_200)
        assert [signature(asked, key)["iat"] - int(NOW) for asked in book.asked] == [0, 0, 1_200]

    play(story, book, settings)


def test_a_client_certificate_stands_for_the_team(settings: ApnsSettings) -> None:
    book = Book()
    shown = ssl.PEM_cert_to_DER_cert(Path(TRUSTED).read_text())
    certificate = replace(settings, key_file="", certificate=TRUSTED, private_key=PRIVATE_KEY)

    async def story(server: Http2Peer, provider: ApnsProvider) -> None:
        assert (await provider.send(TOKEN, notification(), NOW)).verdict is Verdict.ACCEPTED
        (asked,) = book.asked
        assert asked.certificate == shown
        assert "authorization" not in asked.headers

    play(story, book, certificate, client_authorities=Path(TRUSTED))


@pytest.mark.parametrize(
    ("status", "reason", "verdict"),
    [
        (400, "BadDeviceToken", Verdict.GONE),
        (400, "DeviceTokenNotForTopic", Verdict.GONE),
        (400, "BadTopic", Verdict.CREDENTIALS),
        (400, "MissingTopic", Verdict.CREDENTIALS),
        (400, "TopicDisallowed", Verdict.CREDENTIALS),
        (400, "PayloadEmpty", Verdict.REFUSED),
        (400, "BadExpirationDate", Verdict.REFUSED),
        (403, "BadCertificate", Verdict.CREDENTIALS),
        (403, "BadCertificateEnvironment", Verdict.CREDENTIALS),
        (403, "InvalidProviderToken", Verdict.CREDENTIALS),
        (403, "MissingProviderToken", Verdict.CREDENTIALS),
        (403, "Forbidden", Verdict.CREDENTIALS),
        (404, "BadPath", Verdict.REFUSED),
        (405, "MethodNotAllowed", Verdict.REFUSED),
        (410, "Unregistered", Verdict.GONE),
        (410, "ExpiredToken", Verdict.GONE),
        (413, "PayloadTooLarge", Verdict.REFUSED),
        (429, "TooManyRequests", Verdict.RETRY),
        (429, "TooManyProviderTokenUpdates", Verdict.RETRY),
        (500, "InternalServerError", Verdict.RETRY),
        (503, "ServiceUnavailable", Verdict.RETRY),
        (503, "Shutdown", Verdict.RETRY),
    ],
)
def test_what_the_answers_mean(settings: ApnsSettings, status: int, reason: str, verdict: Verdict) -> None:
    async def story(server: Http2Peer, provider: ApnsProvider) -> None:
        handover = await provider.send(TOKEN, notification(), NOW)
        assert handover == Handover(verdict, f"{status} {reason}", 7.0 if verdict is Verdict.RETRY else None)

    body = json.dumps({"reason": reason, "timestamp": 1}).encode()
    play(story, Book(PeerAnswer(status, body, {"retry-after": "7"})), settings)


@pytest.mark.parametrize(
    "body", [b"", b"nonsense", b"[]", b'{"reason":17}', b'{"reason":"' + TOKEN.encode() * 2 + b'"}', b"[" * 30_000]
)
@pytest.mark.parametrize(
    ("status", "verdict"),
    [(400, Verdict.REFUSED), (403, Verdict.CREDENTIALS), (410, Verdict.GONE), (502, Verdict.RETRY)],
)
def test_an_answer_without_a_reason_counts_by_its_status(
    settings: ApnsSettings, status: int, verdict: Verdict, body: bytes
) -> None:
    async def story(server: Http2Peer, provider: ApnsProvider) -> None:
        handover = await provider.send(TOKEN, notification(), NOW)
        assert handover == Handover(verdict, f"{status} without a reason")

    play(story, Book(PeerAnswer(status, body)), settings)


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.HANG])
def test_a_provider_that_misbehaves_is_asked_again_later(settings: ApnsSettings, fault: Fault) -> None:
    async def story(server: Http2Peer, provider: ApnsProvider) -> None:
        handover = await provider.send(TOKEN, notification(), NOW)
        assert handover.verdict is Verdict.RETRY
        assert TOKEN not in handover.reason

    play(story, Book(fault), settings)


def test_a_provider_that_hangs_for_one_device_serves_the_others(settings: ApnsSettings) -> None:
    def judge(request: PeerRequest) -> Any:
        return Fault.HANG if request.path.endswith(TOKEN) else PeerAnswer()

    async def story(server: Http2Peer, provider: ApnsProvider) -> None:
        hanging = asyncio.ensure_future(provider.send(TOKEN, notification(), NOW))
        others = [provider.send(f"{number:064x}", notification(number=number), NOW) for number in range(200)]
        assert {handover.verdict for handover in await asyncio.gather(*others)} == {Verdict.ACCEPTED}
        assert not hanging.done()
        assert (await hanging).verdict is Verdict.RETRY

    play(story, judge, replace(settings, timeout=3.0))


def test_a_provider_that_is_away_is_asked_again_later(settings: ApnsSettings) -> None:
    async def story(server: Http2Peer, provider: ApnsProvider) -> None:
        await server.__aexit__(None, None, None)
        handover = await provider.send(TOKEN, notification(), NOW)
        assert handover.verdict is Verdict.RETRY
        assert handover.reason.startswith("no connection to localhost")
        await server.__aenter__()

    play(story, Book(), replace(settings, timeout=IMPATIENCE * 10))


def test_a_key_is_read_again_and_a_wrong_one_changes_nothing(
    settings: ApnsSettings, key: ec.EllipticCurvePrivateKey, key_file: Path
) -> None:
    book = Book()

    def spoil() -> None:
        key_file.write_text("a secret that is no key")

    async def story(server: Http2Peer, provider: ApnsProvider) -> None:
        other = write_key(key_file)
        provider.reload()
        await provider.send(TOKEN, notification(), NOW)
        spoil()
        with pytest.raises(ProviderError, match="has no private key") as error:
            provider.reload()
        assert "secret" not in str(error.value)
        await provider.send(TOKEN, notification(), NOW)
        for asked in book.asked:
            signature(asked, other)
            with pytest.raises(jwt.InvalidSignatureError):
                signature(asked, key)

    play(story, book, settings)


@pytest.mark.parametrize("token", ["", "0", "xyz", TOKEN + "0", TOKEN + "/..", TOKEN + "\n", " " + TOKEN, "ab" * 101])
def test_a_token_that_apple_cannot_have_given_is_refused_and_never_sent(settings: ApnsSettings, token: str) -> None:
    book = Book()

    async def story(server: Http2Peer, provider: ApnsProvider) -> None:
        with pytest.raises(PushRefusal) as refusal:
            provider.check_token(token)
        assert refusal.value.reason is PushReason.TOKEN
        assert not token or len(token) < 4 or token not in refusal.value.text
        assert (await provider.send(token, notification(), NOW)).verdict is Verdict.GONE
        assert not book.asked

    play(story, book, settings)


def test_tokens_and_formats_of_apple(settings: ApnsSettings) -> None:
    provider = ApnsProvider(settings)
    assert (provider.platform, provider.application, provider.max_payload) == (Platform.APPLE, APPLICATION, 4_096)
    provider.check_token(TOKEN)
    provider.check_token(TOKEN.upper())
    kept: dict[str, Any] = {"aps": {"alert": {"title": "$[1]"}, "badge": "AUTO"}, "own": {"any": "thing"}}
    assert provider.check_format({**kept, "aps": {**kept["aps"], "unknown": 1}}) == kept
    formats: tuple[dict[str, Any], ...] = (
        {},
        {"own": 1},
        {"aps": {}},
        {"aps": []},
        {"aps": "x"},
        {"aps": {"unknown": 1}},
    )
    for useless in formats:
        with pytest.raises(PushRefusal, match="aps") as refusal:
            provider.check_format(useless)
        assert refusal.value.reason is PushReason.FORMAT_EMPTY


def test_a_provider_that_cannot_work_is_not_made(settings: ApnsSettings, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.p8"
    for contents, text in (
        (b"nonsense", "has no private key in PEM form"),
        (Path(TRUSTED).read_bytes(), "has no private key in PEM form"),
        (Path(PRIVATE_KEY).with_name("encrypted_key.pem").read_bytes(), "is encrypted"),
    ):
        wrong.write_bytes(contents)
        with pytest.raises(ProviderError, match=text):
            ApnsProvider(replace(settings, key_file=str(wrong)))
    with pytest.raises(ProviderError, match="No such file"):
        ApnsProvider(replace(settings, key_file=str(tmp_path / "missing")))
    with pytest.raises(ProviderError, match="https://"):
        ApnsProvider(replace(settings, address="http://localhost"))
