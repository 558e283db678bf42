"""The commands `penstock tlex account|token|tlc`: who may use the TLEX hub, and for which controllers.

They change the database itself, whether a server runs or not; a running one sees it within seconds. Not here: what is
stored (`store`). Read next: docs/tlex.md.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.config import ConfigError, load
from penstock.durable import keep_to_owner, make_directory
from penstock.terminal import complaint

if TYPE_CHECKING:
    from penstock.exchange.authorization import Authorization
    from penstock.store.records import Account
    from penstock.store.store import Store

FAILED = 1
WRONG = 2

app = typer.Typer(
    help="Accounts, tokens and controllers of the TLEX hub, and a client.", no_args_is_help=True, rich_markup_mode=None
)
account_app = typer.Typer(help="Organisations.", no_args_is_help=True, rich_markup_mode=None)
token_app = typer.Typer(help="Authorization tokens of accounts.", no_args_is_help=True, rich_markup_mode=None)
tlc_app = typer.Typer(help="Registered controllers.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(account_app, name="account")
app.add_typer(token_app, name="token")
app.add_typer(tlc_app, name="tlc")

ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="The server's configuration file. Default: none is read."),
]
DataDir = Annotated[str | None, typer.Option("--data-dir", metavar="DIR", help="The server's data directory.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
AccountName = Annotated[str, typer.Argument(metavar="ACCOUNT", help="Name of the account.")]
Domain = Annotated[str, typer.Option("--domain", metavar="DOMAIN", help="Domain; case-insensitive.")]

# Imports are inside the commands, so that no other command has to wait for them.


@account_app.command("add")
def add_account(name: AccountName, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Add an account."""
    with _store(config, data_dir) as store:
        typer.echo(f"penstock: account {name}: {store.add_account(name).uuid}")


@account_app.command("list")
def list_accounts(config: ConfigFile = None, data_dir: DataDir = None, as_json: Json = False) -> None:
    """Print the accounts."""
    with _store(config, data_dir) as store:
        _print(["uuid", "name"], [[each.uuid, each.name] for each in store.accounts()], as_json)


@account_app.command("remove")
def remove_account(name: AccountName, config: ConfigFile = None, data_dir: DataDir = None) -> None:
    """Remove an account with its tokens; its controllers must have been removed before."""
    with _store(config, data_dir) as store:
        store.remove_account(store.account(name).uuid)
        typer.echo(f"penstock: account {name} removed")


