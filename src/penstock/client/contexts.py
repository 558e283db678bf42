"""Contexts: servers under names of their own, so that an address, a user and a secret are typed once.

They are in a file that only its owner may read. The commands are in `context_commands`. Read next: docs/clients.md.
"""

from __future__ import annotations

import os
import re
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from penstock.client.address import server_parts
from penstock.durable import is_open_to_others, make_directory

VARIABLE = "PENSTOCK_CONTEXT"
"""The environment variable that chooses one."""

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)


class ContextError(Exception):
    """The text is for people."""


@dataclass(frozen=True, slots=True)
class ServerContext:
    """A server and who asks; what is empty is left to the commands."""

    url: str
    api: str = ""
    user: str = ""
    ca: str = ""
    password: str = ""

    def defaults(self) -> dict[str, dict[str, str]]:
        """What stands in place of the defaults of options, by command."""
        stream = {"url": self.url, "user": self.user, "ca": self.ca, "password": self.password}
        port = {"api": self.api, "ca": self.ca}
        found = {"watch": stream, "top": stream, "publish": port, "admin": {**port, "user": self.user}}
        return {command: {key: value for key, value in given.items() if value} for command, given in found.items()}


@dataclass(frozen=True, slots=True)
class Contexts:
    """All of them, and the name of the one that is used; empty for none."""

    servers: Mapping[str, ServerContext]
    used: str = ""

    def named(self, name: str) -> ServerContext:
        if name not in self.servers:
            known = ", ".join(self.servers) or "none"
            raise ContextError(f"there is no context {name}; known: {known} (penstock context add {name} URL)")
        return self.servers[name]


def place() -> Path:
    """The file, as the XDG Base Directory Specification has it."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "penstock" / "contexts.toml"


def check(name: str, server: ServerContext) -> None:
    if not NAME.fullmatch(name):
        raise ContextError(f"{name!r}: expected a name of letters, digits, '-', '_' and '.', at most 64 characters")
    try:
        server_parts(server.url, ("http", "https"), "https://push.example.com")
        if server.api:
            server_parts(server.api, ("http", "https"), "https://push.example.com:8081")
    except ValueError as error:
        raise ContextError(str(error)) from None


def read(path: Path) -> Contexts:
    """Those in the file; none if there is no file. Refuses one that others could read, as ssh does."""
    try:
        if is_open_to_others(path):
            raise ContextError(f"{path} can be read by others, and secrets are in it: chmod 600 {path}")
        found = tomllib.loads(path.read_text("utf-8"))
        known = {field.name for field in fields(ServerContext)}
        servers = {
            name: ServerContext(**{key: str(value) for key, value in table.items() if key in known})
            for name, table in found.get("contexts", {}).items()
        }
        return Contexts(servers, str(found.get("used", "")))
    except FileNotFoundError:
        return Contexts({})
    except OSError as error:
        raise ContextError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, AttributeError):
        raise ContextError(f"{path} is not a file of contexts; delete it, and add them again") from None


def write(path: Path, contexts: Contexts) -> None:
    """Replaced as a whole, so that a crash leaves the old file or the new one."""
    from penstock.config.toml import written  # reads the schema, which takes its time

    lines = [f"used = {written(contexts.used)}"]
    for name, server in contexts.servers.items():
        lines += ["", f"[contexts.{written(name)}]"]
        lines += [f"{each.name} = {written(getattr(server, each.name))}" for each in fields(server)]
    try:
        make_directory(path.parent)
        # Made readable by its owner only.
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".contexts")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write("\n".join([*lines, ""]))
        os.replace(name, path)
    except OSError as error:
        raise ContextError(f"{path} cannot be written: {error.strerror}") from None
