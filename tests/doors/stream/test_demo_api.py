"""What pages of the demo need of the API port: where it is, the permission to connect to it, and its answers."""

from __future__ import annotations

import http.client
import json
from pathlib import Path

import pytest

from tests.support.background import BackgroundServer
from tests.support.process import ServerProcess


def ask(host: str, port: int, method: str, path: str, **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection(host, port, timeout=30)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        return response, response.read()
    finally:
        connection.close()


def test_pages_of_the_demo_know_the_api_port_and_may_use_it(process: ServerProcess) -> None:
    response, body = ask("localhost", process.port, "GET", "/demo.json")
    assert response.status == 200
    facts = {"api_port": process.api_port, "api_tls_port": None, "dashboard": False, "docs": True}
    assert json.loads(body) == facts

    response, _ = ask("localhost", process.port, "GET", "/twins/")
    assert response.status == 200
    policy = response.getheader("Content-Security-Policy") or ""
    assert f"connect-src 'self' ws: wss: http://localhost:{process.api_port};" in policy

    origin = f"http://localhost:{process.port}"
    response, _ = ask(
        "localhost", process.api_port, "OPTIONS", "/api/2/things/a:b",
        Origin=origin, Access_Control_Request_Method="PUT", Access_Control_Request_Headers="authorization",
    )  # fmt: skip
    assert response.status == 204
    assert response.getheader("Access-Control-Allow-Origin") == origin
    assert "PUT" in (response.getheader("Access-Control-Allow-Methods") or "")
    assert "Authorization" in (response.getheader("Access-Control-Allow-Headers") or "")


@pytest.mark.parametrize("origin", ["http://example.com", "http://localhost:1", "http://localhost.example.com:{port}"])
def test_pages_from_elsewhere_may_not_use_the_api_port(process: ServerProcess, origin: str) -> None:
    origin = origin.format(port=process.port)
    for method in ("OPTIONS", "GET"):
        response, _ = ask(
            "localhost",
            process.api_port,
            method,
            "/api/2/things/a:b",
            Origin=origin,
            Access_Control_Request_Method="PUT",
        )
        assert response.getheader("Access-Control-Allow-Origin") is None


def test_a_strange_host_gets_into_no_policy(process: ServerProcess) -> None:
    response, _ = ask("localhost", process.port, "GET", "/twins/", Host="evil.example; script-src *")
    if response.status == 200:
        assert "script-src" not in (response.getheader("Content-Security-Policy") or "")


@pytest.mark.config({"demo.enabled": False})
def test_without_the_demo_nothing_is_told(process: ServerProcess) -> None:
    _, body = ask("localhost", process.port, "GET", "/demo.json")
    assert json.loads(body)["api_port"] is None
    response, _ = ask("localhost", process.api_port, "GET", "/health", Origin=f"http://localhost:{process.port}")
    assert response.getheader("Access-Control-Allow-Origin") is None
    response, _ = ask("localhost", process.port, "GET", "/")
    assert str(process.api_port) not in (response.getheader("Content-Security-Policy") or "")


@pytest.mark.config({"demo.enabled": True})
def test_documentation_that_is_not_built_says_how_to_build_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setattr("penstock.doors.stream.door.SITE", tmp_path)
    server: BackgroundServer = request.getfixturevalue("server")
    for path in ("/docs", "/docs/", "/docs/demo/"):
        response, body = ask("localhost", server.port, "GET", path)
        assert response.status == 404
        assert body == b"The documentation is not built. Run `make docs` in the source tree and restart the server.\n"


def test_an_address_without_its_slash_leads_to_the_page(process: ServerProcess) -> None:
    response, _ = ask("localhost", process.port, "GET", "/chat?transport=WS-STREAMING")
    assert (response.status, response.getheader("Location")) == (301, "chat/?transport=WS-STREAMING")
    assert ask("localhost", process.port, "GET", "/nothing")[0].status == 404
