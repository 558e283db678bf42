"""The command `penstock init`: a commented configuration to start from, for one of four cases, and the files it names.

What it writes is accepted by `penstock config check` and run by `penstock serve`. Read next: docs/operations.md.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from penstock.extras import command, has_journal
from penstock.terminal import FAILED, WRONG, complaint

CONFIGURATION = "penstock.toml"
TOKEN_FILE = "publish.token"
USERS_FILE = "users"
USER = "admin"

_HEAD = """\
# {about}
#     penstock config check --config penstock.toml
#     penstock serve --config penstock.toml
# Every key may be left out; docs/configuration.md lists all of them with their defaults.

[server]
data_dir = "./penstock-data"   # everything that is kept; back it up with `penstock backup`

[stream]
host = "127.0.0.1"             # "0.0.0.0" lets other machines in; then also set [stream.tls]
port = 8080                    # clients and pages

[api]
host = "127.0.0.1"             # probes, metrics, publishing; keep it away from the internet
port = 8081

"""

_MARKET = """\
# Values that programs publish: `penstock publish MARKET acme price=12.5`, or HTTP POST (docs/adapters.md).
# Their token is in publish.token: export PENSTOCK_TOKEN=$(cat publish.token)
[adapters.MARKET.data.DEFAULT]
adapter = "ingest"
parameters = { items = ["*"], token_file = "publish.token" }
# Record everything, for history, SQL and Spark (docs/journal.md); needs the extra journal:
# journal = { items = ["*"] }
"""

_TWINS = """\
# Digital twins for clients of Eclipse Ditto, at http://127.0.0.1:8081/api/2 (docs/ditto.md).
[ditto]
adapter_set = "TWINS"          # whose users these are

# Who may sign in: the file `users`, changed by `penstock user add users NAME` (docs/access.md).
[adapters.TWINS.metadata]
adapter = "access"
parameters = { users = "users" }

[journal]
enabled = true                 # it keeps the twins
"""

_TRAFFIC = """\
# A TLEX hub for traffic lights, brokers and monitors (docs/tlex.md). Add accounts with `penstock tlex account add`.
[tlex]
enabled = true
port = 8090                    # TCP streaming; set certificate and private_key for TLS
journal = {journal}            # whether all payloads are recorded; needs the extra journal

# Controllers as items that clients can watch.
[adapters.TRAFFIC.data.TLEX]
adapter = "tlex"
"""

_ADAPTER = """\
# Your own adapter: the class Quotes in quotes.py, next to this file (docs/adapters.md).
#     penstock watch QUOTES acme --fields price
[adapters.QUOTES.data.DEFAULT]
adapter = "quotes:Quotes"
"""

_QUOTES = '''\
"""Invented prices. Replace the loop by your own source."""

import asyncio
import random

from penstock.adapters import DataAdapter


class Quotes(DataAdapter):
    async def subscribe(self, item):
        price = 100.0
        self.update(item, {"price": f"{price:.2f}"}, snapshot=True)
        while self.publisher.wants(item):
            await asyncio.sleep(0.2)
            price += random.uniform(-1, 1)
            self.update(item, {"price": f"{price:.2f}"})
'''

CASES = {
    "market": "Values that programs publish, for many clients. Start it with",
    "twins": "Digital twins. Start it with",
    "traffic": "A hub for traffic lights. Start it with",
    "adapter": "Data of your own adapter. Start it with",
}


def init(
    case: Annotated[str, typer.Argument(metavar="CASE", help=f"{', '.join(CASES)}.")],
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="Where to write; created if it is missing.")
    ] = Path(),
) -> None:
    """Write a commented configuration to start from, and the files it needs. Nothing is overwritten."""
    if case not in CASES:
        raise complaint(f"{case!r} is not known; expected one of {', '.join(CASES)}", WRONG)
    if case == "twins" and not has_journal():
        raise complaint(f"twins are kept in the journal, and its extra is not installed: {command('journal')}", FAILED)
    files, said = _files(case)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name in files:
            if (directory / name).exists():
                raise complaint(f"{directory / name} already exists; expected a directory without it", FAILED)
        for name, text in files.items():
            _write(directory / name, text)
    except OSError as error:
        raise complaint(f"{error.filename or directory} cannot be written: {error.strerror}", FAILED) from None
    for name in files:
        typer.echo(f"penstock: wrote {directory / name}")
    for line in said:
        typer.echo(f"penstock: {line}")


def _files(case: str) -> tuple[Mapping[str, str], list[str]]:
    """Names and contents, the configuration last; and what else to tell."""
    head = _HEAD.format(about=CASES[case])
    if case == "market":
        return {TOKEN_FILE: f"{secrets.token_urlsafe(24)}\n", CONFIGURATION: head + _MARKET}, []
    if case == "traffic":
        return {CONFIGURATION: head + _TRAFFIC.format(journal=str(has_journal()).lower())}, []
    if case == "adapter":
        return {"quotes.py": _QUOTES, CONFIGURATION: head + _ADAPTER}, []
    from penstock.adapters.access.users import User, hashed  # argon2 takes its time to load

    password = secrets.token_urlsafe(12)
    user = User(USER, hashed(password), ())
    told = f"user {USER}, password {password} (shown only now; change it with penstock user add --replace)"
    return {USERS_FILE: f"{user.line()}\n", CONFIGURATION: head + _TWINS}, [told]


def _write(path: Path, text: str) -> None:
    """For its owner only: tokens and hashes are in some of them."""
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