@token_app.command("add")
def add_token(
    account: AccountName,
    domain: Domain,
    role: Annotated[str, typer.Option("--role", metavar="ROLE", help="Its role, such as BROKER_SYSTEM.")],
    tlc: Annotated[
        list[str] | None,
        typer.Option("--tlc", metavar="ID", help="Only for this controller; may be repeated. Default: all."),
    ] = None,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Create a token and print it, alone on a line. It cannot be shown again."""
    from penstock.exchange.authorization import Role

    if role not in list(Role):
        raise complaint(f"--role = {role}: expected one of {', '.join(Role)}", WRONG)
    with _store(config, data_dir) as store:
        authorization = _authorization(store, store.account(account), domain, Role(role), tlc or [])
        typer.echo(store.add_token(authorization.uuid, time.time_ns() // 1_000_000).secret)


def _authorization(
    store: Store, account: Account, domain: str, role: object, identifiers: Sequence[str]
) -> Authorization:
    """The one there is, or a new one."""
    from penstock.exchange.authorization import Role

    assert isinstance(role, Role)
    for each in store.authorizations(account.uuid):
        if (each.domain, each.role, each.identifiers) == (domain.lower(), role, frozenset(identifiers)):
            return each
    return store.authorize(account.uuid, domain, role, identifiers)


@token_app.command("list")
def list_tokens(
    account: Annotated[str | None, typer.Argument(metavar="ACCOUNT", help="Only of this account.")] = None,
    config: ConfigFile = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Print the tokens, without their secrets."""
    with _store(config, data_dir) as store:
        accounts = store.accounts() if account is None else [store.account(account)]
        rows = [
            [token.uuid, owner.name, each.domain, each.role.value, " ".join(sorted(each.identifiers)), state]
            for owner in accounts
            for each in store.authorizations(owner.uuid)
            for token in store.tokens(each.uuid)
            for state in ["good" if token.revoked is None else "revoked"]
        ]
        _print(["uuid", "account", "domain", "role", "tlcs", "state"], rows, as_json)


@token_app.command("revoke")
def revoke_token(
    uuid: Annotated[str, typer.Argument(metavar="UUID", help="As `list` shows it; not the secret.")],
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Revoke a token; sessions that were created with it are ended."""
    with _store(config, data_dir) as store:
        store.revoke(uuid, time.time_ns() // 1_000_000)
        typer.echo(f"penstock: token {uuid} revoked")


@tlc_app.command("add")
def add_tlcs(
    account: AccountName,
    identifiers: Annotated[list[str], typer.Argument(metavar="ID…", help="Identifiers, 8 characters each.")],
    domain: Domain,
    type_: Annotated[str, typer.Option("--type", metavar="TYPE", help="TCPStreaming or VLOG.")] = "TCPStreaming",
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Register controllers that an account owns."""
    from penstock.wire.tlex.vocabulary import TlcType

    types = [each.value for each in TlcType]
    if type_ not in types:
        raise complaint(f"--type = {type_}: expected one of {', '.join(types)}", WRONG)
    with _store(config, data_dir) as store:
        owner = store.account(account)
        for identifier in identifiers:
            made = store.add_tlc(domain, identifier, TlcType(type_), owner.uuid)
            typer.echo(f"penstock: controller {identifier} in {made.domain}: {made.uuid}")


@tlc_app.command("list")
def list_tlcs(config: ConfigFile = None, data_dir: DataDir = None, as_json: Json = False) -> None:
    """Print the registered controllers."""
    with _store(config, data_dir) as store:
        names = {each.uuid: each.name for each in store.accounts()}
        rows = [
            [each.uuid, each.domain, each.identifier, each.type.value, names.get(each.account, each.account)]
            for each in store.tlcs()
        ]
        _print(["uuid", "domain", "identifier", "type", "account"], rows, as_json)


@tlc_app.command("remove")
def remove_tlc(
    identifier: Annotated[str, typer.Argument(metavar="ID")],
    domain: Domain,
    config: ConfigFile = None,
    data_dir: DataDir = None,
) -> None:
    """Unregister a controller; sessions that have no other are ended."""
    from penstock.store.errors import NoSuchRecord

    with _store(config, data_dir) as store:
        place = domain.lower(), identifier
        found = [each.uuid for each in store.tlcs() if (each.domain, each.identifier) == place]
        if not found:
            raise NoSuchRecord(f"Controller {identifier!r} in domain {domain.lower()!r} does not exist")
        store.remove_tlc(found[0])
        typer.echo(f"penstock: controller {identifier} in {domain.lower()} removed")


@contextmanager
def _store(config: Path | None, data_dir: str | None) -> Iterator[Store]:
    """The database of a server; what goes wrong with it becomes one line and an exit code."""
    from sqlalchemy.exc import SQLAlchemyError

    from penstock.store.address import is_own
    from penstock.store.errors import StoreError
    from penstock.store.opening import check_store_presence, open_store, reason

    try:
        loaded = load(config, {} if data_dir is None else {"server.data_dir": data_dir}).config
    except ConfigError as error:
        raise complaint(str(error), WRONG) from None
    # SQLite makes its files as the umask says.
    keep_to_owner()
    directory = Path(loaded.server.data_dir)
    named = loaded.tlex.store
    try:
        if is_own(named):
            make_directory(directory)
        check_store_presence(named, directory)
        store = open_store(named, directory)
    except OSError as error:
        raise complaint(f"the database cannot be opened: {reason(error)}", FAILED) from None
    except StoreError as error:
        raise complaint(str(error), FAILED) from None
    try:
        yield store
    except StoreError as error:
        raise complaint(str(error), FAILED) from None
    except SQLAlchemyError as error:
        raise complaint(f"the database fails: {reason(error)}", FAILED) from None
    finally:
        store.close()


def _print(names: Sequence[str], rows: Sequence[Sequence[str]], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps([dict(zip(names, row, strict=True)) for row in rows]))
        return
    for row in rows:
        typer.echo("\t".join(row))
