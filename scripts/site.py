"""site.py DIR: builds the documentation as a site into DIR, from the Markdown files that are read in the repository.

The pages are copied and changed where the two differ: the README becomes the first page, files outside docs/ become
pages with their text, and names of code blocks become titles. The pages of the HTTP interfaces are written from the
OpenAPI documents of a server that is started for it. Zensical does the rest; it fails at a link that leads nowhere.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = ROOT / "docs" / "site.toml"

# Pages outside docs/, and what they are called on the site.
OUTSIDE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}

# Folders whose files are shown as pages.
SHOWN = ("examples", "monitoring")
LANGUAGES = {".service": "ini", ".cfg": "text", ".conf": "nginx", ".mjs": "js", ".tpl": "yaml", ".ipynb": "json"}
SKIPPED = {"package-lock.json", "node_modules", "__pycache__", "dist"}

# Files above this many bytes are for programs, such as a dashboard or a notebook.
SHOWN_BYTES = 20_000

# Reference pages: the path of the document, and who may read it.
INTERFACES = {
    "http-api": ("/openapi.json", "The API port: twins, ingest, probes"),
    "http-admin": ("/api/admin/openapi.json", "Administration"),
    "http-ditto": ("/api/2/openapi.json", "Ditto"),
    "http-tlex": ("/api/v1/openapi.json", "TLEX"),
}
METHODS = ("get", "put", "post", "patch", "delete")

_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
_BLOCK = re.compile(r"^( *```)(\w+) ([^\n`]+)$", re.MULTILINE)
_FENCE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_READY = re.compile(r"api=(\S+)")
_LOGIN = re.compile(r"administrator (\S+), password (\S+)")


def stage(target: Path) -> None:
    """Write all pages that are made from files of the repository."""
    target.mkdir(parents=True, exist_ok=True)
    for page in sorted((ROOT / "docs").iterdir()):
        if page.suffix == ".md":
            (target / page.name).write_text(converted(page), "utf-8")
        elif page.suffix in (".png", ".svg", ".gif"):
            shutil.copy(page, target)
    for name, place in OUTSIDE.items():
        (target / place).write_text(converted(ROOT / name), "utf-8")
    for folder in SHOWN:
        for place in sorted([ROOT / folder, *(ROOT / folder).rglob("*")]):
            if place.is_dir() and not SKIPPED & set(place.parts):
                page = target / folder_page(place)
                page.parent.mkdir(parents=True, exist_ok=True)
                page.write_text(folder_text(place), "utf-8")


def converted(page: Path) -> str:
    """The text of a page as the site has it."""
    text = page.read_text("utf-8")
    kept: list[str] = []

    def keep(block: re.Match[str]) -> str:
        kept.append(_BLOCK.sub(_titled, block[0]))
        return f"\0{len(kept) - 1}\0"

    text = _FENCE.sub(keep, text)
    text = _LINK.sub(lambda link: _moved(page, link), text)
    return re.sub(r"\0(\d+)\0", lambda mark: kept[int(mark[1])], text)


def _titled(block: re.Match[str]) -> str:
    """A name behind the language is a file's name, or one by which a test finds the block; the latter is not shown."""
    return f'{block[1]}{block[2]} title="{block[3]}"' if "." in block[3] else f"{block[1]}{block[2]}"


def _moved(page: Path, link: re.Match[str]) -> str:
    """A link of a page as the site has it; one to a file that is not there is just its text."""
    place = moved(page, link[3])
    return link[2] if place is None else f"{link[1]}[{link[2]}]({place}{link[4] or ''})"


def moved(page: Path, link: str) -> str | None:
    """Where a link of a page leads on the site, seen from the page's place there."""
    if "://" in link or link.startswith("mailto:"):
        return link
    file = (page.parent / link).resolve()
    name = file.relative_to(ROOT).as_posix()
    place = OUTSIDE.get(name, name.removeprefix("docs/"))
    if name.split("/")[0] in SHOWN:
        folder = file if file.is_dir() else file.parent
        place = folder_page(folder)
    elif name not in OUTSIDE and not name.startswith("docs/"):
        return None
    here = Path(OUTSIDE.get(page.relative_to(ROOT).as_posix(), page.relative_to(ROOT).as_posix().removeprefix("docs/")))
    if here.parts[0] in SHOWN:
        here = Path(folder_page(page.parent))
    return os.path.relpath(place, here.parent)


def folder_page(folder: Path) -> str:
    return f"{folder.relative_to(ROOT).as_posix()}/index.md"


def folder_text(folder: Path) -> str:
    """A folder with its files in full, below what its README says."""
    readme = folder / "README.md"
    parts = [converted(readme) if readme.exists() else f"# {folder.relative_to(ROOT).as_posix()}\n"]
    for file in sorted(folder.iterdir()):
        if file.is_file() and file.name not in SKIPPED and file != readme and file.stat().st_size < SHOWN_BYTES:
            language = LANGUAGES.get(file.suffix, file.suffix.removeprefix(".") or "text")
            text = file.read_text("utf-8").rstrip("\n")
            parts.append(f'## {file.name}\n\n````{language} title="{file.name}"\n{text}\n````\n')
    return "\n".join(parts)


