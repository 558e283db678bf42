from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from penstock.providers.errors import ProviderError
from penstock.providers.fcm import FcmProvider, FcmSettings
from penstock.push.ports import Handover, Verdict
from penstock.push.records import Platform
from penstock.push.refusals import PushReason, PushRefusal
from penstock.testing.http2_peer import Fault, PeerAnswer, PeerRequest
from tests.providers.peers import NOW, PATIENCE, TRUSTED, notification, peer, pem, run

TOKEN = "dQw4w9WgXcQ:APA91b-under_score.dot"
PAYLOAD = '{"android":{"notification":{"title":"Anduct","body":"2.97 €"}}}'
KEY = rsa.generate_private_key(65_537, 2_048)

Story = Callable[[FcmProvider], Awaitable[None]]


class Google:
    """Checks who signs in, gives access, and checks it with each message."""

    def __init__(self) -> None:
        self.port = 0
        self.given = 0
        self.lasts: Any = 3_600
        self.asked: list[PeerRequest] = []
        self.now = NOW
        # Answers instead of the right ones.
        self.sign_in: Any = None
        self.answer: Any = PeerAnswer(200, b'{"name":"projects/my-project/messages/1"}')

    def __call__(self, request: PeerRequest) -> Any:
        return self.give(request) if request.path == "/token" else self.send(request)

    def give(self, request: PeerRequest) -> Any:
        assert request.headers["content-type"] == "application/x-www-form-urlencoded"
        form = parse_qs(request.body.decode(), strict_parsing=True)
        assert form["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
        (assertion,) = form["assertion"]
        assert jwt.get_unverified_header(assertion) == {"alg": "RS256", "kid": "key-1", "typ": "JWT"}
        options: Any = {"verify_exp": False, "verify_iat": False}
        address = f"https://localhost:{self.port}/token"
        claims = jwt.decode(assertion, KEY.public_key(), algorithms=["RS256"], audience=address, options=options)
        assert claims == {
            "iss": "push@my-project.example",
            "scope": "https://www.googleapis.com/auth/firebase.messaging",
            "aud": address,
            "iat": int(self.now),
            "exp": int(self.now) + 3_600,
        }
        if self.sign_in is not None:
            return self.sign_in
        self.given += 1
        answer = {"access_token": f"access-{self.given}", "expires_in": self.lasts, "token_type": "Bearer"}
        return PeerAnswer(200, json.dumps(answer).encode())

    def send(self, request: PeerRequest) -> Any:
        self.asked.append(request)
        assert request.headers["authorization"] == f"Bearer access-{self.given}"
        return self.answer


@pytest.fixture
def google() -> Google:
    return Google()


@pytest.fixture
def account_file(tmp_path: Path) -> Path:
    return tmp_path / "service.json"


def account(port: int, **changes: object) -> str:
    return json.dumps(
        {
            "type": "service_account",
            "project_id": "my-project",
            "private_key_id": "key-1",
            "private_key": pem(KEY).decode(),
            "client_email": "push@my-project.example",
            "token_uri": f"https://localhost:{port}/token",
            **changes,
        }
    )


def play(story: Story, google: Google, account_file: Path, **changes: Any) -> None:
    def write(port: int) -> None:
        account_file.write_text(account(port))

    async def whole() -> None:
        async with peer(google) as server:
            google.port = server.port
            write(server.port)
            settings = FcmSettings(
                "com.mydomain.myapp",
                str(account_file),
                address=f"https://localhost:{server.port}",
                trusted_ca=TRUSTED,
                timeout=PATIENCE,
            )
            provider = FcmProvider(replace(settings, **changes))
            try:
                await story(provider)
            finally:
                await provider.close()

    run(whole())


@pytest.mark.parametrize("is_dry_run", [False, True])
def test_a_message_goes_to_the_project_with_access(google: Google, account_file: Path, is_dry_run: bool) -> None:
    async def story(provider: FcmProvider) -> None:
        assert await provider.send(TOKEN, notification(PAYLOAD), NOW) == Handover(Verdict.ACCEPTED)
        (asked,) = google.asked
        request = {"message": {**json.loads(PAYLOAD), "token": TOKEN}}
        assert json.loads(asked.body) == ({**request, "validate_only": True} if is_dry_run else request)
        assert asked.headers == {
            ":method": "POST",
            ":scheme": "https",
            ":authority": f"localhost:{google.port}",
            ":path": "/v1/projects/my-project/messages:send",
            "authorization": "Bearer access-1",
            "content-length": str(len(asked.body)),
            "content-type": "application/json",
        }

    play(story, google, account_file, is_dry_run=is_dry_run)


def test_access_is_asked_for_once_for_all_and_again_before_it_ends(google: Google, account_file: Path) -> None:
    async def story(provider: FcmProvider) -> None:
        sends = [provider.send(TOKEN, notification(PAYLOAD, number), NOW) for number in range(50)]
        assert {handover.verdict for handover in await asyncio.gather(*sends)} == {Verdict.ACCEPTED}
        assert google.given == 1
        await provider.send(TOKEN, notification(PAYLOAD), NOW + 3_299)
        assert google.given == 1
        google.now = NOW + 3_300
        await provider.send(TOKEN, notification(PAYLOAD), NOW + 3_300)
        assert google.given == 2

    play(story, google, account_file)


def test_access_that_ended_early_is_asked_for_again(google: Google, account_file: Path) -> None:
    async def story(provider: FcmProvider) -> None:
        await provider.send(TOKEN, notification(PAYLOAD), NOW)
        google.answer = PeerAnswer(401, b'{"error":{"status":"UNAUTHENTICATED"}}')
        fresh = await provider.send(TOKEN, notification(PAYLOAD), NOW)
        assert fresh == Handover(Verdict.CREDENTIALS, "401 UNAUTHENTICATED")
        google.now = NOW + 300
        old = await provider.send(TOKEN, notification(PAYLOAD), google.now)
        assert (old.verdict, old.retry_after) == (Verdict.RETRY, 0.0)
        google.answer = PeerAnswer()
        assert (await provider.send(TOKEN, notification(PAYLOAD), google.now)).verdict is Verdict.ACCEPTED
        assert google.given == 2

    play(story, google, account_file)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (PeerAnswer(400, b'{"error":"invalid_grant"}'), Handover(Verdict.CREDENTIALS, "no access: 400 invalid_grant")),
        (PeerAnswer(401, b"nonsense"), Handover(Verdict.CREDENTIALS, "no access: 401 without a reason")),
        (PeerAnswer(503, b"", {"retry-after": "9"}), Handover(Verdict.RETRY, "no access: 503 without a reason", 9.0)),
        (PeerAnswer(429, b""), Handover(Verdict.RETRY, "no access: 429 without a reason")),
        (PeerAnswer(200, b"nonsense"), Handover(Verdict.RETRY, "no access: the answer has no token")),
        (PeerAnswer(200, b'{"access_token":"a\\nb"}'), Handover(Verdict.RETRY, "no access: the answer has no token")),
        (
            PeerAnswer(200, b'{"access_token":"a","expires_in":"x"}'),
            Handover(Verdict.RETRY, "no access: the answer has no token"),
        ),
    ],
)
def test_what_answers_to_signing_in_mean(
    google: Google, account_file: Path, answer: PeerAnswer, expected: Handover
) -> None:
    google.sign_in = answer

    async def story(provider: FcmProvider) -> None:
        assert await provider.send(TOKEN, notification(PAYLOAD), NOW) == expected
        assert not google.asked

    play(story, google, account_file)


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault is not Fault.HANG])
@pytest.mark.parametrize("where", ["sign_in", "answer"])
def test_a_google_that_misbehaves_is_asked_again_later(
    google: Google, account_file: Path, where: str, fault: Fault
) -> None:
    setattr(google, where, fault)

    async def story(provider: FcmProvider) -> None:
        handover = await provider.send(TOKEN, notification(PAYLOAD), NOW)
        assert handover.verdict is Verdict.RETRY
        assert TOKEN not in handover.reason

    play(story, google, account_file)


