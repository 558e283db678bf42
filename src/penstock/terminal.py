"""What commands say to the person at the terminal, beside what they were asked for; and how they end."""

from __future__ import annotations

import os
import sys

import typer

# Exit codes of commands that ask a server or read what it has written: it was refused or has failed; the command line
# is wrong; there is no connection to the server, or nothing there that speaks its language.
FAILED = 1
WRONG = 2
UNREACHABLE = 3


def complaint(text: str, code: int) -> typer.Exit:
    """Say what is wrong; raise the result, and the command ends with this exit code."""
    typer.echo(f"penstock: {text}", err=True)
    return typer.Exit(code)


def reader_left() -> None:
    """Whoever read the output has enough (`| head`). Python would complain once more when it closes the output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
