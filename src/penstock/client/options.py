"""Options that several commands have: where the server is, which certificates to trust, and who asks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

STREAM_PORT = "http://127.0.0.1:8080"
API_PORT = "http://127.0.0.1:8081"

StreamUrl = Annotated[str, typer.Option("--url", metavar="URL", help="The streaming port.")]
ApiUrl = Annotated[str, typer.Option("--api", metavar="URL", help="The API port.")]
Authorities = Annotated[
    Path | None, typer.Option("--ca", metavar="FILE", help="Certificates to trust, instead of the system's.")
]
UserName = Annotated[str | None, typer.Option("--user", metavar="NAME", help="The user's name.")]
# Also from the environment, because everybody on the machine can see a command line.
Password = Annotated[
    str | None, typer.Option("--password", envvar="PENSTOCK_PASSWORD", metavar="TEXT", help="The user's password.")
]
