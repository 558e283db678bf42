"""`make docs`: the pages as a site, built for real; every link leads somewhere, and nothing of it needs a network."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import urlopen

import pytest
from playwright.sync_api import expect

from tests.support.background import BackgroundServer
from tests.support.browser import chromium

ROOT = Path(__file__).parents[2]
PATIENCE = 100.0


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("docs") / "site"
    done = subprocess.run(
        [sys.executable, "scripts/site.py", str(place)], cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return place


class Found(HTMLParser):
    """What a page links to, what it loads, and where links into it may lead."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := values.get(name))}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"] or "")
        elif tag == "link" and values.get("rel") in ("stylesheet", "icon", "preload", "preconnect", "modulepreload"):
            self.loaded.append(values.get("href") or "")
        elif tag in ("script", "img", "iframe", "source") and values.get("src"):
            self.loaded.append(values["src"] or "")


@cache
def found(page: Path) -> Found:
    return Found(page.read_text("utf-8"))


def pages(site: Path) -> Iterator[Path]:
    yield from (page for page in sorted(site.rglob("*.html")) if page.name != "404.html")


def target(site: Path, page: Path, link: str) -> Path:
    path = unquote(urlsplit(link).path)
    place = (site / path.lstrip("/")) if path.startswith("/") else (page.parent / path)
    return place / "index.html" if place.is_dir() else place


def test_every_page_of_the_repository_is_on_it(site: Path) -> None:
    names = {path.stem for path in (ROOT / "docs").glob("*.md")} | {"contributing", "changelog", "examples"}
    names |= {"http-api", "http-admin", "http-ditto", "http-tlex"}
    assert {name for name in names if not (site / name / "index.html").is_file()} == set()
    assert "/api/2/things/{thing_id}" in (site / "http-api" / "index.html").read_text("utf-8")
    assert "/api/2/things/{thing_id}/attributes" in (site / "http-ditto" / "index.html").read_text("utf-8")
    assert "/api/v1/sessions" in (site / "http-tlex" / "index.html").read_text("utf-8")
    assert "POST" in (site / "http-admin" / "index.html").read_text("utf-8")


def test_every_link_leads_somewhere(site: Path) -> None:
    wrong = []
    for page in pages(site):
        for link in found(page).links:
            if urlsplit(link).scheme:
                continue
            goal = target(site, page, link) if urlsplit(link).path else page
            anchor = unquote(urlsplit(link).fragment)
            if not goal.is_file() or (anchor and goal.suffix == ".html" and anchor not in found(goal).anchors):
                wrong.append(f"{page.relative_to(site)}: {link}")
    assert wrong == []


def test_nothing_is_loaded_from_other_servers(site: Path) -> None:
    for page in pages(site):
        for link in found(page).loaded:
            assert not urlsplit(link).netloc, f"{page.relative_to(site)}: {link}"
            assert link.startswith("data:") or target(site, page, link).is_file(), f"{page.relative_to(site)}: {link}"


def test_headings_and_blocks_are_not_lost(site: Path) -> None:
    """A block that is taken for text swallows the headings behind it."""
    for page in sorted((ROOT / "docs").glob("*.md")):
        text = re.sub(r"^ *```.*?^ *```$", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        html = (site / page.stem / "index.html").read_text("utf-8")
        assert len(re.findall(r"<h2", html)) >= len(re.findall(r"^## ", text, re.MULTILINE)), page.name


@pytest.mark.browser
@pytest.mark.config({"demo.enabled": True})
def test_the_demo_serves_it_and_it_can_be_searched(
    site: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr("penstock.doors.stream.door.SITE", site)
    server: BackgroundServer = request.getfixturevalue("server")
    with urlopen(f"{server.url}/demo.json", timeout=PATIENCE) as answer:
        assert json.load(answer)["docs"] is True
    with chromium() as browser, browser.new_context() as context:
        page = context.new_page()
        others: list[str] = []
        page.on("request", lambda asked: None if asked.url.startswith(server.url) else others.append(asked.url))
        page.goto(f"{server.url}/market/")
        link = page.locator("#docs-link")
        expect(link).to_be_visible()
        link.click()
        expect(page).to_have_url(f"{server.url}/docs/")
        page.get_by_role("button", name="Search").first.click()
        page.keyboard.type("backup and restore")
        # Where the words of the question are marked.
        result = page.locator("a:has(mark)", has_text=re.compile("backup and restore", re.IGNORECASE)).first
        expect(result).to_be_visible()
        assert [each for each in others if not each.startswith(("data:", "blob:", "ws:"))] == []


@pytest.mark.config({"demo.enabled": False})
def test_a_server_without_the_demo_hides_the_link(server: BackgroundServer) -> None:
    with urlopen(f"{server.url}/demo.json", timeout=PATIENCE) as answer:
        assert json.load(answer)["docs"] is False