def interface_text(title: str, document: dict[str, Any]) -> str:
    """An OpenAPI document as a page."""
    base = document.get("servers", [{"url": ""}])[0]["url"]
    lines = [f"# {title}", "", "Written from the OpenAPI document of a running server.", ""]
    if "description" in document["info"]:
        lines += [re.sub(r"; see docs/(\w+)\.md", r"; see [\1](\1.md)", document["info"]["description"]), ""]
    for path, operations in document["paths"].items():
        for method in METHODS:
            if method in operations:
                lines += _operation_lines(f"{base}{path}", method, _whole(operations[method], document))
    lines += _schema_lines(document.get("components", {}).get("schemas", {}))
    return "\n".join(lines) + "\n"


def _whole(operation: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """With the parameters and answers that it only refers to."""

    def found(part: dict[str, Any]) -> dict[str, Any]:
        if "$ref" not in part:
            return part
        place: Any = document
        for name in part["$ref"].split("/")[1:]:
            place = place[name]
        return dict(place)

    parameters = [found(each) for each in operation.get("parameters", [])]
    answers = {status: found(each) for status, each in operation.get("responses", {}).items()}
    return {**operation, "parameters": parameters, "responses": answers}


def _operation_lines(path: str, method: str, operation: dict[str, Any]) -> Iterator[str]:
    yield from (f"## {method.upper()} `{path}`", "", operation.get("summary", ""), "")
    if operation.get("description") and operation["description"] != operation.get("summary"):
        yield from (operation["description"], "")
    parameters = operation.get("parameters", [])
    if parameters:
        yield from ("| parameter | in | type | what it is |", "|---|---|---|---|")
        for each in parameters:
            required = "" if each.get("required") else ", optional"
            yield f"| `{each['name']}` | {each['in']}{required} | {_type(each.get('schema', {}))} | {_cell(each)} |"
        yield ""
    body = operation.get("requestBody")
    if body:
        for kind, content in body.get("content", {}).items():
            yield from (f"Body: `{kind}`, {_type(content.get('schema', {}))}", "")
    yield from ("| status | answer |", "|---|---|")
    for status, answer in operation.get("responses", {}).items():
        kinds = [f"{_type(each.get('schema', {}))}" for each in answer.get("content", {}).values()]
        what = f": {', '.join(kinds)}" if kinds else ""
        yield f"| {status} | {_cell(answer)}{what} |"
    yield ""


def _schema_lines(schemas: dict[str, Any]) -> Iterator[str]:
    for name, schema in sorted(schemas.items()):
        yield from (f"## {name}", "")
        if schema.get("description"):
            yield from (schema["description"], "")
        if schema.get("properties"):
            yield from ("| field | type | what it is |", "|---|---|---|")
            for field, each in schema["properties"].items():
                yield f"| `{field}` | {_type(each)} | {_cell(each)} |"
            yield ""


def _cell(thing: dict[str, Any]) -> str:
    return " ".join(str(thing.get("description", "")).split()).replace("|", "\\|")


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(_type(each) for each in schema[key])
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if schema.get("type") == "array":
        return f"array of {_type(schema.get('items', {}))}"
    kind = schema.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def interfaces(target: Path) -> None:
    """Start a server, and write a page for each of its documents."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "penstock", "demo", "--no-pipeline", "--port", "0", "--api-port", "0"]
        server = subprocess.Popen([*command, "--data-dir", directory], stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        try:
            api, login = "", None
            for line in server.stdout:
                if found := _READY.search(line):
                    api = found[1]
                if login := _LOGIN.search(line):
                    break
            if login is None:
                raise SystemExit("site.py: the server for the reference did not start")
            secret = b64encode(f"{login[1]}:{login[2]}".encode()).decode()
            for name, (path, title) in INTERFACES.items():
                request = urllib.request.Request(api + path, headers={"Authorization": f"Basic {secret}"})
                with urllib.request.urlopen(request, timeout=60) as answer:
                    text = interface_text(title, json.load(answer))
                (target / f"{name}.md").write_text(text, "utf-8")
        finally:
            server.terminate()
            server.wait()


def navigation(settings: dict[str, Any]) -> Iterator[str]:
    """Every page that the settings name."""
    for section in settings["project"]["nav"]:
        for entries in section.values():
            for entry in entries if isinstance(entries, list) else [entries]:
                yield from entry.values() if isinstance(entry, dict) else [entry]


def build(place: Path) -> None:
    settings = SETTINGS.read_text("utf-8")
    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        stage(work / "docs")
        interfaces(work / "docs")
        named = set(navigation(tomllib.loads(settings)))
        found = {page.relative_to(work / "docs").as_posix() for page in (work / "docs").rglob("*.md")}
        # Pages of folders are reached from that of all examples.
        lost = sorted(page for page in found - named if page.split("/")[0] not in SHOWN)
        if lost:
            raise SystemExit(f"site.py: docs/site.toml does not name {', '.join(lost)}")
        (work / "zensical.toml").write_text(settings, "utf-8")
        zensical = [sys.executable, "-m", "zensical", "build", "--strict"]
        done = subprocess.run(zensical, cwd=work, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"site.py: the site could not be built\n{done.stdout}{done.stderr}")
        for empty in ("objects.inv", "sitemap.xml", "sitemap.xml.gz"):
            (work / "site" / empty).unlink(missing_ok=True)
        shutil.rmtree(place, ignore_errors=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(work / "site", place)
    print(f"docs: {place}/index.html")


if __name__ == "__main__":
    build(Path(sys.argv[1]).resolve())
