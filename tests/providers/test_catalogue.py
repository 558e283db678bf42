from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import MappingProxyType

import pytest

from penstock.config.schema.push import AppleSection, GoogleSection, PushSection, WebSection
from penstock.providers.apns import ApnsProvider
from penstock.providers.catalogue import make_providers, safari_service
from penstock.providers.errors import ProviderError
from penstock.providers.fcm import FcmProvider
from penstock.providers.log import LogProvider
from penstock.providers.safari import SafariProvider
from penstock.providers.webpush import WebPushProvider
from penstock.push.ports import Verdict
from penstock.push.records import Platform
from tests.providers.browser import TestBrowser
from tests.providers.peers import NOW, PRIVATE_KEY, TRUSTED, Book, notification, peer, run, write_key
from tests.providers.test_fcm import account
from tests.providers.test_safari import SITE, package

ROOT = Path(__file__).parents[2]


@pytest.fixture
def push(tmp_path: Path) -> PushSection:
    """Every kind of application."""
    write_key(tmp_path / "key.p8")
    (tmp_path / "service.json").write_text(account(1))
    (tmp_path / "package.zip").write_bytes(package())
    key = AppleSection(service_level="development", key_file=str(tmp_path / "key.p8"), key_id="KEY", team_id="TEAM")
    certificate = AppleSection(service_level="production", certificate=TRUSTED, private_key=PRIVATE_KEY)
    site = AppleSection(
        service_level="production",
        certificate=TRUSTED,
        private_key=PRIVATE_KEY,
        push_package_file=str(tmp_path / "package.zip"),
    )
    return PushSection(
        apple={"a.key": key, "a.certificate": certificate, "a.test": AppleSection(), SITE: site},
        google={
            "g.dry": GoogleSection(service_level="dry_run", service_json_file=str(tmp_path / "service.json")),
            "g.test": GoogleSection(),
        },
        web={
            "../a shop": WebSection(service_level="production", contact="mailto:ops@example.com"),
            "w.test": WebSection(),
        },
    )


def test_each_application_has_the_provider_of_its_platform_and_service_level(push: PushSection, tmp_path: Path) -> None:
    providers = make_providers(push, tmp_path / "data")
    assert {key: type(provider) for key, provider in providers.items()} == {
        (Platform.APPLE, "a.key"): ApnsProvider,
        (Platform.APPLE, "a.certificate"): ApnsProvider,
        (Platform.APPLE, "a.test"): LogProvider,
        (Platform.APPLE, SITE): SafariProvider,
        (Platform.GOOGLE, "g.dry"): FcmProvider,
        (Platform.GOOGLE, "g.test"): LogProvider,
        (Platform.WEB, "../a shop"): WebPushProvider,
        (Platform.WEB, "w.test"): LogProvider,
    }
    assert all((provider.platform, provider.application) == key for key, provider in providers.items())
    assert [path.name for path in (tmp_path / "data" / "push").iterdir()] == ["..%2Fa%20shop.pem"]
    for provider in providers.values():
        provider.reload()
    service = safari_service(providers)
    assert service is not None
    assert service.answer("POST", f"/v2/pushPackages/{SITE}", b"").body == package()


def test_without_a_site_there_is_nothing_to_serve_to_safari() -> None:
    assert safari_service(make_providers(PushSection(apple={"web.test": AppleSection()}), None)) is None
    assert not make_providers(PushSection(), None)


def test_the_sandbox_is_that_of_development() -> None:
    for level, host in (("development", "api.sandbox.push.apple.com"), ("production", "api.push.apple.com")):
        section = AppleSection(service_level=level, certificate=TRUSTED, private_key=PRIVATE_KEY)  # type: ignore[arg-type]
        (provider,) = make_providers(PushSection(apple={"a": section}), None).values()
        assert isinstance(provider, ApnsProvider)
        assert provider._origin.authority == host


def test_a_provider_that_cannot_be_made_is_named_by_its_table(push: PushSection, tmp_path: Path) -> None:
    (tmp_path / "service.json").write_text("secret")
    with pytest.raises(ProviderError, match=r'^push\.google\."g\.dry": .*service\.json is not JSON$') as error:
        make_providers(push, tmp_path)
    assert "secret" not in str(error.value)


def test_what_lacks_a_place_for_its_key_is_refused(tmp_path: Path) -> None:
    web = WebSection(service_level="production", contact="mailto:ops@example.com")
    with pytest.raises(ProviderError, match=r'push\.web\."shop": expected key_file to be set'):
        make_providers(PushSection(web={"shop": web}), None)
    missing = WebSection(service_level="production", contact="x", key_file=str(tmp_path / "missing.pem"))
    with pytest.raises(ProviderError, match="No such file"):
        make_providers(PushSection(web={"shop": missing}), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_site_for_safari_has_no_sandbox(push: PushSection) -> None:
    section = AppleSection(service_level="development", certificate=TRUSTED, private_key=PRIVATE_KEY)
    with pytest.raises(ProviderError, match="Safari has no sandbox"):
        make_providers(PushSection(apple=MappingProxyType({SITE: section})), None)


def test_a_configured_address_is_asked_instead_of_the_platforms(tmp_path: Path) -> None:
    book = Book()

    async def story() -> None:
        async with peer(book) as server:
            address = f"https://localhost:{server.port}"
            web = WebSection(
                service_level="production", contact="mailto:ops@example.com", address=address, trusted_ca=TRUSTED
            )
            apple = AppleSection(
                service_level="production",
                certificate=TRUSTED,
                private_key=PRIVATE_KEY,
                address=address,
                trusted_ca=TRUSTED,
            )
            providers = make_providers(PushSection(apple={"a": apple}, web={"w": web}), tmp_path)
            tokens = {"a": "ab" * 32, "w": TestBrowser().subscription(f"{address}/x")}
            for provider in providers.values():
                handover = await provider.send(tokens[provider.application], notification(), NOW)
                assert handover.verdict is Verdict.ACCEPTED
                await provider.close()
            assert [asked.path for asked in book.asked] == ["/3/device/" + "ab" * 32, "/x"]

    run(story())


def test_without_the_extra_the_log_works_and_all_others_name_what_is_missing() -> None:
    program = """
import sys
sys.modules["hpack"] = None
from penstock.config.schema.push import AppleSection, PushSection
from penstock.providers.catalogue import make_providers
from penstock.providers.errors import ProviderError
print(len(make_providers(PushSection(apple={"a": AppleSection()}), None)))
try:
    make_providers(PushSection(apple={"a": AppleSection(service_level="production")}), None)
except ProviderError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.splitlines() == [
        "1",
        "push.apple.\"a\": the service level production needs the extra push: pip install 'penstock[push]'",
    ]
