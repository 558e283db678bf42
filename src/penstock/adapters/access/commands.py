"""The commands `penstock user add|remove|list|check`, for files of users.

Not here: the file's form (users), how it is changed (editing). Read next: docs/access.md.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from penstock.adapters.access.settings import AccessError
from penstock.terminal import complaint

# Exit code of a command that failed.
FAILED = 1

# Shorter ones can be guessed; those longer than users.MAX_PASSWORD_CHARACTERS are never accepted.
LEAST_PASSWORD_CHARACTERS = 8

File = Annotated[Path, typer.Argument(metavar="FILE", help="Password file.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the user.")]
PasswordStdin = Annotated[
    bool, typer.Option("--password-stdin", help="Read the password from the first line of standard input.")
]

app = typer.Typer(help="Manage a password file.", no_args_is_help=True, rich_markup_mode=None)

# Imports are inside the commands, so that no other command has to wait for them.


@app.command()
def add(
    file: File,
    name: Name,
    role: Annotated[list[str] | None, typer.Option("--role", metavar="ROLE", help="A role; may be repeated.")] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Change an existing user; without --role the roles stay.")
    ] = False,
    password_stdin: PasswordStdin = False,
) -> None:
    """Add a user, or change one. The file is created if it does not exist."""
    from penstock.adapters.access import editing
    from penstock.adapters.access.users import A_NAME, A_ROLE, MAX_PASSWORD_CHARACTERS, NAME, ROLE, User, hashed

    def changed(before: User | None) -> User:
        if before is not None and not replace:
            raise AccessError(f"{file}: user {name} already exists: expected another name, or --replace")
        kept = before.roles if before is not None and role is None else ()
        return User(name, argon2, tuple(role or kept))

    with _one_line_on_error():
        if not NAME.fullmatch(name):
            raise AccessError(f"NAME = {name}: expected {A_NAME}")
        for given in role or ():
            if not ROLE.fullmatch(given):
                raise AccessError(f"--role = {given}: expected {A_ROLE}")
        password = _password(password_stdin, confirm=True)
        if not LEAST_PASSWORD_CHARACTERS <= len(password) <= MAX_PASSWORD_CHARACTERS:
            allowed = f"{LEAST_PASSWORD_CHARACTERS} to {MAX_PASSWORD_CHARACTERS} characters"
            raise AccessError(f"password: expected {allowed}, not {len(password)}")
        argon2 = hashed(password)
        editing.add(file, name, changed)
    typer.echo(f"penstock: {file}: user {name} written")


@app.command()
def remove(file: File, name: Name) -> None:
    """Remove a user. Open sessions stay open."""
    from penstock.adapters.access import editing

    with _one_line_on_error():
        editing.remove(file, name)
    typer.echo(f"penstock: {file}: user {name} removed")


@app.command("list")
def list_users(
    file: File, as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False
) -> None:
    """Print the users and their roles."""
    from penstock.adapters.access.users import parse, read_text

    with _one_line_on_error():
        users = parse(read_text(str(file)), str(file))
    if as_json:
        typer.echo(json.dumps([{"name": user.name, "roles": list(user.roles)} for user in users]))
        return
    for user in users:
        typer.echo(f"{user.name}\t{','.join(user.roles)}")


@app.command()
def check(file: File, name: Name, password_stdin: PasswordStdin = False) -> None:
    """Check a password. The exit code is 0 if it is right, else 1."""
    from penstock.adapters.access.users import UserFile

    with _one_line_on_error():
        users = UserFile(str(file))
        users.load()
        if users.check(name, _password(password_stdin, confirm=False)) is None:
            raise AccessError(f"{file}: user {name}: no such user, or wrong password")
    typer.echo(f"penstock: {file}: user {name}: ok")


def _password(from_standard_input: bool, confirm: bool) -> str:
    if not from_standard_input:
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=confirm, err=True))
    try:
        return sys.stdin.readline().rstrip("\r\n")
    except UnicodeDecodeError:
        raise AccessError("password: expected text in UTF-8") from None


@contextmanager
def _one_line_on_error() -> Iterator[None]:
    try:
        yield
    except AccessError as error:
        raise complaint(str(error), FAILED) from None
