"""The command line: `penstock serve`, `penstock demo`, `penstock config check|show`, `penstock compile`, `penstock
completion`, and those that rooms bring along: `penstock watch`, `publish`, `bench`, `context`, `top`, `user`,
`pipeline`, `history`, `journal`, `tlex`, `admin` and others.

Not here: what the options mean (config/), what a server is made of (server.py and services/, imported only to serve).
Read next: docs/configuration.md.
"""

import errno
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock import BUILD, __version__, log
from penstock.adapters.access.commands import app as user_app
from penstock.backup.commands import backup, restore
from penstock.build.compiler import CompileError, Impossible, compile_sources
from penstock.client.admin_commands import app as admin_app
from penstock.client.benching import bench
from penstock.client.cluster_commands import app as cluster_app
from penstock.client.connection_commands import app as connection_app
from penstock.client.context_commands import app as context_app
from penstock.client.contexts import VARIABLE as CONTEXT_VARIABLE
from penstock.client.contexts import ContextError, place, read
from penstock.client.publishing import publish
from penstock.client.push_commands import app as push_app
from penstock.client.tlex_commands import app as tlex_client_app
from penstock.client.top import top
from penstock.client.watching import watch
from penstock.config import ConfigError, Loaded, as_json, as_toml, load
from penstock.config.keys import KeyPath
from penstock.config.loading import NOTHING, WITHOUT_JOURNAL
from penstock.erasure.commands import erase, erased
from penstock.extras import lack_in, lack_of
from penstock.history.commands import app as history_app
from penstock.init import init
from penstock.journal.commands import app as journal_app
from penstock.pipeline.commands import app as pipeline_app
from penstock.pipeline.companion import Companion, is_possible
from penstock.pipeline.maintain_command import maintain_command
from penstock.pipeline.sql_command import sql_command
from penstock.pipeline.streams import CLEAR, SPARK_LOG
from penstock.store.commands import app as tlex_app
from penstock.terminal import complaint, reader_left

if TYPE_CHECKING:
    from penstock.process import Beside

FULL_OR_BROKEN = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
"""What an operating system says of a disk."""

WRONG_CONFIGURATION = 2
"""Exit code, the same as for a wrong option."""

