from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jwt
import pytest

from penstock.providers.encryption import MAX_PAYLOAD, read_point
from penstock.providers.errors import ProviderError
from penstock.providers.webpush import WebPushProvider, WebPushSettings
from penstock.push.ports import Handover, Verdict
from penstock.push.records import Platform
from penstock.push.refusals import PushReason, PushRefusal
from penstock.testing.http2_peer import Fault, Http2Peer, PeerAnswer, PeerRequest
from tests.providers.browser import TestBrowser, encoded
from tests.providers.peers import NOW, PATIENCE, TRUSTED, Book, notification, peer, run
from tests.providers.test_encryption import decoded
from tests.support.privacy import open_to_others

Story = Callable[[Http2Peer, WebPushProvider], Awaitable[None]]
AUTHORIZATION = re.compile(r"vapid t=([\w.-]+), k=([\w-]+)")


@pytest.fixture
def settings(tmp_path: Path) -> WebPushSettings:
    return WebPushSettings(
        "shop", "mailto:ops@example.com", tmp_path / "push" / "shop.pem", trusted_ca=TRUSTED, timeout=PATIENCE
    )


def play(story: Story, judge: Any, settings: WebPushSettings) -> None:
    async def whole() -> None:
        async with peer(judge) as server:
            provider = WebPushProvider(replace(settings, address=f"https://localhost:{server.port}"))
            try:
                await story(server, provider)
            finally:
                await provider.close()

    run(whole())


def claims(request: PeerRequest, public_key: str) -> dict[str, Any]:
    match = AUTHORIZATION.fullmatch(request.headers["authorization"])
    assert match
    assert match[2] == public_key
    assert jwt.get_unverified_header(match[1]) == {"alg": "ES256", "typ": "JWT"}
    options: Any = {"verify_exp": False, "verify_aud": False}
    found: dict[str, Any] = jwt.decode(match[1], read_point(decoded(match[2])), algorithms=["ES256"], options=options)
    return found


def test_a_browser_reads_what_was_sent_and_its_push_service_cannot(settings: WebPushSettings) -> None:
    book, browser = Book(PeerAnswer(201)), TestBrowser()
    payload = '{"title":"Ations Europe","body":"17.05 €"}'

    async def story(server: Http2Peer, provider: WebPushProvider) -> None:
        token = browser.subscription(f"https://localhost:{server.port}/push/abc?d=e")
        provider.check_token(token)
        for _ in range(2):
            assert await provider.send(token, notification(payload), NOW) == Handover(Verdict.ACCEPTED)
        first, second = book.asked
        assert browser.read(first.body) == browser.read(second.body) == payload.encode()
        # Each message has a key and a salt of its own.
        assert first.body[:86] != second.body[:86]
        assert claims(first, provider.public_key) == {
            "aud": f"https://localhost:{server.port}",
            "exp": int(NOW) + 12 * 3_600,
            "sub": "mailto:ops@example.com",
        }
        del first.headers["authorization"]
        assert first.headers == {
            ":method": "POST",
            ":scheme": "https",
            ":authority": f"localhost:{server.port}",
            ":path": "/push/abc?d=e",
            "content-encoding": "aes128gcm",
            "content-length": str(len(first.body)),
            "content-type": "application/octet-stream",
            "ttl": "60",
            "urgency": "high",
        }

    play(story, book, settings)


def test_a_signature_is_used_for_six_hours(settings: WebPushSettings) -> None:
    book, browser = Book(PeerAnswer(201)), TestBrowser()

    async def story(server: Http2Peer, provider: WebPushProvider) -> None:
        token = browser.subscription(f"https://localhost:{server.port}/")
        for seconds in (0, 21_599, 21_600, -1):
            await provider.send(token, notification(), NOW + seconds)
        ends = [claims(asked, provider.public_key)["exp"] - int(NOW) - 12 * 3_600 for asked in book.asked]
        assert ends == [0, 0, 21_600, -1]
        assert book.asked[-1].headers["ttl"] == "61"

    play(story, book, settings)


