"""Push notifications of the demo: what is configured without a file, and that a file comes before it."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from penstock.config import load
from penstock.services.push import demo
from penstock.services.push.demo import demo_push


def test_the_demo_sends_to_the_log_and_to_browsers() -> None:
    loaded = load(None, {}, demo_push())
    push = loaded.config.push
    assert push.enabled
    levels = {
        name: {app: one.service_level for app, one in getattr(push, name).items()} for name in ("apple", "google")
    }
    assert levels == {"apple": {"com.mydomain.myapp": "test"}, "google": {"com.mydomain.myapp": "test"}}
    assert push.web["demo"].service_level == "production"
    assert push.web["demo"].triggers
    assert loaded.origins["push.enabled"] == loaded.origins["push.web.demo.contact"] == "penstock demo"
    assert loaded.origins["push.web.demo.key_file"] == "default"


def test_a_file_comes_before_it_key_by_key_also_when_it_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("[push]\nenabled = false\n[push.web.demo]\ncontact = 'mailto:ops@example.com'\n[push.web.shop]\n")
    loaded = load(file, {}, demo_push())
    for config in (loaded.config, loaded.again().config):
        assert not config.push.enabled
        assert config.push.web["demo"].contact == "mailto:ops@example.com"
        assert config.push.web["demo"].service_level == "production"
        assert config.push.web["shop"].service_level == "test"
    assert loaded.origins["push.enabled"] == "penstock.toml"


def test_a_file_with_adapter_sets_has_none_of_it(tmp_path: Path) -> None:
    file = tmp_path / "penstock.toml"
    file.write_text("[adapters.MINE.data.FEED]\nadapter = 'feed:Feed'\n")
    push = load(file, {"demo.enabled": True}, demo_push()).config.push
    assert not push.enabled
    assert not push.web


def test_without_the_extra_the_demo_starts_without_web_push(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(name: str) -> ModuleSpec | None:
        return None if name == "hpack" else ModuleSpec(name, None)

    monkeypatch.setattr(demo, "find_spec", find)
    push = load(None, {}, demo_push()).config.push
    assert push.enabled
    assert not push.web
    assert set(push.apple) == {"com.mydomain.myapp"}
