"""The commands `penstock pipeline run|list|status`, and `backfill` and `replay` for what is past.

Only `run` and `backfill` need pyspark, and import it when they are sure to use it. Not here: how queries are kept
running (runner). Read next: docs/pipeline.md.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import msgspec
import typer

from penstock import log
from penstock.config import Config, ConfigError, load
from penstock.durable import keep_to_owner
from penstock.extras import lack_of
from penstock.pipeline.errors import BadOption, PipelineError, explain
from penstock.pipeline.jobs import JOBS, Job
from penstock.pipeline.place import Place
from penstock.pipeline.streams import SPARK_LOG, Streams
from penstock.terminal import complaint

FAILED = 1
WRONG = 2
# By Ctrl-C, of a command that had something to finish.
INTERRUPTED = 130

# Characters of a query that a list shows.
ABOUT = 100

# Seconds before a process whose JVM died is replaced: the first time, and at most; it doubles in between. One that
# lived as long as the last of these has recovered, and the next time is again the first.
FIRST_REPLACE = 0.5
LAST_REPLACE = 60.0
RECOVERED = 60.0

# The replaced process tells the next one how long it has waited.
WAITED = "PENSTOCK_PIPELINE_WAITED"

# The module that the next one runs.
PROGRAM = "penstock.pipeline"

app = typer.Typer(help="Run Spark jobs over the journal.", no_args_is_help=True, rich_markup_mode=None)

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", metavar="FILE", help="The server's configuration file (TOML). Without this option no file is read."
    ),
]
DataDir = Annotated[str | None, typer.Option("--data-dir", metavar="DIR", help="The server's data directory.")]
Master = Annotated[
    str | None,
    typer.Option("--master", metavar="MASTER", help="Where Spark runs: local[*,4], spark://HOST:PORT, sc://HOST:PORT."),
]
Api = Annotated[str | None, typer.Option("--api", metavar="URL", help="The server's API address.")]
LogLevel = Annotated[str | None, typer.Option("--log-level", metavar="LEVEL", help="debug, info, warning or error.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


Since = Annotated[
    str, typer.Option("--since", metavar="TIME", help="Events at or after this time: 2026-01-31T12:00:00Z.")
]
Until = Annotated[str, typer.Option("--until", metavar="TIME", help="Events before this time.")]


@app.command("list")
def list_jobs(config: ConfigFile = None, as_json: Json = False) -> None:
    """Print the available jobs, and the queries of a configuration."""
    with one_line_on_error():
        jobs = [*JOBS.values(), *_queries(loaded(config, None))]
    if as_json:
        typer.echo(json.dumps([{"name": job.name, "about": job.about} for job in jobs]))
        return
    width = max(len(job.name) for job in jobs)
    for job in jobs:
        typer.echo(f"{job.name:<{width}}  {job.about}")


@app.command()
def status(config: ConfigFile = None, data_dir: DataDir = None, as_json: Json = False) -> None:
    """Print the status of the queries: rates, lag behind the journal, last batch, state."""
    from penstock.pipeline.reports import told
    from penstock.pipeline.status import damage_lines, read, table

    with one_line_on_error():
        place = Place.of(loaded(config, data_dir))
        if not place.data_dir.is_dir():
            raise BadOption(f"there is no directory {place.data_dir}; expected the server's data directory")
    found = read(place.status_dir)
    if as_json:
        typer.echo(json.dumps([msgspec.to_builtins(each.status) | {"gone": each.gone} for each in found]))
    elif found:
        typer.echo("\n".join([table(found), *damage_lines(told(place.damage), place.damage)]))
    else:
        typer.echo(f"penstock: no query has run in {place.data_dir} yet")


@app.command()
def run(
    names: Annotated[list[str], typer.Argument(metavar="NAME…", help="Jobs and queries; `pipeline list` names them.")],
    master: Master = None,
    config: ConfigFile = None,
    data_dir: DataDir = None,
    api: Api = None,
    once: Annotated[
        bool, typer.Option("--once", help="Process everything that is in the journal now, and exit.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the server has created its journal.")] = False,
    log_level: LogLevel = None,
    with_parent: Annotated[bool, typer.Option("--with-parent", hidden=True)] = False,
) -> None:
    """Run jobs until they are stopped: SIGTERM or Ctrl-C stops cleanly, a second one immediately."""
    with one_line_on_error():
        settings = loaded(config, data_dir, log_level)
        for name in names:
            if name not in JOBS and name not in settings.pipeline.queries:
                raise BadOption(f"NAME = {name}: expected {', '.join([*JOBS, *settings.pipeline.queries])}")
        place = Place.of(settings, api=api)
        need_spark()
        keep_to_owner()
        plans = [plan(settings, name) for name in dict.fromkeys(names)]
        options = spark_options(settings)
        if not wait:
            place.check_data(hint=". --wait waits for a server that is about to start")
        code = _run(settings, place, plans, master or settings.pipeline.master, options, once, with_parent)
    # Threads of Spark may be left, which nobody needs to wait for.
    sys.stderr.flush()
    os._exit(code)


@app.command()
def backfill(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The job.")],
    since: Since,
    until: Until,
    source: Annotated[str, typer.Option("--source", help="Where events are read: both, journal or lake.")] = "both",
    publish: Annotated[
        bool, typer.Option("--publish/--print", help="Publish the result, or print it: one JSON object per row.")
    ] = True,
    again: Annotated[
        str, typer.Option("--again", metavar="WORD", help="Publish a range again even if it was published before.")
    ] = "",
    master: Master = None,
    config: ConfigFile = None,
    data_dir: DataDir = None,
    api: Api = None,
) -> None:
    """Run a job over a past time range, with the same code, and publish the result."""
    with one_line_on_error():
        if name not in JOBS:
            raise BadOption(f"NAME = {name}: expected {', '.join(JOBS)}")
        begin, end = _moment("--since", since), _moment("--until", until)
        settings = loaded(config, data_dir)
        place = Place.of(settings, api=api)
        place.check_data(journal=source != "lake", lake=source != "journal")
        need_spark()
        keep_to_owner()
        chosen = plan(settings, name)
        place.status_dir.mkdir(parents=True, exist_ok=True)
        streams = Streams(place.status_dir / SPARK_LOG, settings)
        try:
            lines = apart(lambda: _backfill(settings, place, chosen, (begin, end), source, publish, again, master))
        except KeyboardInterrupt:
            streams.give_back()
            complaint("stopped; to publish the rest, run the same command again", INTERRUPTED)
            # Spark ends with us; nobody needs to wait for its threads.
            os._exit(INTERRUPTED)
        except Exception as error:
            streams.give_back()
            raise (error if isinstance(error, PipelineError) else PipelineError(explain(error))) from None
        streams.give_back()
        for line in lines:
            typer.echo(line)


@app.command()
def replay(
    patterns: Annotated[
        list[str], typer.Argument(metavar="ENTITY-PATTERN…", help="Entities, such as 'WELCOME/STOCKS/*'.")
    ],
    since: Since,
    until: Until,
    to: Annotated[str, typer.Option("--to", metavar="SET/ADAPTER", help="The ingest adapter to publish to.")],
    speed: Annotated[float, typer.Option("--speed", help="1 is the original speed, 1000 the maximum.")] = 1.0,
    mode: Annotated[str, typer.Option("--mode", help="MERGE, DISTINCT or COMMAND.")] = "MERGE",
    item: Annotated[
        str, typer.Option("--item", metavar="TEMPLATE", help="Name of the items; {item} is the name they had.")
    ] = "{item}",
    config: ConfigFile = None,
    data_dir: DataDir = None,
    api: Api = None,
) -> None:
    """Publish past events again, as live items."""
    from penstock.pipeline.outlet import Outlet
    from penstock.pipeline.replay import Replay, open_history, past

    with one_line_on_error():
        place = Place.of(loaded(config, data_dir), api=api)
        adapter_set, slash, adapter = to.partition("/")
        if not (adapter_set and slash and adapter):
            raise BadOption(f"--to = {to}: expected SET/ADAPTER")
        place.check_data(lake=True)
        events = past(open_history(place), patterns, _moment("--since", since), _moment("--until", until))
        with Outlet(place.api, adapter_set, adapter, place.token) as outlet:
            outlet.check()
            done = Replay(outlet, speed=speed, mode=mode, item=item).run(events)
    typer.echo(f"penstock: {done.events} events published in {done.batches} batches, {done.skipped} skipped")


# -- what the commands share -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JobPlan:
    """A job and its settings, as the job itself has declared them."""

    job: Job
    module: Any
    settings: Any


def loaded(config: Path | None, data_dir: str | None, log_level: str | None = None) -> Config:
    """The configuration; raises ConfigError."""
    given = {"server.data_dir": data_dir, "log.level": log_level}
    return load(config, {key: value for key, value in given.items() if value is not None}).config


def plan(config: Config, name: str) -> JobPlan:
    """Imports the job; raises BadOption."""
    for other in config.pipeline.jobs:
        if other not in JOBS:
            raise BadOption(f"pipeline.jobs.{other}: there is no such job; expected {', '.join(JOBS)}")
    if name in config.pipeline.queries:
        from penstock.pipeline import queries

        (job,) = [query for query in _queries(config) if query.name == name]
        return JobPlan(job, queries, queries.live_query(config, name))
    module = JOBS[name].load()
    try:
        settings = msgspec.convert(dict(config.pipeline.jobs.get(name, {})), module.Settings)
    except (msgspec.ValidationError, ValueError) as error:
        raise BadOption(f"pipeline.jobs.{name}: {error}") from None
    return JobPlan(JOBS[name], module, settings)


def _queries(config: Config) -> list[Job]:
    """The queries of a configuration, as jobs."""
    return [
        Job(name, f"SQL: {' '.join((section.sql or section.file).split())}"[:ABOUT], "", publishes=True)
        for name, section in config.pipeline.queries.items()
    ]


def need_spark() -> None:
    if importlib.util.find_spec("pyspark") is None:
        raise PipelineError(lack_of("pyspark"))


@contextmanager
def one_line_on_error() -> Iterator[None]:
    """A clear line and an exit code instead of a traceback."""
    try:
        yield
    except (BadOption, ConfigError) as error:
        raise complaint(str(error), WRONG) from None
    except PipelineError as error:
        raise complaint(str(error), FAILED) from None
    except KeyboardInterrupt:
        raise complaint("stopped", INTERRUPTED) from None


def apart(work: Callable[[], list[str]]) -> list[str]:
    """What the work comes to. In a thread: in the main one Spark takes SIGINT for itself, and prints what it breaks."""
    done: Future[list[str]] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name="spark", daemon=True).start()
    return done.result()


def _moment(option: str, text: str) -> datetime:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise BadOption(f"{option} = {text}: expected a time such as 2026-01-31T12:00:00Z") from None
    if when.tzinfo is None:
        raise BadOption(f"{option} = {text}: expected a time with its zone, such as {text}Z")
    return when


def _backfill(
    config: Config,
    place: Place,
    chosen: JobPlan,
    times: tuple[datetime, datetime],
    source: str,
    publish: bool,
    again: str,
    master: str | None,
) -> list[str]:
    """What there is to say to people about it."""
    from penstock.pipeline.backfill import backfill, publish_backfill
    from penstock.pipeline.engine import Spark

    name = chosen.job.name
    spark = Spark(
        f"penstock backfill {name}",
        place.cache,
        master=master or config.pipeline.master,
        memory=config.pipeline.memory,
        # The result is collected as a whole, whatever a batch of a stream may have: Spark's own default.
        settings={"spark.driver.maxResultSize": "1g", **spark_options(config)},
    )
    spark.open()
    try:
        result = backfill(spark.session, place, name, chosen.settings, *times, source=source)
    finally:
        spark.close()
    if not publish:
        return [json.dumps(row, default=str) for row in result.to_pylist()]
    outcomes = publish_backfill(place, name, chosen.settings, *times, result, again=again)
    rows = sum(outcome.rows for outcome in outcomes)
    repeated = " (published before: nothing changed)" if any(outcome.repeated for outcome in outcomes) else ""
    return [f"penstock: {name}: {result.num_rows} rows computed, {rows} published{repeated}"]


def spark_options(config: Config) -> dict[str, str]:
    """`[pipeline.spark]`; raises BadOption."""
    return {name: _option(name, value) for name, value in config.pipeline.spark.items()}


def _option(name: str, value: object) -> str:
    """As Spark writes it."""
    if not isinstance(value, str | int | float | bool):
        raise BadOption(f"pipeline.spark.{name}: expected text, a number or a switch")
    return str(value).lower() if isinstance(value, bool) else str(value)


# -- running ------------------------------------------------------------------------------------------------------


def _run(
    config: Config,
    place: Place,
    plans: list[JobPlan],
    master: str,
    options: dict[str, str],
    once: bool,
    with_parent: bool,
) -> int:
    # These stand on pyarrow, which no other command shall wait for.
    from penstock.journal.segment import SEGMENT_SUFFIX
    from penstock.pipeline.engine import Spark
    from penstock.pipeline.progress import StatusPublisher
    from penstock.pipeline.runner import SPARK_GONE, Runner, Task
    from penstock.pipeline.status import held

    names = [each.job.name for each in plans]
    with held(place.status_dir, names):
        streams = Streams(place.status_dir / SPARK_LOG, config)
        spark = Spark(
            f"penstock {' '.join(names)}",
            place.cache,
            master=master,
            memory=config.pipeline.memory,
            settings=options,
            archive=not once,
            checkpoints=place.checkpoint_root,
        )

        def task(each: JobPlan) -> Task:
            def start() -> Any:
                return each.module.start(spark.here(), place.with_token(), each.settings, once=once)

            def obstacle() -> str | None:
                if not place.remote and not any(place.journal.glob(f"*{SEGMENT_SUFFIX}")):
                    return f"there is no journal in {place.data_dir} yet"
                if each.job.publishes and place.with_token().token is None:
                    return f"there is no token in {place.token_file} yet"
                return None

            return Task(each.job.name, start, obstacle)

        runner = Runner(
            spark,
            [task(each) for each in in_order(plans)],
            place.remote_journal or place.journal,
            place.status_dir,
            restart=config.pipeline.restart == "always",
            once=once,
            pid=os.getpid(),
            damage=place.damage,
            publisher=StatusPublisher(place, *config.pipeline.status.split("/")) if config.pipeline.status else None,
            announce=streams.announce,
            show=streams.show,
            details=place.status_dir / SPARK_LOG,
            again=WAITED in os.environ,
        )
        stopped = threading.Event()

        def stop() -> None:
            # Whoever started us says so itself.
            runner.stop("" if with_parent else "stopping…")
            stopped.set()

        _listen(stop)
        if with_parent:
            _follow_parent(stop)
        begun = time.monotonic()
        try:
            code = runner.run()
        except Exception:
            # A bug of ours; the traceback would otherwise end among Spark's.
            log.get(__name__).exception("pipeline stopped")
            return FAILED
    if code != SPARK_GONE:
        return code
    told = log.get(__name__)
    if config.pipeline.restart != "always" or once:
        told.error("Spark has ended unexpectedly", details=str(place.status_dir / SPARK_LOG))
        return FAILED
    pause = replace_after(time.monotonic() - begun, os.environ.get(WAITED))
    told.error(
        "Spark has ended unexpectedly and is started again",
        seconds=pause,
        details=str(place.status_dir / SPARK_LOG),
    )
    if not stopped.wait(pause):
        streams.give_back()
        os.environ[WAITED] = str(pause)
        _replace()
    return FAILED


def in_order(plans: list[JobPlan]) -> list[JobPlan]:
    """Queries begin one after another. Clients wait for those that publish; nobody waits for `history`."""
    return sorted(plans, key=lambda each: not each.job.publishes)


def replace_after(lived: float, waited: str | None) -> float:
    """Seconds, for a process that ran so long, and before whose start there was this pause, if any."""
    if waited is None or lived >= RECOVERED:
        return FIRST_REPLACE
    return min(2 * float(waited), LAST_REPLACE)


def _replace() -> None:
    """By a process with the same number, arguments and parent: a JVM cannot be had twice in one."""
    given = sys.argv[1:]
    # Started as `penstock pipeline run …` or as `python -m penstock.pipeline run …`.
    arguments = given[1:] if given[:1] == ["pipeline"] else given
    os.execv(sys.executable, [sys.executable, "-m", PROGRAM, *arguments])


def _listen(stop: Callable[[], None]) -> None:
    signals = 0

    def hear(number: int, frame: FrameType | None) -> None:
        nonlocal signals
        signals += 1
        if signals > 1:
            os._exit(FAILED)
        stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, hear)


def _follow_parent(stop: Callable[[], None]) -> None:
    """Stop when standard input ends: whoever holds the other side is gone, even if it could not say so."""

    def wait() -> None:
        while os.read(0, 1024):
            pass
        stop()

    threading.Thread(target=wait, name="parent", daemon=True).start()
