"""The example of docs/listeners.md, started as it stands but for the ports and the files of the certificate."""

from __future__ import annotations

import json
import re
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from tests.support.background import BackgroundServer
from tests.support.proxy import version_2
from tests.support.raw import CID, Exchange, Http, params
from tests.support.tls import CERTIFICATES, trusting_context

PAGE = Path(__file__).parents[2] / "docs" / "listeners.md"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BackgroundServer:
    (block,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    file = tmp_path / "penstock.toml"
    file.write_text(re.sub(r"(?m)^port = \d+$", "port = 0", block))
    shutil.copytree(CERTIFICATES, tmp_path / "tls")
    (tmp_path / "www").mkdir()
    (tmp_path / "www" / "index.html").write_text("<p>mine")
    monkeypatch.chdir(tmp_path)
    return BackgroundServer({}, file)


def created(http: Http, **headers: str) -> list[str]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    http.post("create_session", f"{params(adapter_set='TEST')}&LS_cid={CID}", headers=named)
    http.read_head()
    return http.read_until("CONS", "CONERR")


def status(http: Http, path: str) -> int:
    with http:
        http.get(path)
        return http.read_head()


def test_the_example_does_what_the_page_says(server: BackgroundServer) -> None:
    with server:
        line = server.call(server.server.ready_line)
        ports = {name: server.port_of(name) for name in ("stream", "public", "balanced", "web", "api", "probes")}
        assert f"  public=https://0.0.0.0:{ports['public']}  balanced=http://127.0.0.1:{ports['balanced']}" in line
        assert f"  api=https://127.0.0.1:{ports['api']}" in line

        with Http(server.host, ports["public"], trusting_context()) as http:
            assert "SERVNAME,Prices" in created(http)
        with Http(server.host, ports["balanced"]) as http:
            http.send(version_2("198.51.100.7", 4711))
            assert "CLIENTIP,198.51.100.7" in created(http)
        with Http(server.host, ports["web"]) as http:
            assert "CLIENTIP,198.51.100.8" in created(http, X_Forwarded_For="198.51.100.8")

        with Http(server.host, ports["public"], trusting_context()) as http:
            http.get("/app/")
            assert (http.read_head(), http.read_body()) == (200, b"<p>mine")
            assert http.headers["cache-control"] == "public, max-age=60"
        assert status(Http(server.host, ports["public"], trusting_context()), "/health") == 404
        assert status(Http(server.host, ports["probes"]), "/health") == 200
        assert status(Http(server.host, ports["probes"]), "/ready") == 200
        assert status(Http(server.host, ports["probes"]), "/metrics") == 404
        assert status(Http(server.host, ports["probes"]), "/openapi.json") == 404
        assert status(Http(server.host, ports["api"], trusting_context()), "/openapi.json") == 200


def test_curl_as_a_load_balancer_is_understood(server: BackgroundServer) -> None:
    with server:
        url = f"http://127.0.0.1:{server.port_of('balanced')}/ready"
        found = subprocess.run(["curl", "-sS", "--haproxy-protocol", url], capture_output=True, timeout=30)
        assert json.loads(found.stdout)["status"] == "ready", found


def test_a_listener_with_tls_speaks_nothing_else(server: BackgroundServer) -> None:
    with server:
        with Http(server.host, server.port_of("public")) as http:
            http.get("/lightstreamer")
            assert http.is_closed()
        with pytest.raises(ssl.SSLError):
            Http(server.host, server.port_of("web"), trusting_context())
        with Exchange(server.host, server.port).stream() as stream:
            assert stream.head[0].startswith("CONOK,")
