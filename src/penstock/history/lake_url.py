"""A lake in an object store: its address, the options and credentials of requests, and its files by name.

Everything goes through deltalake, the log of commits and the Parquet files alike, so that there is one set of options.
What must survive is decided by one request, the conditional put of a commit (`penstock.pipeline.lake`). Not here: a
lake in a directory (`lake_root`). Read next: docs/pipeline.md, "The lake at a URL".
"""

from __future__ import annotations

import os
import re
import threading
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.config.object_store import COMMON, SCHEMES, scheme_of, wrong_option
from penstock.config.secret import is_secret

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyarrow.fs import PyFileSystem

# How the names of options begin that deltalake takes.
_PREFIXES = {"s3": "aws_", "gs": "google_", "abfss": ""}

# Instead of ten tries in three minutes: whoever waits is told sooner, and asks again.
_DEFAULTS = {"timeout": "30s", "max_retries": "8", "retry_timeout": "60s"}

# Where the environment may have an address without TLS: somebody who gives one means it.
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")

_ARROW = re.compile(r"\x1b\[[0-9;]*m|↳")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_STATUS = re.compile(r"\b([45]\d\d) ([A-Z][A-Za-z ]+[a-z])")
_QUERY = re.compile(r"(https?://[^\s?]+)\?\S+")
_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired")
_REFUSED = ("401", "403")
_NO_PLACE = {"NoSuchBucket": "bucket", "ContainerNotFound": "container"}
_CREDENTIALS = re.compile(r"Generic \w+ error (?:GCP credential error )?(?=Unable to|Invalid Access Key)")
_MAX_REASON = 300


def refusal(code: str, status: str) -> str | None:
    """What a store means by its code and an HTTP status; None: neither the credentials nor the place are wrong."""
    if code in _EXPIRED:
        return f"the credentials have expired ({code})"
    if code in _NO_PLACE:
        return f"there is no such {_NO_PLACE[code]}"
    if status[:3] in _REFUSED:
        return f"the object store refused the credentials ({code or status})"
    return None


class LakeUnavailable(OSError):
    """The object store did not do what it was asked; the text names the lake and the reason, on one line."""


class BadLake(ValueError):
    """A URL or an option that cannot be used."""


