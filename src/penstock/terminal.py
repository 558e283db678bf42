"""Messages of commands to the person at the terminal, apart from their output; and their exit codes."""

from __future__ import annotations

import os
import sys

import typer

# Exit codes of commands that ask a server or read what it has written: refused or failed; a wrong command line; no
# connection to the server, or something else answers there.
FAILED = 1
WRONG = 2
UNREACHABLE = 3


def complaint(text: str, code: int) -> typer.Exit:
    """Print what is wrong; raise the result to end the command with this exit code."""
    typer.echo(f"penstock: {text}", err=True)
    return typer.Exit(code)


def reader_left() -> None:
    """The reader of the output has closed it (`| head`). Python would report that again when it closes the output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
