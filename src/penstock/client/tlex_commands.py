"""The commands `penstock tlex send|receive|monitor|vlog`: to try a TLEX hub out, and to see what passes through it.

Not here: the protocol (`tlex`), accounts and tokens (store.commands). Read next: docs/tlex.md.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.client.options import Authorities
from penstock.terminal import FAILED, UNREACHABLE, WRONG, complaint, reader_left

if TYPE_CHECKING:
    from ssl import SSLContext

    from penstock.client.tlex import Received, TlexApi, TlexStream
    from penstock.wire.tlex.vocabulary import SecurityMode, SessionType

app = typer.Typer(rich_markup_mode=None)

Identifiers = Annotated[list[str], typer.Argument(metavar="ID…", help="Controllers.")]
Domain = Annotated[str, typer.Option("--domain", metavar="DOMAIN", help="The domain of the token.")]
# Also from the environment, because everybody on the machine can see a command line.
AuthorizationToken = Annotated[
    str,
    typer.Option("--token", envvar="PENSTOCK_TLEX_TOKEN", metavar="TOKEN", help="Authorization token."),
]
Api = Annotated[str, typer.Option("--api", metavar="URL", help="The server's API port.")]
Tls = Annotated[bool, typer.Option("--tls", help="Ask for a session with TLS.")]
As = Annotated[str, typer.Option("--as", metavar="TYPE", help="Type of session: tlc or broker.")]
Count = Annotated[int | None, typer.Option("--count", metavar="N", help="Exit after this many payloads.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]
Patience = Annotated[
    float,
    typer.Option("--patience", metavar="SECONDS", min=0, help="How long to keep trying while the hub restarts."),
]

DEFAULT_API = "http://127.0.0.1:8081"

# Seconds. Long enough for a server to be started again.
DEFAULT_PATIENCE = 60.0

# Seconds between two tries: the first pause, which doubles, and the longest.
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 5.0

UNAVAILABLE = 503

# Imports are inside the commands, so that no other command has to wait for them.


@app.command()
def send(
    identifier: Annotated[str, typer.Argument(metavar="ID", help="The controller.")],
    domain: Domain,
    token: AuthorizationToken,
    payloads: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT…", help="Payloads. Default: the lines of standard input.")
    ] = None,
    api: Api = DEFAULT_API,
    type_: Annotated[int, typer.Option("--type", metavar="N", help="Payload type, 0 to 239.", min=0, max=0xEF)] = 2,
    hexadecimal: Annotated[bool, typer.Option("--hex", help="Payloads are bytes in hexadecimal.")] = False,
    be: As = "tlc",
    tls: Tls = False,
    ca: Authorities = None,
) -> None:
    """Send payloads, from a controller or to one."""
    session_type = _session_type(be)

    def encoded(text: str) -> bytes:
        try:
            return bytes.fromhex(text) if hexadecimal else text.encode()
        except ValueError:
            raise complaint(f"TEXT = {text[:60]}: expected bytes in hexadecimal", WRONG) from None

    async def run() -> None:
        import asyncio

        from penstock.wire.tlex.vocabulary import SessionType

        # A controller is itself; a broker has one session for many.
        singleplex = session_type is SessionType.TLC
        given = None if payloads is None else [encoded(text) for text in payloads]
        stream = await _open(api, token, domain, session_type, [identifier], tls, ca, singleplex=singleplex)
        count = 0
        async with stream:
            if given is not None:
                for payload in given:
                    stream.send(payload, type_, identifier)
                    count += 1
            else:
                while line := await asyncio.to_thread(sys.stdin.readline):
                    stream.send(encoded(line.rstrip("\r\n")), type_, identifier)
                    await stream.drain()
                    count += 1
            await stream.synchronize()
        typer.echo(f"penstock: {count} sent")

    _run(run())


@app.command()
def vlog(
    identifier: Annotated[str, typer.Argument(metavar="ID", help="The controller, of type VLOG.")],
    domain: Domain,
    token: AuthorizationToken,
    api: Api = DEFAULT_API,
    tls: Tls = False,
    ca: Authorities = None,
) -> None:
    """Pass on the V-Log of a controller: the lines of standard input, each a message in hexadecimal."""

    async def run() -> None:
        import asyncio

        from penstock.client.tlex_vlog import connect_vlog

        asked, context, security = _hub(api, token, tls, ca)
        count = 0
        async with await connect_vlog(
            await asked.create_vlog(domain, identifier, security=security), context
        ) as stream:
            while line := await asyncio.to_thread(sys.stdin.readline):
                if not line.strip():
                    continue
                try:
                    await stream.send(line)
                    count += 1
                except ValueError as error:
                    # Whatever a controller sends besides: the lines after it are wanted.
                    typer.echo(f"penstock: {error}", err=True)
        typer.echo(f"penstock: {count} sent")

    _run(run())


@app.command()
def receive(
    identifiers: Identifiers,
    domain: Domain,
    token: AuthorizationToken,
    api: Api = DEFAULT_API,
    be: As = "broker",
    tls: Tls = False,
    ca: Authorities = None,
    count: Count = None,
    as_json: Json = False,
    patience: Patience = DEFAULT_PATIENCE,
) -> None:
    """Print payloads from or to controllers as they arrive. If the hub shuts down, wait until it is back."""
    _run(_print_all(_session_type(be), identifiers, domain, token, api, tls, ca, count, as_json, patience))


@app.command()
def monitor(
    identifiers: Identifiers,
    domain: Domain,
    token: AuthorizationToken,
    api: Api = DEFAULT_API,
    tls: Tls = False,
    ca: Authorities = None,
    count: Count = None,
    as_json: Json = False,
    patience: Patience = DEFAULT_PATIENCE,
) -> None:
    """Print all payloads from and to controllers, with the times at which the hub received and sent them."""
    from penstock.wire.tlex.vocabulary import SessionType

    _run(_print_all(SessionType.MONITOR, identifiers, domain, token, api, tls, ca, count, as_json, patience))


async def _print_all(
    type_: SessionType,
    identifiers: list[str],
    domain: str,
    token: str,
    api: str,
    tls: bool,
    ca: Path | None,
    count: int | None,
    as_json: bool,
    patience: float,
) -> None:
    from penstock.client.tlex import TlexError

    async def open_stream() -> TlexStream:
        stream = await _open(api, token, domain, type_, identifiers, tls, ca)
        try:
            await stream.synchronize()
        except BaseException:
            await stream.close()
            raise
        return stream

    left = count
    is_known = False
    while True:
        async with await _patiently(open_stream, patience, is_known) as stream:
            is_known = True
            typer.echo("penstock: connected", err=True)
            if left != 0:
                async for received in stream:
                    typer.echo(json.dumps(_fields(received)) if as_json else _line(received))
                    left = None if left is None else left - 1
                    if left == 0:
                        break
            if left == 0:
                return
            if not stream.is_to_reconnect:
                raise TlexError(f"the hub has closed the connection: {stream.reason or 'without a reason'}")
        typer.echo("penstock: the hub asks to reconnect", err=True)


async def _patiently(open_stream: Callable[[], Awaitable[TlexStream]], patience: float, is_known: bool) -> TlexStream:
    """Try for some seconds: a hub that goes down refuses with 503, and then does not answer until it is up again.

    One that has never been there is not waited for: most likely its address is wrong.
    """
    import asyncio

    from penstock.client.tlex import TlexError, TlexRefused, TlexUnreachable

    now = asyncio.get_running_loop().time
    deadline, pause = now() + patience, FIRST_PAUSE
    while True:
        try:
            return await open_stream()
        except TlexError as error:
            is_away = error.status == UNAVAILABLE if isinstance(error, TlexRefused) else is_known
            if not is_away:
                raise
            left = deadline - now()
            if left <= 0:
                kind = TlexUnreachable if isinstance(error, TlexUnreachable) else TlexError
                raise kind(f"{error}; given up after {patience:g} s") from error
            pause = min(pause, left)
            typer.echo(f"penstock: {error}; next try in {pause:.1f} s", err=True)
        await asyncio.sleep(pause)
        pause = min(pause * 2, LONGEST_PAUSE)


def _fields(received: Received) -> dict[str, Any]:
    inner = received.monitor
    fields: dict[str, Any] = {
        "identifier": received.identifier,
        "type": received.type if inner is None else inner.type,
        "origin": received.origin,
        "payload": (received.data if inner is None else inner.data).hex(),
    }
    if inner is not None:
        fields |= {"published": inner.published, "sent": inner.sent, "session": inner.token}
    return fields


def _line(received: Received) -> str:
    inner = received.monitor
    data = received.data if inner is None else inner.data
    text = data.decode("ascii") if data.isascii() and data.decode("ascii").isprintable() else data.hex()
    type_ = received.type if inner is None else inner.type
    times = f"{received.origin}" if inner is None else f"{received.origin} {inner.published} {inner.sent}"
    return f"{received.identifier or '-'} {type_:02x} {times} {text}"


async def _open(
    api: str,
    token: str,
    domain: str,
    type_: SessionType,
    identifiers: list[str],
    tls: bool,
    ca: Path | None,
    *,
    singleplex: bool = False,
) -> TlexStream:
    from penstock.client.tlex import connect

    asked, context, security = _hub(api, token, tls, ca)
    return await connect(
        await asked.create(domain, type_, identifiers, singleplex=singleplex, security=security), context
    )


def _hub(api: str, token: str, tls: bool, ca: Path | None) -> tuple[TlexApi, SSLContext | None, SecurityMode]:
    from penstock.client.tlex import TlexApi
    from penstock.client.trust import trusting
    from penstock.wire.tlex.vocabulary import SecurityMode

    try:
        context = None if ca is None else trusting(ca)
        asked = TlexApi(api, token, context)
    except ValueError as error:
        raise complaint(str(error), WRONG) from None
    return asked, context, SecurityMode.TLS if tls else SecurityMode.NONE


def _session_type(be: str) -> SessionType:
    from penstock.wire.tlex.vocabulary import SessionType

    by_name = {"tlc": SessionType.TLC, "broker": SessionType.BROKER}
    if be not in by_name:
        raise complaint(f"--as = {be}: expected one of {', '.join(by_name)}", WRONG)
    return by_name[be]


def _run(coroutine: Coroutine[Any, Any, None]) -> None:
    import asyncio

    from penstock.client.tlex import TlexError, TlexUnreachable
    from penstock.client.trust import advice

    try:
        asyncio.run(coroutine)
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
    except BrokenPipeError:
        reader_left()
    except TlexUnreachable as error:
        raise complaint(f"{error}{advice(error)}", UNREACHABLE) from None
    except (TlexError, ValueError, OSError) as error:
        raise complaint(str(error), FAILED) from None