@pytest.mark.parametrize("where", ["sign_in", "answer"])
def test_a_google_that_hangs_is_given_up(google: Google, account_file: Path, where: str) -> None:
    setattr(google, where, Fault.HANG)

    async def story(provider: FcmProvider) -> None:
        handovers = await asyncio.gather(*[provider.send(TOKEN, notification(PAYLOAD), NOW) for _ in range(3)])
        assert {handover.verdict for handover in handovers} == {Verdict.RETRY}

    play(story, google, account_file, timeout=1.0)


def error(status: str, *details: dict[str, Any]) -> bytes:
    return json.dumps({"error": {"message": f"about {TOKEN}", "status": status, "details": details}}).encode()


def code(text: str) -> dict[str, str]:
    return {"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": text}


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (404, error("NOT_FOUND", code("UNREGISTERED")), Handover(Verdict.GONE, "404 UNREGISTERED")),
        (404, error("NOT_FOUND"), Handover(Verdict.CREDENTIALS, "404 NOT_FOUND")),
        (
            403,
            error("PERMISSION_DENIED", code("SENDER_ID_MISMATCH")),
            Handover(Verdict.GONE, "403 SENDER_ID_MISMATCH"),
        ),
        (403, error("PERMISSION_DENIED"), Handover(Verdict.CREDENTIALS, "403 PERMISSION_DENIED")),
        (
            401,
            error("UNAUTHENTICATED", code("THIRD_PARTY_AUTH_ERROR")),
            Handover(Verdict.CREDENTIALS, "401 THIRD_PARTY_AUTH_ERROR"),
        ),
        (
            400,
            error("INVALID_ARGUMENT", code("INVALID_ARGUMENT")),
            Handover(Verdict.REFUSED, "400 INVALID_ARGUMENT"),
        ),
        (
            400,
            error("INVALID_ARGUMENT", {"fieldViolations": [{"field": "message.token"}]}),
            Handover(Verdict.GONE, "400 INVALID_ARGUMENT"),
        ),
        (
            400,
            error("INVALID_ARGUMENT", {"fieldViolations": [{"field": "message.data[0].value"}, 17]}),
            Handover(Verdict.REFUSED, "400 INVALID_ARGUMENT"),
        ),
        (
            429,
            error("RESOURCE_EXHAUSTED", code("QUOTA_EXCEEDED")),
            Handover(Verdict.RETRY, "429 QUOTA_EXCEEDED", 60.0),
        ),
        (500, error("INTERNAL", code("INTERNAL")), Handover(Verdict.RETRY, "500 INTERNAL")),
        (503, error("UNAVAILABLE", code("UNAVAILABLE")), Handover(Verdict.RETRY, "503 UNAVAILABLE")),
        (400, b"nonsense", Handover(Verdict.REFUSED, "400 without a reason")),
        (400, b'{"error":[]}', Handover(Verdict.REFUSED, "400 without a reason")),
        (400, b'{"error":{"details":17,"status":{}}}', Handover(Verdict.REFUSED, "400 without a reason")),
        (413, b"", Handover(Verdict.REFUSED, "413 without a reason")),
        (502, b"<html>", Handover(Verdict.RETRY, "502 without a reason")),
    ],
)
def test_what_the_answers_mean(
    google: Google, account_file: Path, status: int, body: bytes, expected: Handover
) -> None:
    google.answer = PeerAnswer(status, body)

    async def story(provider: FcmProvider) -> None:
        assert await provider.send(TOKEN, notification(PAYLOAD), NOW) == expected

    play(story, google, account_file)


