"""Where a pipeline works: the data directory it shares with the server, and the server's API port.

Plain data that may travel to tasks; nothing of Spark. Not here: how Spark itself is set up (session).
Read next: `[pipeline]` in docs/configuration.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.config import Config
from penstock.config.address import address_of
from penstock.history.lake_root import FOLDER, LakeRoot, lake_of, may_be
from penstock.history.lake_url import LakeUrl
from penstock.pipeline.errors import BadOption
from penstock.pipeline.token import read_token

if TYPE_CHECKING:
    from penstock.pipeline.remote import RemoteJournalAddress

_EVERY_INTERFACE = {"0.0.0.0": "127.0.0.1", "::": "::1"}


@dataclass(frozen=True)
class Place:
    """`token` opens the ingest adapters that jobs publish to; None: there is none, or not yet in its file."""

    data_dir: Path
    api: str
    token: str | None = None
    # Where the token is looked up, unless it was given: a server that makes it at random leaves it here.
    token_file: Path | None = None
    # Whether the journal is read over the network, from the server; and with which token, or which file of one.
    remote: bool = False
    reader_token: str | None = field(default=None, repr=False)
    reader_token_file: Path | None = None
    # A directory or a URL for checkpoints; empty: in the data directory.
    checkpoint_root: str = ""
    # Where the lake is; None: in the data directory.
    lake_root: LakeRoot | None = None

    @classmethod
    def of(cls, config: Config, *, api: str | None = None) -> Place:
        """As configured; `api` is what the command line says about it. Raises BadOption."""
        pipeline = config.pipeline
        data_dir = Path(config.server.data_dir).resolve()
        address = _checked(api, "--api") if api else _checked(pipeline.api, "pipeline.api")
        given = replace(
            cls(data_dir, address or _own(config), pipeline.token or None),
            checkpoint_root=pipeline.checkpoints,
            lake_root=lake_of(config, data_dir),
        )
        if pipeline.journal == "server":
            if bool(pipeline.reader_token) == bool(pipeline.reader_token_file):
                raise BadOption(
                    'pipeline.journal is "server"; expected pipeline.reader_token or pipeline.reader_token_file as well'
                )
            file = Path(pipeline.reader_token_file).resolve() if pipeline.reader_token_file else None
            given = replace(given, remote=True, reader_token=pipeline.reader_token or None, reader_token_file=file)
        if pipeline.token:
            return given
        token_file = Path(pipeline.token_file).resolve() if pipeline.token_file else data_dir / "pipeline" / "token"
        return replace(given, token_file=token_file).with_token()

    def with_token(self) -> Place:
        """The same with the token that its file has now: the server may have been started meanwhile."""
        if self.token_file is None:
            return self
        if not self.token_file.exists():
            return self
        return replace(self, token=read_token(None, self.token_file))

    def check_data(self, *, lake: bool = False, journal: bool = True, hint: str = "") -> None:
        """Refuse a directory that has nothing to read: neither of those asked for. Raises BadOption."""
        if journal and self.remote:
            # Whether the server has one is found out by asking it.
            return
        wanted = {"journal": self.journal.is_dir()} if journal else {}
        wanted |= {"lake": may_be(self.lake)} if lake else {}
        if any(wanted.values()):
            return
        missing = f"neither a {' nor a '.join(wanted)}" if len(wanted) > 1 else f"no {next(iter(wanted))}"
        where = "" if self.data_dir.is_dir() else ", which does not exist"
        raise BadOption(f"there is {missing} in {self.data_dir}{where}; expected the server's data directory{hint}")

    def check_directory(self, what: str) -> None:
        """Refuse what can only be done beside the server. Raises BadOption."""
        if self.remote:
            raise BadOption(f'{what} needs the journal\'s directory, and pipeline.journal is "server"')

    def check_tables(self, what: str) -> None:
        """Refuse tables whose lake is in a directory that only the server has. Raises BadOption."""
        if self.remote and not isinstance(self.lake, LakeUrl):
            raise BadOption(
                f"{what} needs lake.url of the configuration, because the journal is read from a server, and its "
                "tables have what is in the lake"
            )

    @property
    def remote_journal(self) -> RemoteJournalAddress | None:
        """Where the journal is read over the network; None if its directory is read. Raises BadOption."""
        if not self.remote:
            return None
        # It stands on pyarrow, which no command that only lists shall wait for.
        from penstock.pipeline.remote import RemoteJournalAddress

        address = RemoteJournalAddress(self.api, self.reader_token, self.reader_token_file)
        address.check()
        return address

    @property
    def journal(self) -> Path:
        return self.data_dir / "journal"

    @property
    def lake(self) -> LakeRoot:
        return self.data_dir / FOLDER if self.lake_root is None else self.lake_root

    @property
    def status_dir(self) -> Path:
        """One file for each query, and what Spark itself has to say."""
        return self.data_dir / "pipeline"

    @property
    def damage(self) -> Path:
        """Notes about places of the journal that could not be read."""
        return self.status_dir / "damage"

    @property
    def cache(self) -> Path:
        """What Spark keeps only while it runs."""
        return self.status_dir / "cache"

    def checkpoints(self, name: str) -> Path:
        """Of a job that runs beside the server."""
        return self.data_dir / "checkpoints" / name

    def checkpoint(self, name: str) -> str:
        """Of any job: a path, or a URL."""
        if not self.checkpoint_root:
            return str(self.checkpoints(name))
        if "://" in self.checkpoint_root:
            return f"{self.checkpoint_root.rstrip('/')}/{name}"
        return str(Path(self.checkpoint_root).resolve() / name)


def _checked(address: str, name: str) -> str:
    if address and not address.startswith(("http://", "https://")):
        raise BadOption(f"{name} is {address!r}; expected an address such as http://127.0.0.1:8081")
    return address.rstrip("/")


def _own(config: Config) -> str:
    """The address of the server with the same configuration, seen from the same machine."""
    host = _EVERY_INTERFACE.get(config.api.host, config.api.host)
    return f"{'https' if config.api.tls.enabled else 'http'}://{address_of(host, config.api.port)}"