class LakeUrl:
    """Its address, to be shown, and its options, which are not. When pickled, the credentials of now go along.

    For any thread.
    """

    def __init__(
        self, url: str, options: Mapping[str, str] | None = None, credentials_file: Path | None = None
    ) -> None:
        """Raises BadLake."""
        self.url = url.rstrip("/")
        self.scheme = scheme_of(self.url)
        if self.scheme not in SCHEMES or not self.url.partition("://")[2].strip("/"):
            raise BadLake(f"{url}: expected {', '.join(f'{name}://…' for name in SCHEMES)} or file://…")
        self._options = {name: str(value) for name, value in (options or {}).items()}
        self._file = credentials_file
        self._check(self._options)
        self._lock = threading.Lock()
        # Sizes of files, so that opening one asks for nothing.
        self._sizes: dict[str, int] = {}
        self._files: PyFileSystem | None = None
        self._made_with: dict[str, str] = {}

    def __str__(self) -> str:
        return self.url

    def __repr__(self) -> str:
        return f"LakeUrl({self.url!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LakeUrl) and (self.url, self._options, self._file) == (
            other.url,
            other._options,
            other._file,
        )

    def __hash__(self) -> int:
        return hash(self.url)

    def __truediv__(self, folder: str) -> LakeUrl:
        return LakeUrl(f"{self.url}/{folder}", self._options, self._file)

    def __reduce__(self) -> tuple[Any, ...]:
        return LakeUrl, (self.url, self.sent())

    def sent(self) -> dict[str, str]:
        """Options for other machines, which do not have the file. Raises LakeUnavailable."""
        return {**self._options, **self._from_file()}

    # -- options --------------------------------------------------------------------------------------------------

    def options(self) -> dict[str, str]:
        """Of requests, as of now: the file with credentials may have changed. Raises LakeUnavailable."""
        found = {**_DEFAULTS, **self._options, **self._from_file()}
        endpoint = found.get("endpoint") or (
            next(filter(None, map(os.environ.get, _ENDPOINTS)), "") if self.scheme == "s3" else ""
        )
        if endpoint.startswith("http://"):
            found.setdefault("allow_http", "true")
        prefix = _PREFIXES[self.scheme]
        return {name if name in COMMON else prefix + name: value for name, value in found.items()}

    def _from_file(self) -> dict[str, str]:
        if self._file is None:
            return {}
        try:
            with self._file.open("rb") as file:
                found = {name: str(value) for name, value in tomllib.load(file).items()}
            self._check(found)
        except OSError as error:
            raise LakeUnavailable(f"lake.credentials_file = {self._file}: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError):
            # Without the parser's words, which may repeat a secret.
            raise LakeUnavailable(f"lake.credentials_file = {self._file}: expected TOML") from None
        except BadLake as error:
            raise LakeUnavailable(f"lake.credentials_file = {self._file}: {error}") from None
        return found

    def _check(self, options: Mapping[str, str]) -> None:
        wrong = wrong_option(self.scheme, options)
        if wrong is not None:
            raise BadLake(f"{wrong[0]}: {wrong[1]}")

    # -- tables ---------------------------------------------------------------------------------------------------

    def open_table(self) -> DeltaTable | None:
        """Its newest version; None if there is no table. Raises LakeUnavailable."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError

        try:
            return DeltaTable(self.url, storage_options=self.options())
        except TableNotFoundError:
            return None
        except (OSError, DeltaError) as error:
            raise self.unavailable("opened", error) from None

    # -- files ----------------------------------------------------------------------------------------------------

    def learn(self, sizes: Mapping[str, int]) -> None:
        """Of all files of the newest version. Without it a request tells, and deltalake holds Python's lock for it."""
        with self._lock:
            self._sizes, self._files = dict(sizes), None

    def open(self, name: str) -> Any:
        """A file to be read, for Arrow. Raises FileNotFoundError, perhaps only when it is read, and OSError."""
        return self._system().open_input_file(name)

    @contextmanager
    def write(self, name: str) -> Iterator[Any]:
        """A stream to write to: the file is there, whole, once this is left without an error."""
        with self._system().open_output_stream(name) as stream:
            yield stream

    def names(self, folder: str = "") -> list[str]:
        """Of all files in a folder and its folders; none if there is no such folder."""
        from pyarrow.fs import FileSelector

        found = self._system().get_file_info(FileSelector(folder, allow_not_found=True, recursive=True))
        return [each.path for each in found if each.is_file]

    def remove(self, name: str) -> None:
        self._system().delete_file(name)

    def _system(self) -> PyFileSystem:
        # Takes its time to load, and not all have a lake.
        from deltalake.fs import DeltaStorageHandler
        from pyarrow.fs import PyFileSystem

        options = self.options()
        with self._lock:
            if self._files is None or options != self._made_with:
                self._files = PyFileSystem(DeltaStorageHandler(self.url, options, self._sizes))
                self._made_with = options
            return self._files

    # -- what went wrong ------------------------------------------------------------------------------------------

    def unavailable(self, done: str, error: BaseException) -> LakeUnavailable:
        """`done` is what was to be done with it, such as "read"."""
        if isinstance(error, LakeUnavailable):
            return error
        return LakeUnavailable(f"the lake in {self.url} cannot be {done}: {self.reason(error)}")

    def reason(self, error: BaseException) -> str:
        """In plain words, on one line, without credentials."""
        text = " ".join(_ARROW.sub(" ", str(error)).split())
        code = _CODE.search(text)
        status = _STATUS.search(text)
        if "latest/api/token" in text or "computeMetadata" in text or "metadata/identity" in text:
            return "there are no credentials for it, neither in the environment nor in lake.options"
        refused = refusal("" if code is None else code[1], "" if status is None else status[0])
        if refused is not None:
            return refused
        if "timed out" in text:
            return "the object store did not answer in time"
        if status is not None:
            return f"the object store answered {status[1]} {status[2]}{f' ({code[1]})' if code is not None else ''}"
        if "error sending request" in text:
            last = text.rpartition("error sending request")[2].strip()
            return f"the object store cannot be reached: {last or 'the connection broke'}"
        text = _QUERY.sub(r"\1", _CREDENTIALS.sub("the credentials cannot be used: ", text))
        for name, value in {**self._options, **self._quietly_from_file()}.items():
            if is_secret(name) and value:
                text = text.replace(value, "***")
        return text[:_MAX_REASON] or type(error).__name__

    def _quietly_from_file(self) -> dict[str, str]:
        try:
            return self._from_file()
        except LakeUnavailable:
            return {}
