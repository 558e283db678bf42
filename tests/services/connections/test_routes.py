"""Paths and methods of connections: wrong ones are refused as everywhere below the same root."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doors.ditto.site import Site
from tests.support.administration import basic, write_users


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("PUT", "/connections", "GET, HEAD, POST"), ("DELETE", "/connections/x/status", "GET, HEAD")],
)
def test_a_method_that_a_path_does_not_have_is_405(tmp_path: Path, method: str, path: str, allowed: str) -> None:
    write_users(tmp_path / "admins")
    with Site(tmp_path / "site", {"admin.users": str(tmp_path / "admins")}) as site:
        answer = site.client(authorization=basic("root")).request(method, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
        assert answer.json()["error"] == "gateway:method.notallowed"