# Every option arrives as text and is checked like a value in the file, so that errors read the same for both.
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Configuration file (TOML). Without this option no file is read."),
]
Host = Annotated[str | None, typer.Option("--host", metavar="HOST", help="Address to listen on, for both ports.")]
Port = Annotated[str | None, typer.Option("--port", metavar="PORT", help="Streaming port; 0 means any free port.")]
ApiPort = Annotated[str | None, typer.Option("--api-port", metavar="PORT", help="API port; 0 means any free port.")]
DataDir = Annotated[
    str | None, typer.Option("--data-dir", metavar="DIR", help="Directory for everything that is kept on disk.")
]
LogLevel = Annotated[str | None, typer.Option("--log-level", metavar="LEVEL", help="debug, info, warning or error.")]
Workers = Annotated[
    str | None,
    typer.Option(
        "--workers",
        metavar="N",
        help="Number of processes that serve clients, to use several cores; 0 means one process for all.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]

# Plain help and plain errors: the output is read by scripts and logs as often as by people.
app = typer.Typer(
    help="A real-time data server.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
config_app = typer.Typer(help="Check or show the configuration.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(config_app, name="config")
app.add_typer(user_app, name="user")
app.add_typer(pipeline_app, name="pipeline")
history_app.command("erase")(erase)
history_app.command("erased")(erased)
history_app.command("maintain")(maintain_command)
app.command("sql")(sql_command)
app.add_typer(history_app, name="history")
app.add_typer(journal_app, name="journal")
app.command("init")(init)
app.command("backup")(backup)
app.command("restore")(restore)
app.command("watch")(watch)
app.command("publish")(publish)
app.command("bench")(bench)
app.add_typer(context_app, name="context")
app.command("top")(top)
app.add_typer(admin_app, name="admin")
app.add_typer(cluster_app, name="cluster")
app.add_typer(push_app, name="push")
app.add_typer(connection_app, name="connection")
tlex_app.add_typer(tlex_client_app)
app.add_typer(tlex_app, name="tlex")


def main() -> None:
    if COMPLETE in os.environ:
        from typer._completion_classes import completion_init

        completion_init()
    try:
        app(prog_name="penstock")
    except ModuleNotFoundError as error:
        lack = lack_in(error)
        if not lack:
            raise
        typer.echo(f"penstock: {lack}", err=True)
        raise SystemExit(1) from None
    except OSError as error:
        # A disk, and not a mistake of ours; a closed pipe ends commands before it gets here.
        if error.errno not in FULL_OR_BROKEN:
            raise
        if error.filename is None:
            reader_left()
        typer.echo(f"penstock: {error.filename or 'the output'} cannot be written: {error.strerror}", err=True)
        raise SystemExit(1) from None


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"penstock {__version__} ({BUILD})")
        raise typer.Exit


@app.callback()
def options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print version and build.", callback=_print_version, is_eager=True)
    ] = False,
    server: Annotated[
        str | None,
        typer.Option("--context", envvar=CONTEXT_VARIABLE, metavar="NAME", help="Server to ask (penstock context)."),
    ] = None,
) -> None:
    if context.invoked_subcommand in ASKING:
        _ask(context, server)


# Commands that ask a server, and the options that say which one.
ASKING = ("watch", "bench", "top", "publish", "admin")
ADDRESSES = ("--url", "--api")


def _ask(context: typer.Context, name: str | None) -> None:
    """What the chosen server says comes in place of the defaults of options."""
    # Who names an address means another server, which must not be sent the user and the password of this one.
    names_address = any(argument.partition("=")[0] in ADDRESSES for argument in sys.argv[1:])
    if names_address and name is None:
        return
    try:
        known = read(place())
        chosen = name or known.used
        if not chosen:
            return
        found = known.named(chosen)
    except ContextError as error:
        raise complaint(str(error), WRONG_CONFIGURATION) from None
    if names_address:
        raise complaint(f"--context {chosen} names a server, and so does --url or --api; expected one of them", 2)
    context.default_map = found.defaults()
    if found.password:
        os.environ.setdefault("PENSTOCK_ADMIN_PASSWORD", found.password)


SHELLS = ("bash", "zsh", "fish")
COMPLETE = "_PENSTOCK_COMPLETE"
"""The variable by which the scripts of shells ask what a word may become."""


@app.command()
def completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print a script that completes commands and options, such as: eval "$(penstock completion bash)"."""
    from typer._completion_shared import get_completion_script

    if shell not in SHELLS:
        raise complaint(f"{shell!r} is not known; expected one of {', '.join(SHELLS)}", WRONG_CONFIGURATION)
    typer.echo(get_completion_script(prog_name="penstock", complete_var=COMPLETE, shell=shell))


@app.command()
def serve(
    config: ConfigFile = None,
    host: Host = None,
    port: Port = None,
    api_port: ApiPort = None,
    data_dir: DataDir = None,
    log_level: LogLevel = None,
    workers: Workers = None,
) -> None:
    """Run the server until it is stopped. Without a configuration it serves the demo adapter sets."""
    loaded = _load(config, _overrides(host, port, api_port, data_dir, log_level, workers))
    raise typer.Exit(_run(loaded))


@app.command()
def demo(
    config: ConfigFile = None,
    host: Host = None,
    port: Port = None,
    api_port: ApiPort = None,
    data_dir: DataDir = None,
    log_level: LogLevel = None,
    workers: Workers = None,
    pipeline: Annotated[
        bool, typer.Option("--pipeline/--no-pipeline", help="Run Spark jobs beside the server, if Spark is installed.")
    ] = True,
    compile_beside: Annotated[
        bool,
        typer.Option("--compile", help="Compile while the server runs, for its next start."),
    ] = False,
) -> None:
    """Run the server with the demo adapter sets and the pipeline, and print the address of the page."""
    overrides = _overrides(host, port, api_port, data_dir, log_level, workers) | {"demo.enabled": True}
    from penstock.build.beside import Compilation  # no other command needs these
    from penstock.devices.company import Company, Devices
    from penstock.services.demo import demo_defaults

    loaded = _load(config, overrides, demo_defaults())
    if loaded.origins["journal.enabled"] == WITHOUT_JOURNAL:
        typer.echo(f"penstock: no journal, no twins and no history, because {lack_of('pyarrow')}")
    spark = _pipeline(loaded) if pipeline else None
    partners = [Devices(loaded.config), spark, Compilation() if compile_beside else None]
    beside = Company([each for each in partners if each is not None])
    raise typer.Exit(_run(loaded, beside, names_page=True))


@app.command("compile")
def compile_build(
    optional: Annotated[bool, typer.Option("--optional", help="Exit with 0 if the tools are missing.")] = False,
) -> None:
    """Compile kernel and wire, which makes the server faster. Needs a C compiler and the extra `compiled`."""
    try:
        folder = compile_sources(os.cpu_count() or 1, begin=_say_compiling)
    except Impossible as lack:
        typer.echo(f"penstock: the server runs interpreted because {lack}", err=True)
        raise typer.Exit(0 if optional else 1) from None
    except CompileError as error:
        typer.echo(f"penstock: compilation failed\n{error}", err=True)
        raise typer.Exit(1) from None
    typer.echo(f"penstock: compiled build: {folder}")


def _say_compiling() -> None:
    typer.echo("penstock: compiling, which takes a minute or two")


@config_app.command("check")
def config_check(
    config: ConfigFile = None,
    host: Host = None,
    port: Port = None,
    api_port: ApiPort = None,
    data_dir: DataDir = None,
    log_level: LogLevel = None,
    workers: Workers = None,
    as_json_object: Json = False,
) -> None:
    """Check the configuration. The exit code is 0 if the server would accept it, else 2."""
    overrides = _overrides(host, port, api_port, data_dir, log_level, workers)
    try:
        loaded = load(config, overrides)
    except ConfigError as error:
        raise _refusal(error, as_json_object) from None
    # Imported here and not at the top, because only this command needs everything that a server is made of.
    from penstock.rehearsal import rehearse
    from penstock.services.errors import StartError

    log.configure("error", loaded.config.log.format)
    try:
        warnings = rehearse(loaded)
    except ConfigError as error:
        raise _refusal(error, as_json_object) from None
    except StartError as error:
        raise _refusal(ConfigError(loaded.place, str(error)), as_json_object, str(error)) from None
    if as_json_object:
        typer.echo(json.dumps({"ok": True} | ({"warnings": warnings} if warnings else {})))
        return
    for warning in warnings:
        typer.echo(f"penstock: warning: {warning}", err=True)
    typer.echo(f"penstock: {config or 'defaults'}: ok")


@config_app.command("show")
def config_show(
    config: ConfigFile = None,
    host: Host = None,
    port: Port = None,
    api_port: ApiPort = None,
    data_dir: DataDir = None,
    log_level: LogLevel = None,
    workers: Workers = None,
    as_json_object: Json = False,
) -> None:
    """Print the effective configuration, each value with its origin."""
    loaded = _load(config, _overrides(host, port, api_port, data_dir, log_level, workers))
    typer.echo(as_json(loaded) if as_json_object else as_toml(loaded).removesuffix("\n"))


def _overrides(
    host: str | None,
    port: str | None,
    api_port: str | None,
    data_dir: str | None,
    log_level: str | None,
    workers: str | None,
) -> dict[str, Any]:
    given = {
        "stream.host": host,
        "api.host": host,
        "stream.port": port,
        "api.port": api_port,
        "server.data_dir": data_dir,
        "log.level": log_level,
        "server.workers": workers,
    }
    return {key: value for key, value in given.items() if value is not None}


def _load(path: Path | None, overrides: dict[str, Any], defaults: Mapping[KeyPath, object] = NOTHING) -> Loaded:
    try:
        return load(path, overrides, defaults)
    except ConfigError as error:
        raise _refusal(error) from None


def _refusal(error: ConfigError, as_json_object: bool = False, words: str = "") -> typer.Exit:
    """Print what is wrong, after the `words` of a failed start if there are any."""
    words = words or str(error)
    if as_json_object:
        found = {"place": error.place, "key": error.key, "value": error.value, "problem": error.problem}
        typer.echo(json.dumps({"ok": False, "error": words} | found))
    else:
        typer.echo(f"penstock: {words}", err=True)
    return typer.Exit(WRONG_CONFIGURATION)


def _run(loaded: Loaded, beside: "Beside | None" = None, *, names_page: bool = False) -> int:
    # Here and not at the top: checking or showing a configuration must not wait for the whole server.
    if loaded.config.server.workers:
        from penstock.launch import launch

        return launch(loaded, beside, names_page=names_page)
    if loaded.config.cluster.role != "none":
        from penstock.member import join

        return join(loaded, beside, names_page=names_page)
    from penstock.process import run

    return run(loaded, beside, names_page=names_page)


def _pipeline(loaded: Loaded) -> Companion | None:
    """The pipeline of the demo, with the options that the demo itself was given."""
    if not is_possible():
        typer.echo("pipeline: off, because Spark is not installed: pip install 'penstock[spark]'")
        return None
    config = loaded.config
    options = ["--data-dir", config.server.data_dir, "--log-level", config.log.level]
    if loaded.path is not None:
        options += ["--config", str(loaded.path)]
    return Companion(options, Path(config.server.data_dir) / "pipeline" / SPARK_LOG, _say_over_figures)


def _say_over_figures(line: str) -> None:
    """The pipeline shows figures on a terminal; elsewhere `echo` leaves out the code that clears them."""
    try:
        typer.echo(f"{CLEAR}{line}")
    except OSError:
        # Who has closed the output still has a server, and a pipeline that is stopped in order.
        reader_left()


if __name__ == "__main__":
    main()
