from __future__ import annotations

import io
import json
import logging
import zipfile
from pathlib import Path

import pytest

from penstock.providers.apns import ApnsSettings
from penstock.providers.errors import ProviderError
from penstock.providers.safari import MAX_PACKAGE, SafariAnswer, SafariProvider, SafariService
from penstock.push.ports import Verdict
from penstock.push.refusals import PushReason, PushRefusal
from tests.providers.peers import NOW, PATIENCE, TRUSTED, Book, notification, peer, run, write_key

SITE = "web.com.mydomain.myotherapp"
TOKEN = "AB" * 32
FORMAT = {"aps": {"alert": {"title": "$[1]", "body": "$[2]"}, "url-args": ["item1"]}}


def package(site: object = SITE, without: str = "") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name in ("website.json", "manifest.json", "signature", "icon.iconset/icon_16x16.png"):
            if name != without:
                # Of no particular time, so that the same package has the same bytes.
                file.writestr(
                    zipfile.ZipInfo(name), json.dumps({"websitePushID": site}) if name == "website.json" else name
                )
    return buffer.getvalue()


@pytest.fixture
def package_file(tmp_path: Path) -> Path:
    path = tmp_path / "package.zip"
    path.write_bytes(package())
    return path


@pytest.fixture
def settings(tmp_path: Path) -> ApnsSettings:
    write_key(tmp_path / "key.p8")
    return ApnsSettings(
        SITE, "https://localhost", str(tmp_path / "key.p8"), "KEY", "TEAM", trusted_ca=TRUSTED, timeout=PATIENCE
    )


@pytest.fixture
def provider(settings: ApnsSettings, package_file: Path) -> SafariProvider:
    return SafariProvider(settings, str(package_file))


@pytest.fixture
def service(provider: SafariProvider) -> SafariService:
    return SafariService({SITE: provider})


def test_a_notification_for_a_site_goes_to_apple_with_the_site_as_its_topic(
    settings: ApnsSettings, package_file: Path
) -> None:
    book = Book()

    async def story() -> None:
        async with peer(book) as server:
            address = f"https://localhost:{server.port}"
            site = ApnsSettings(SITE, address, settings.key_file, "KEY", "TEAM", trusted_ca=TRUSTED, timeout=PATIENCE)
            provider = SafariProvider(site, str(package_file))
            handover = await provider.send(TOKEN, notification(json.dumps(FORMAT)), NOW)
            assert handover.verdict is Verdict.ACCEPTED
            (asked,) = book.asked
            assert asked.headers["apns-topic"] == SITE
            assert asked.path == f"/3/device/{TOKEN}"
            assert json.loads(asked.body) == FORMAT
            await provider.close()

    run(story())


@pytest.mark.parametrize(
    "aps",
    [
        {},
        {"alert": "only a text", "url-args": ["x"]},
        {"alert": {"title": "x"}, "url-args": ["x"]},
        {"alert": {"title": "", "body": "x"}, "url-args": ["x"]},
        {"alert": {"title": "x", "body": "x"}},
        {"alert": {"title": "x", "body": "x"}, "url-args": []},
        {"alert": {"title": "x", "body": "x"}, "url-args": "x"},
    ],
)
def test_a_format_that_safari_would_not_show_is_refused(provider: SafariProvider, aps: dict[str, object]) -> None:
    assert provider.check_format(FORMAT) == FORMAT
    with pytest.raises(PushRefusal, match="aps") as refusal:
        provider.check_format({"aps": aps})
    assert refusal.value.reason is PushReason.FORMAT_EMPTY


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_safari_gets_the_package_of_its_site(service: SafariService, version: str) -> None:
    body = b'{"user":"token"}'
    answer = service.answer("POST", f"/{version}/pushPackages/{SITE}", body)
    assert answer == SafariAnswer(200, "application/zip", package())
    assert service.answer("GET", f"/{version}/pushPackages/{SITE}", b"").status == 405
    assert service.answer("POST", f"/{version}/pushPackages/web.other", body).status == 404


def test_safari_may_register_and_leave(service: SafariService) -> None:
    path = f"/v2/devices/{TOKEN}/registrations/{SITE}"
    assert [service.answer(method, path, b"").status for method in ("POST", "DELETE", "GET")] == [200, 200, 405]
    assert service.answer("POST", f"/v2/devices/{TOKEN}/registrations/web.other", b"").status == 404
    assert service.answer("POST", f"/v2/devices/x/registrations/{SITE}", b"").status == 404


def test_what_safari_complains_about_is_logged_within_limits(
    service: SafariService, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        body = json.dumps({"logs": ["x" * 1_000] * 50}).encode()
        assert service.answer("POST", "/v2/log", body).status == 200
    assert len(caplog.records) == 10
    assert max(len(str(record.__dict__)) for record in caplog.records) < 2_000
    for nonsense in (b"", b"[]", b"{}", b'{"logs":17}', b"[" * 100_000, b"\xff"):
        assert service.answer("POST", "/v2/log", nonsense).status == 400
    assert service.answer("GET", "/v2/log", b"").status == 405


@pytest.mark.parametrize("path", ["", "/", "/v3/log", "/v2", "/v2/pushPackages/", "/v2/pushPackages/../log"])
def test_other_paths_are_not_found(service: SafariService, path: str) -> None:
    assert service.answer("POST", path, b"").status == 404


@pytest.mark.parametrize(
    ("contents", "text"),
    [
        (b"nonsense", "not a zip file"),
        (package("web.other"), "is not 'web.com.mydomain.myotherapp'"),
        (package(17), "is not 'web.com.mydomain.myotherapp'"),
        (package(without="website.json"), "it has no website.json"),
        (package(without="signature"), "it has no signature"),
        (bytes(MAX_PACKAGE + 1), f"more than {MAX_PACKAGE} bytes"),
    ],
)
def test_a_package_that_safari_would_refuse_stops_the_provider_and_a_reload(
    settings: ApnsSettings, provider: SafariProvider, package_file: Path, contents: bytes, text: str
) -> None:
    package_file.write_bytes(contents)
    with pytest.raises(ProviderError, match=text):
        SafariProvider(settings, str(package_file))
    with pytest.raises(ProviderError, match=text):
        provider.reload()
    assert provider.package == package()
    with pytest.raises(ProviderError, match="No such file"):
        SafariProvider(settings, str(package_file.with_name("missing.zip")))


def test_a_new_package_is_read_again(service: SafariService, provider: SafariProvider, package_file: Path) -> None:
    package_file.write_bytes(new := package(without="icon.iconset/icon_16x16.png"))
    provider.reload()
    assert service.answer("POST", f"/v2/pushPackages/{SITE}", b"").body == new
