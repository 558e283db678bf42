"""Administrators for tests: `root` may do everything, `eve` may look, `bob` has no role; and requests of theirs."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from argon2 import PasswordHasher

ROLES = {"root": "admin", "eve": "viewer", "bob": ""}


@cache
def cheap_hash(name: str) -> str:
    """Of the password `NAME-secret`; a real one takes a tenth of a second each time it is checked."""
    return PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(f"{name}-secret")


def write_users(path: Path, roles: Mapping[str, str] = ROLES) -> None:
    path.write_text("".join([f"{name}:{cheap_hash(name)}:{role}\n" for name, role in roles.items()]))


def basic(name: str, password: str | None = None) -> str:
    secret = f"{name}:{f'{name}-secret' if password is None else password}"
    return "Basic " + base64.b64encode(secret.encode()).decode()


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def error(self) -> str:
        return str(self.body["error"])


def ask(
    port: int,
    method: str,
    path: str,
    body: object = None,
    authorization: str | None = basic("root"),
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """One request on a connection of its own; a body that is bytes goes as it is."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=15)
    sent = dict(headers or {})
    if authorization is not None:
        sent["Authorization"] = authorization
    content = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
    if content is not None:
        sent.setdefault("Content-Type", "application/json")
    try:
        connection.request(method, f"/api/admin{path}", content, sent)
        response = connection.getresponse()
        text = response.read()
        found = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, found, json.loads(text) if text else None)
    finally:
        connection.close()
