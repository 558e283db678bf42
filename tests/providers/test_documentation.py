"""docs/push-providers.md: its examples are accepted, and its table says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.config import load
from penstock.providers.apns import ApnsProvider
from penstock.providers.catalogue import make_providers
from penstock.providers.encryption import MAX_PAYLOAD
from penstock.providers.fcm import MESSAGE_KEYS, FcmProvider
from penstock.providers.log import LogProvider
from penstock.providers.safari import SafariProvider
from penstock.providers.webpush import WebPushProvider
from tests.providers.peers import PRIVATE_KEY, TRUSTED, write_key
from tests.providers.test_fcm import account
from tests.providers.test_safari import package

PAGE = (Path(__file__).parents[2] / "docs" / "push-providers.md").read_text("utf-8")
EXAMPLES = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
KINDS = (LogProvider, ApnsProvider, ApnsProvider, SafariProvider, FcmProvider, WebPushProvider, WebPushProvider)


@pytest.mark.parametrize(("example", "kind"), list(zip(EXAMPLES, KINDS, strict=True)))
def test_every_example_makes_its_provider(
    example: str, kind: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With files of the names in it, which are relative to where the server is started."""
    monkeypatch.chdir(tmp_path)
    write_key(tmp_path / "AuthKey_ABC123DEFG.p8")
    for name in ("app.pem", "site.pem"):
        (tmp_path / name).write_text(Path(TRUSTED).read_text() + Path(PRIVATE_KEY).read_text())
    (tmp_path / "authority.pem").write_text(Path(TRUSTED).read_text())
    (tmp_path / "push_package.zip").write_bytes(package("web.com.mydomain.mysite"))
    (tmp_path / "service.json").write_text(account(1))
    (tmp_path / "penstock.toml").write_text(example)
    config = load(tmp_path / "penstock.toml", {}).config
    (provider,) = make_providers(config.push, tmp_path / "data").values()
    assert type(provider) is kind


def test_names_and_numbers_of_the_page_are_those_of_the_code() -> None:
    assert f"{MAX_PAYLOAD:,} bytes" in PAGE
    assert ", ".join(f"`{key}`" for key in sorted(MESSAGE_KEYS)) in PAGE
