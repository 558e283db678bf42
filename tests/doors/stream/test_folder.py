"""A folder of pages: types, caching, ranges, large files to slow readers, and nothing that is outside of it."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.config import ConfigError, load
from tests.support.background import BackgroundServer
from tests.support.raw import Exchange, Http

SECRET = b"the secret outside"
LARGE = 48_000_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "pages"
    (found / "inner").mkdir(parents=True)
    (found / "index.html").write_text("<p>front")
    (found / "inner" / "index.html").write_text("<p>inner")
    (found / "digits.txt").write_bytes(b"0123456789")
    (tmp_path / "secret.txt").write_bytes(SECRET)
    (tmp_path / "pages-too").mkdir()
    (tmp_path / "pages-too" / "secret.txt").write_bytes(SECRET)
    return found


@pytest.fixture
def server(request: pytest.FixtureRequest, folder: Path) -> Iterator[BackgroundServer]:
    marker = request.node.get_closest_marker("config")
    with BackgroundServer({"pages.directory": str(folder), **(marker.args[0] if marker else {})}) as running:
        yield running


@pytest.fixture
def http(server: BackgroundServer) -> Iterator[Http]:
    with Exchange(server.host, server.port).http() as found:
        yield found


def get(http: Http, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
    http.get(path, method=method, headers={name.replace("_", "-"): value for name, value in headers.items()})
    status = http.read_head()
    return status, b"" if method == "HEAD" else http.read_body()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.html", "text/html; charset=utf-8"),
        ("a.css", "text/css; charset=utf-8"),
        ("a.js", "text/javascript; charset=utf-8"),
        ("a.mjs", "text/javascript; charset=utf-8"),
        ("a.json", "application/json; charset=utf-8"),
        ("a.svg", "image/svg+xml; charset=utf-8"),
        ("a.png", "image/png"),
        ("a.PNG", "image/png"),
        ("a.webp", "image/webp"),
        ("a.woff2", "font/woff2"),
        ("a.wasm", "application/wasm"),
        ("a.tar.gz", "application/gzip"),
        ("a.xz", "application/octet-stream"),
        ("nothing-known", "application/octet-stream"),
        ("sp ace & é.txt", "text/plain; charset=utf-8"),
    ],
)
def test_each_file_has_its_type(http: Http, folder: Path, name: str, kind: str) -> None:
    (folder / name).write_bytes(b"content")
    assert get(http, "/" + "".join(f"%{byte:02x}" for byte in name.encode())) == (200, b"content")
    assert http.headers["content-type"] == kind
    assert http.headers["x-content-type-options"] == "nosniff"
    assert http.headers["content-length"] == "7"


def test_a_directory_is_its_index_and_has_a_slash_at_its_end(http: Http) -> None:
    assert get(http, "/") == (200, b"<p>front")
    assert get(http, "/inner/") == (200, b"<p>inner")
    status, _ = get(http, "/inner?x=1")
    assert (status, http.headers["location"]) == (301, "/inner/?x=1")
    assert get(http, "http://elsewhere.example/inner")[0] == 301
    assert http.headers["location"] == "/inner/"
    assert get(http, "/digits.txt/")[0] == 404


def test_files_are_as_they_are_now(http: Http, folder: Path) -> None:
    assert get(http, "/new.txt") == (404, b"Not found: /new.txt\n")
    (folder / "new.txt").write_text("one")
    assert get(http, "/new.txt") == (200, b"one")
    etag = http.headers["etag"]
    (folder / "new.txt").write_text("other")
    assert get(http, "/new.txt", If_None_Match=etag) == (200, b"other")
    assert http.headers["etag"] != etag


def test_what_a_browser_has_is_not_sent_again(http: Http) -> None:
    get(http, "/digits.txt")
    etag, modified = http.headers["etag"], http.headers["last-modified"]
    assert http.headers["cache-control"] == "no-cache"
    for headers in ({"If_None_Match": etag}, {"If_Modified_Since": modified}):
        assert get(http, "/digits.txt", **headers) == (304, b"")
        assert (http.headers["etag"], http.headers["cache-control"]) == (etag, "no-cache")
    assert get(http, "/digits.txt", If_Match='"other"') == (412, b"")


@pytest.mark.config({"pages.max_age_seconds": 3600})
def test_browsers_may_keep_files_for_as_long_as_is_configured(http: Http) -> None:
    get(http, "/digits.txt")
    assert http.headers["cache-control"] == "public, max-age=3600"


def test_a_part_of_a_file_can_be_asked_for(http: Http) -> None:
    assert get(http, "/digits.txt", Range="bytes=2-4") == (206, b"234")
    assert (http.headers["content-range"], http.headers["content-length"]) == ("bytes 2-4/10", "3")
    etag = http.headers["etag"]
    assert get(http, "/digits.txt", Range="bytes=-3", If_Range=etag) == (206, b"789")
    assert get(http, "/digits.txt", Range="bytes=-3", If_Range='"old"') == (200, b"0123456789")
    assert http.headers["accept-ranges"] == "bytes"
    status, text = get(http, "/digits.txt", Range="bytes=10-")
    assert (status, http.headers["content-range"]) == (416, "bytes */10")
    assert text == b"The file has 10 bytes; expected a range inside it\n"


def test_head_says_the_same_without_the_file(http: Http) -> None:
    get(http, "/digits.txt")
    before = dict(http.headers)
    assert get(http, "/digits.txt", method="HEAD")[0] == 200
    assert {name: http.headers[name] for name in before if name != "date"} == {
        name: value for name, value in before.items() if name != "date"
    }
    # What follows is the next answer: nothing of the file was sent.
    assert get(http, "/digits.txt", method="HEAD", Range="bytes=0-1")[0] == 206
    assert http.headers["content-length"] == "2"
    assert get(http, "/digits.txt") == (200, b"0123456789")


def test_other_methods_are_refused(http: Http) -> None:
    http.get("/digits.txt", method="DELETE")
    assert http.read_head() == 405
    assert http.headers["allow"] == "GET, HEAD, OPTIONS"


def test_an_empty_file_has_nothing(http: Http, folder: Path) -> None:
    (folder / "empty.txt").touch()
    assert get(http, "/empty.txt") == (200, b"")
    assert get(http, "/empty.txt", Range="bytes=0-")[0] == 416


def test_requests_behind_one_another_are_answered_in_order(http: Http) -> None:
    paths = ("/digits.txt", "/", "/none", "/inner/", "/digits.txt")
    http.send(b"".join(b"GET %s HTTP/1.1\r\nHost: h\r\n\r\n" % path.encode() for path in paths))
    found = [(http.read_head(), http.read_body()) for _ in paths]
    assert [status for status, _ in found] == [200, 200, 404, 200, 200]
    assert found[-1][1] == b"0123456789"


TRAVERSALS = [
    "/../secret.txt",
    "/inner/../../secret.txt",
    "/%2e%2e/secret.txt",
    "/.%2e/secret.txt",
    "/%2e%2e%2fsecret.txt",
    "/..%2fsecret.txt",
    "/inner%2f..%2f..%2fsecret.txt",
    "/..%5csecret.txt",
    "/..\\secret.txt",
    "/./digits.txt",
    "/digits.txt%00.html",
    "/../pages-too/secret.txt",
    "/..",
    "/inner/..",
]


@pytest.mark.parametrize("path", TRAVERSALS)
def test_a_path_that_leads_out_is_refused(http: Http, path: str) -> None:
    status, text = get(http, path)
    assert status == 400
    assert text.endswith(b" is not a path to a page\n")
    # The connection goes on.
    assert get(http, "/digits.txt") == (200, b"0123456789")


@pytest.mark.parametrize(
    "path",
    [
        "/%252e%252e/secret.txt",
        "//secret.txt",
        "//digits.txt",
        "/inner//index.html",
        "/%c0%ae%c0%ae/secret.txt",
        "/%ff",
        "/" + "a" * 300,
        "/" + "a/" * 3000,
        "/.hidden",
        "/.git/config",
        "/inner/.hidden",
    ],
)
def test_other_paths_lead_to_nothing(http: Http, folder: Path, path: str) -> None:
    (folder / ".hidden").write_bytes(SECRET)
    (folder / "inner" / ".hidden").write_bytes(SECRET)
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_bytes(SECRET)
    assert get(http, path)[0] == 404


def test_what_is_well_known_is_served_although_its_name_begins_with_a_dot(http: Http, folder: Path) -> None:
    (folder / ".well-known").mkdir()
    (folder / ".well-known" / "security.txt").write_text("mail us")
    assert get(http, "/.well-known/security.txt") == (200, b"mail us")


def test_links_are_followed_inside_the_folder_and_not_out_of_it(
    http: Http, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "inside.txt").symlink_to("digits.txt")
    (folder / "current").symlink_to("inner")
    (folder / "outside.txt").symlink_to(folder.parent / "secret.txt")
    (folder / "out").symlink_to(folder.parent)
    (folder / "too").symlink_to(folder.parent / "pages-too")
    (folder / "round").symlink_to("round")
    (folder / "nowhere").symlink_to("not-there")
    assert get(http, "/inside.txt") == (200, b"0123456789")
    assert get(http, "/current/") == (200, b"<p>inner")
    with caplog.at_level("WARNING", "penstock.doors.stream.door"):
        for path in ("/outside.txt", "/out/secret.txt", "/too/secret.txt", "/out/pages-too/secret.txt"):
            status, text = get(http, path)
            assert (status, text) == (403, f"{path} leads out of the folder of pages\n".encode())
    (line,) = [record for record in caplog.records if record.name == "penstock.doors.stream.door"]
    assert "page refused" in line.getMessage()
    assert get(http, "/out")[0] == 403
    assert get(http, "/round")[0] == get(http, "/nowhere")[0] == 404


def test_what_is_no_file_is_not_waited_for_and_nothing_stays_open(http: Http, folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    get(http, "/")
    before = len(os.listdir("/dev/fd"))
    for _ in range(20):
        assert get(http, "/pipe")[0] == 404
        assert get(http, "/inner")[0] == 301
        assert get(http, "/digits.txt", If_Match='"x"')[0] == 412
    # A file is closed just after its answer: the last one may still be there.
    assert len(os.listdir("/dev/fd")) <= before + 1


def test_the_folder_may_be_a_link_that_changes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(name)
    link = tmp_path / "link"
    link.symlink_to("one")
    with BackgroundServer({"pages.directory": str(link)}) as server, Exchange(server.host, server.port).http() as http:
        assert get(http, "/a.txt") == (200, b"one")
        (tmp_path / "next").symlink_to("two")
        (tmp_path / "next").rename(link)
        assert get(http, "/a.txt") == (200, b"two")


@pytest.mark.config({"pages.path": "/app"})
def test_below_a_path_of_its_own_the_rest_stays(http: Http, server: BackgroundServer) -> None:
    assert get(http, "/app/digits.txt") == (200, b"0123456789")
    assert get(http, "/app")[0] == 301
    assert http.headers["location"] == "/app/"
    assert get(http, "/app/") == (200, b"<p>front")
    assert get(http, "/apple/digits.txt")[0] == 404
    assert get(http, "/digits.txt")[0] == 404
    assert get(http, "/app/../secret.txt")[0] == 400
    assert get(http, "/health")[0] == 200
    with Exchange(server.host, server.port).stream() as stream:
        assert stream.head[0].startswith("CONOK,")


def test_a_large_file_takes_little_memory_and_slow_readers_keep_nobody_waiting(
    server: BackgroundServer, folder: Path
) -> None:
    block = bytes(range(256)) * 4096
    with (folder / "large.bin").open("wb") as file:
        while file.tell() < LARGE:
            file.write(block)
    size = (folder / "large.bin").stat().st_size
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    slow = [Http(server.host, server.port, receive_buffer=4096) for _ in range(10)]
    try:
        for each in slow:
            each.get("/large.bin")
            assert each.read_head() == 200
        with Exchange(server.host, server.port).http() as http:
            http.get("/large.bin")
            http.read_head()
            received = 0
            while received < size:
                received += len(http.read_some())
            assert received == size
            assert get(http, "/large.bin", Range=f"bytes={size - 256}-") == (206, block[:256])
    finally:
        for each in slow:
            each.close()
    # Kilobytes: eleven readers have had some pieces each, and never the file.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000


def test_a_file_that_becomes_shorter_while_it_is_sent_ends_its_connection(
    server: BackgroundServer, folder: Path
) -> None:
    large = folder / "large.bin"
    large.write_bytes(b"x" * 20_000_000)
    with Http(server.host, server.port, receive_buffer=4096) as http:
        http.get("/large.bin")
        http.read_head()
        os.truncate(large, 10)
        with pytest.raises((EOFError, ConnectionError)):
            http.read_body()
    with Exchange(server.host, server.port).http() as http:
        assert get(http, "/large.bin") == (200, b"x" * 10)


def test_a_server_that_stops_ends_a_download_under_way(folder: Path) -> None:
    (folder / "large.bin").write_bytes(b"x" * 20_000_000)
    with BackgroundServer({"pages.directory": str(folder)}) as server:
        http = Http(server.host, server.port, receive_buffer=4096)
        http.get("/large.bin")
        http.read_head()
        http.close()
        other = Http(server.host, server.port)
        other.get("/digits.txt")
        assert other.read_head() == 200
        server.stop()
        assert other.read_body() == b"0123456789"
        other.close()


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"pages\.directory = .*expected a readable directory \(No such file"):
        load(None, {"pages.directory": str(tmp_path / "none")})
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"expected a readable directory \(Not a directory\)"):
        load(None, {"pages.directory": str(tmp_path / "file")})