@pytest.mark.parametrize(
    ("status", "body", "verdict"),
    [
        (200, b"", Verdict.ACCEPTED),
        (202, b"", Verdict.ACCEPTED),
        (400, b"", Verdict.REFUSED),
        (400, b'{"reason":"VapidPkHashMismatch"}', Verdict.GONE),
        (401, b"", Verdict.GONE),
        (403, b"the key does not fit", Verdict.GONE),
        (403, b'{"reason":"BadJwtToken"}', Verdict.CREDENTIALS),
        (404, b"", Verdict.GONE),
        (410, b"", Verdict.GONE),
        (413, b"", Verdict.REFUSED),
        (429, b"", Verdict.RETRY),
        (500, b"", Verdict.RETRY),
        (503, b"", Verdict.RETRY),
    ],
)
def test_what_the_answers_mean(settings: WebPushSettings, status: int, body: bytes, verdict: Verdict) -> None:
    async def story(server: Http2Peer, provider: WebPushProvider) -> None:
        token = TestBrowser().subscription(f"https://localhost:{server.port}/x")
        handover = await provider.send(token, notification(), NOW)
        assert handover.verdict is verdict
        assert handover.retry_after == (30.0 if verdict is Verdict.RETRY else None)
        assert handover.reason.startswith(str(status)) or verdict is Verdict.ACCEPTED

    # A moment by the provider's clock instead of a number of seconds.
    play(story, Book(PeerAnswer(status, body, {"retry-after": "Fri, 15 Jan 2027 08:00:30 GMT"})), settings)


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.HANG])
def test_a_push_service_that_misbehaves_is_asked_again_later(settings: WebPushSettings, fault: Fault) -> None:
    async def story(server: Http2Peer, provider: WebPushProvider) -> None:
        token = TestBrowser().subscription(f"https://localhost:{server.port}/secret-path")
        handover = await provider.send(token, notification(), NOW)
        assert handover.verdict is Verdict.RETRY
        assert "secret-path" not in handover.reason

    play(story, Book(fault), settings)


def test_a_payload_that_no_push_service_takes_is_not_sent(settings: WebPushSettings) -> None:
    book = Book(PeerAnswer(201))

    async def story(server: Http2Peer, provider: WebPushProvider) -> None:
        token = TestBrowser().subscription(f"https://localhost:{server.port}/")
        text = '{"x":"' + "y" * (MAX_PAYLOAD - 8) + '"}'
        assert (await provider.send(token, notification(text), NOW)).verdict is Verdict.ACCEPTED
        assert (await provider.send(token, notification(f"{text} "), NOW)).verdict is Verdict.REFUSED
        assert len(book.asked) == 1

    play(story, book, settings)


GOOD = json.loads(TestBrowser().subscription("https://fcm.googleapis.com/fcm/send/secret-path"))


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://fcm.googleapis.com/fcm/send/abc",
        "https://updates.push.services.mozilla.com/wpush/v2/abc",
        "https://web.push.apple.com/abc",
        "https://wns2-par02p.notify.windows.com/w/?token=abc",
    ],
)
def test_push_services_of_browsers_are_allowed(settings: WebPushSettings, endpoint: str) -> None:
    provider = WebPushProvider(settings)
    provider.check_token(json.dumps({**GOOD, "endpoint": endpoint}))


@pytest.mark.parametrize(
    ("endpoint", "text"),
    [
        ("https://localhost/secret-path", "not one of the push services that are allowed: fcm.googleapis.com"),
        ("https://127.0.0.1/secret-path", "not one of"),
        ("https://169.254.169.254/secret-path", "not one of"),
        ("https://fcm.googleapis.com.evil.example/secret-path", "not one of"),
        ("https://evil-fcm.googleapis.com/secret-path", "not one of"),
        ("https://evilpush.apple.com/secret-path", "not one of"),
        ("https://fcm.googleapis.com:22/secret-path", "not one of"),
        ("https://user@fcm.googleapis.com/secret-path", "user name"),
        ("http://fcm.googleapis.com/secret-path", "does not begin with https://"),
        ("https://fcm.googleapis.com/secret-path\r\nx: y", "characters"),
        ("secret-path", "https://"),
        (17, "not a text"),
        (None, "not a text"),
    ],
)
def test_other_addresses_are_refused_and_never_asked(settings: WebPushSettings, endpoint: object, text: str) -> None:
    provider = WebPushProvider(settings)
    token = json.dumps({**GOOD, "endpoint": endpoint})
    with pytest.raises(PushRefusal, match=re.escape(text)) as refusal:
        provider.check_token(token)
    assert refusal.value.reason is PushReason.TOKEN
    assert "secret-path" not in refusal.value.text
    handover = asyncio.run(provider.send(token, notification(), NOW))
    assert handover.verdict is Verdict.GONE
    assert "secret-path" not in handover.reason


