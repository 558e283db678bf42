"""The command `penstock bench`: a small load on any server, so that people can size theirs.

Not here: the sessions (`load`). The server's own limits, side by side with peers: `make bench`, docs/performance.md.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.client.following import check_text, follow
from penstock.client.options import STREAM_PORT, Authorities, Password, StreamUrl, UserName
from penstock.client.watching import MODES, chosen_mode, chosen_names
from penstock.terminal import WRONG, complaint

if TYPE_CHECKING:
    from penstock.client.load import LoadFigures

MAX_SESSIONS = 10_000
"""More need more than one process of this client, and more descriptors than most systems give one."""

BUSY = 0.9
"""Part of a core above which this client, and not the server, is likely to be what was measured."""

# Imports are inside the command, so that no other command has to wait for them.


def bench(
    adapter_set: Annotated[str, typer.Argument(metavar="SET", help="The adapter set.")],
    items: Annotated[list[str], typer.Argument(metavar="ITEM…", help="The items that every session subscribes to.")],
    fields: Annotated[str, typer.Option("--fields", metavar="NAMES", help="The fields, separated by spaces.")],
    adapter: Annotated[str | None, typer.Option("--adapter", metavar="NAME", help="The data adapter.")] = None,
    mode: Annotated[str, typer.Option("--mode", metavar="MODE", help=f"{', '.join(MODES)}.")] = "MERGE",
    sessions: Annotated[int, typer.Option("--sessions", metavar="N", help="Number of sessions.")] = 100,
    seconds: Annotated[
        float, typer.Option("--seconds", metavar="N", help="How long to measure; Ctrl-C ends it sooner.")
    ] = 10.0,
    max_frequency: Annotated[
        float | None,
        typer.Option("--max-frequency", metavar="N", help="Maximum number of updates per second of each item."),
    ] = None,
    time_field: Annotated[
        str | None,
        typer.Option(
            "--time-field",
            metavar="FIELD",
            help="A field with the time of the update in milliseconds since 1970; its age is measured then.",
        ),
    ] = None,
    url: StreamUrl = STREAM_PORT,
    ca: Authorities = None,
    user: UserName = None,
    password: Password = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Put a small load on a server: sessions that subscribe to items. Shows updates, bytes and latencies.

    Exit codes: 0 measured, 1 refused by the server, 2 wrong options, 3 no connection to a server.
    """
    from penstock.client.address import socket_address
    from penstock.client.load import LoadFigures, LoadWishes, close_all, measure, open_all
    from penstock.client.trust import trusting

    try:
        wanted, columns = chosen_names("ITEM", items), chosen_names("--fields", fields)
        if not 1 <= sessions <= MAX_SESSIONS:
            raise ValueError(f"--sessions is {sessions}; expected 1 to {MAX_SESSIONS}")
        for name, number in (("--seconds", seconds), ("--max-frequency", max_frequency)):
            if number is not None and not 0 < number < math.inf:
                raise ValueError(f"{name} is {number:g}; expected a number above 0")
        if time_field is not None and time_field not in columns:
            raise ValueError(f"--time-field is {time_field!r}; expected one of the fields {', '.join(columns)}")
        for name, text in (("SET", adapter_set), ("--adapter", adapter), ("--user", user), ("--password", password)):
            check_text(name, text)
        secure = socket_address(url).startswith("wss:")
        wishes = LoadWishes(
            url=url,
            adapter_set=adapter_set,
            items=wanted,
            fields=columns,
            mode=chosen_mode(mode),
            data_adapter=adapter,
            max_frequency=max_frequency,
            user=user,
            password=password,
            time_field=time_field,
            tls=trusting(ca) if secure else None,
        )
    except ValueError as error:
        raise complaint(str(error), WRONG) from None
    figures = LoadFigures()

    async def run() -> None:
        if not as_json:
            typer.echo(f"penstock: opening {sessions} sessions at {url}", err=True)
        opened = await open_all(wishes, figures, sessions)
        try:
            if not as_json:
                typer.echo(f"penstock: measuring for {seconds:g} s", err=True)
            measured, core = await measure(opened, figures, seconds)
        finally:
            await close_all(opened)
        result = _result(figures, sessions, len(wanted), measured, core)
        typer.echo(json.dumps(result) if as_json else _table(result))
        if core > BUSY:
            typer.echo(
                f"penstock: this client used {core:.0%} of a core, so it may be what limits these figures;"
                " use fewer sessions, or several machines",
                err=True,
            )

    follow(url, f"{adapter_set}/{adapter or 'DEFAULT'}", run)


def _result(figures: LoadFigures, sessions: int, items: int, seconds: float, core: float) -> dict[str, object]:
    return {
        "sessions": sessions,
        "sessions_lost": figures.ended,
        "subscribed_items": sessions * items,
        "seconds": round(seconds, 3),
        "updates": figures.updates,
        "updates_per_second": round(figures.updates / seconds, 1),
        "updates_lost": figures.lost,
        "bytes": figures.bytes,
        "bytes_per_second": round(figures.bytes / seconds),
        "bytes_per_update": round(figures.bytes / figures.updates, 1) if figures.updates else None,
        "opening_millis": _quantiles(figures.opening),
        "answer_millis": _quantiles(figures.answers),
        "age_millis": _quantiles(figures.ages),
        "client_core": round(core, 2),
    }


def _quantiles(values: list[float]) -> dict[str, float] | None:
    """Median, 99th percentile and the largest; None if nothing was measured."""
    if not values:
        return None
    ordered = sorted(values)
    at = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {name: round(ordered[math.ceil(part * len(ordered)) - 1], 1) for name, part in at.items()}


ROWS = (
    ("sessions", "sessions", "{:,}"),
    ("sessions lost", "sessions_lost", "{:,}"),
    ("items subscribed to", "subscribed_items", "{:,}"),
    ("updates/s", "updates_per_second", "{:,.1f}"),
    ("updates lost", "updates_lost", "{:,}"),
    ("kB/s", "bytes_per_second", "{:,.1f}"),
    ("bytes per update", "bytes_per_update", "{}"),
)
TIMES = (
    ("opening a session, ms", "opening_millis"),
    ("answer to a request, ms", "answer_millis"),
    ("age of an update, ms", "age_millis"),
)


def _table(result: dict[str, object]) -> str:
    """What a person reads."""
    lines = []
    for title, key, form in ROWS:
        value = result[key]
        if key == "bytes_per_second":
            value = float(str(value)) / 1_000
        lines.append(f"{title:<24}{'-' if value is None else form.format(value):>14}")
    lines.append(f"{'':<24}{'p50':>14}{'p99':>10}{'max':>10}")
    for title, key in TIMES:
        found = result[key]
        if isinstance(found, dict):
            lines.append(f"{title:<24}{found['p50']:>14,.1f}{found['p99']:>10,.1f}{found['max']:>10,.1f}")
    lines.append(f"{'this client':<24}{float(str(result['client_core'])):>14.0%}  of a core")
    return "\n".join(lines)
