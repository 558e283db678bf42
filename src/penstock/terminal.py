"""What commands say to the person at the terminal, beside what they were asked for."""

from __future__ import annotations

import typer


def complaint(text: str, code: int) -> typer.Exit:
    """Say what is wrong; raise the result, and the command ends with this exit code."""
    typer.echo(f"penstock: {text}", err=True)
    return typer.Exit(code)