def test_google_says_how_long_to_wait(google: Google, account_file: Path) -> None:
    async def story(provider: FcmProvider) -> None:
        for said, waited in (("17", 17.0), ("999999", 3_600.0), ("-1", 60.0), ("soon", 60.0)):
            google.answer = PeerAnswer(429, b"", {"retry-after": said})
            handover = await provider.send(TOKEN, notification(PAYLOAD), NOW)
            assert (handover.verdict, handover.retry_after) == (Verdict.RETRY, waited)

    play(story, google, account_file)


def test_an_account_is_read_again(google: Google, account_file: Path) -> None:
    def write(text: str) -> None:
        account_file.write_text(text)

    async def story(provider: FcmProvider) -> None:
        await provider.send(TOKEN, notification(PAYLOAD), NOW)
        write("nonsense")
        with pytest.raises(ProviderError, match="is not JSON"):
            provider.reload()
        assert (await provider.send(TOKEN, notification(PAYLOAD), NOW)).verdict is Verdict.ACCEPTED
        write(account(google.port, project_id="other/project"))
        provider.reload()
        assert (await provider.send(TOKEN, notification(PAYLOAD), NOW)).verdict is Verdict.ACCEPTED
        assert google.asked[-1].path == "/v1/projects/other%2Fproject/messages:send"
        assert google.given == 2

    play(story, google, account_file)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "is not JSON"),
        ("[]", "has no text 'client_email'"),
        (account(1, private_key=""), "has no text 'private_key'"),
        (account(1, private_key="secret"), "has no private key in PEM form"),
        (account(1, private_key=pem(ec.generate_private_key(ec.SECP256R1())).decode()), "is not an RSA key"),
        (account(1, project_id=17), "has no text 'project_id'"),
        (account(1, token_uri="http://localhost/secret"), "'token_uri' of .* does not begin with https://"),
    ],
)
def test_a_file_that_is_no_account_is_refused_without_what_is_in_it(
    account_file: Path, text: str, expected: str
) -> None:
    account_file.write_text(text)
    with pytest.raises(ProviderError, match=expected) as refused:
        FcmProvider(FcmSettings("com.mydomain.myapp", str(account_file)))
    assert "secret" not in str(refused.value)


def test_tokens_and_formats_of_google(google: Google, account_file: Path) -> None:
    async def story(provider: FcmProvider) -> None:
        assert (provider.platform, provider.application, provider.max_payload) == (
            Platform.GOOGLE,
            "com.mydomain.myapp",
            4_096,
        )
        provider.check_token(TOKEN)
        for wrong in ("", "with space", "with/slash", "ä", "x" * 4_097, f"{TOKEN}\n"):
            with pytest.raises(PushRefusal) as refusal:
                provider.check_token(wrong)
            assert refusal.value.reason is PushReason.TOKEN
        kept = json.loads(PAYLOAD)
        # Who gets it is not for the format to say.
        elsewhere = {"token": "other", "topic": "all", "condition": "x", "name": "y", "data": {}, "unknown": 1}
        assert provider.check_format({**kept, **elsewhere}) == kept
        for useless in ({}, {"aps": {"alert": "x"}}, elsewhere):
            with pytest.raises(PushRefusal, match="notification") as refusal:
                provider.check_format(useless)
            assert refusal.value.reason is PushReason.FORMAT_EMPTY

    play(story, google, account_file)