def test_a_push_service_with_a_private_address_is_not_asked(settings: WebPushSettings) -> None:
    """Its name is allowed, but a name server says that it is inside."""
    book = Book()

    async def story() -> None:
        async with peer(book) as server:
            provider = WebPushProvider(settings, services=("localhost",))
            provider._is_allowed = lambda origin: True  # type: ignore[method-assign]
            token = TestBrowser().subscription(f"https://localhost:{server.port}/x")
            handover = await provider.send(token, notification(), NOW)
            assert handover == Handover(Verdict.RETRY, "localhost has an address that is not public")
            await provider.close()
            assert server.connections == 0

    run(story())


@pytest.mark.parametrize(
    "token",
    [
        "",
        "secret-path",
        "[]",
        "{}",
        "[" * 100_000,
        json.dumps({**GOOD, "keys": None}),
        json.dumps({**GOOD, "keys": {}}),
        json.dumps({**GOOD, "keys": {**GOOD["keys"], "p256dh": 17}}),
        json.dumps({**GOOD, "keys": {**GOOD["keys"], "p256dh": "ä"}}),
        json.dumps({**GOOD, "keys": {**GOOD["keys"], "p256dh": "a"}}),
        json.dumps({**GOOD, "keys": {**GOOD["keys"], "p256dh": encoded(b"\x04" + bytes(64))}}),
        json.dumps({**GOOD, "keys": {**GOOD["keys"], "auth": ""}}),
        json.dumps({**GOOD, "keys": {**GOOD["keys"], "auth": "****"}}),
        json.dumps({**GOOD, "keys": {**GOOD["keys"], "auth": encoded(bytes(15))}}),
    ],
)
def test_what_no_browser_has_given_is_refused(settings: WebPushSettings, token: str) -> None:
    provider = WebPushProvider(settings)
    with pytest.raises(PushRefusal) as refusal:
        provider.check_token(token)
    assert refusal.value.reason is PushReason.TOKEN
    assert "secret-path" not in refusal.value.text


def test_formats_are_for_the_service_worker(settings: WebPushSettings) -> None:
    provider = WebPushProvider(settings)
    assert (provider.platform, provider.application, provider.max_payload) == (Platform.WEB, "shop", 3_993)
    assert provider.check_format({"any": ["thing"]}) == {"any": ["thing"]}
    with pytest.raises(PushRefusal) as refusal:
        provider.check_format({})
    assert refusal.value.reason is PushReason.FORMAT_EMPTY


def test_the_key_is_made_once_for_its_owner_only_and_kept(settings: WebPushSettings, tmp_path: Path) -> None:
    first = WebPushProvider(settings).public_key
    assert WebPushProvider(settings).public_key == first
    assert len(decoded(first)) == 65
    assert [path.name for path in (tmp_path / "push").iterdir()] == ["shop.pem"]
    assert not open_to_others(tmp_path / "push")


def test_a_key_that_is_wrong_is_never_replaced(settings: WebPushSettings) -> None:
    provider = WebPushProvider(settings)
    kept = provider.public_key
    settings.key_file.write_text("a secret")
    with pytest.raises(ProviderError, match="has no private key") as error:
        provider.reload()
    assert "secret" not in str(error.value)
    assert provider.public_key == kept
    assert settings.key_file.read_text() == "a secret"
    settings.key_file.unlink()
    provider.reload()
    assert provider.public_key != kept
