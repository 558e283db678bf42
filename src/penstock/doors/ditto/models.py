"""Where Thing Models come from: folders and addresses that the configuration allows, kept for a while.

No request ever goes to an address that does not begin with an allowed prefix, and no redirect is followed, because the
addresses come from clients. What a model means is in `penstock.twins.wot`.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import re
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from pathlib import Path
from urllib.parse import urlsplit

from penstock.log import get
from penstock.twins.wot.model import ModelProblem, ThingModel
from penstock.twins.wot.resolution import MAX_DOCUMENTS, DocumentsNeeded, resolved
from penstock.wire.ditto.document import Json, NotJson, parse

log = get(__name__)

# Bytes of one document; a larger one is not a model.
MAX_BYTES = 1 << 20

# Seconds for one document, from the connection to its last byte.
FETCH_SECONDS = 10.0
TOO_LATE = f"timed out after {FETCH_SECONDS:g} seconds"

# Models that are kept; the one that was used longest ago is dropped.
MAX_MODELS = 1000

# Seconds for which a failure is remembered, so that a host that hangs is not asked again by every command.
FAILURE_SECONDS = 10.0

# What may come after a prefix: no "..", no escapes, no query.
_REST = re.compile(r"(?:[A-Za-z0-9_~-][A-Za-z0-9._~-]*/)*[A-Za-z0-9_~-][A-Za-z0-9._~-]*")

ACCEPTED_TYPES = "application/tm+json, application/ld+json, application/json"


class ModelStore:
    """`places` are prefixes of addresses; each has a folder, or None if its documents are fetched.

    `now` gives seconds. Documents are read on `executor`, never on the loop.
    """

    def __init__(
        self,
        places: Mapping[str, Path | None],
        executor: Executor,
        seconds: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        # The longest prefix that fits is the one that counts.
        self._places = sorted(places.items(), key=lambda place: -len(place[0]))
        self._executor = executor
        self._seconds = seconds
        self._now = now
        self._known: OrderedDict[str, tuple[float, ThingModel | ModelProblem]] = OrderedDict()
        self._loading: dict[str, asyncio.Task[ThingModel | ModelProblem]] = {}

    def has_model(self, url: str) -> bool:
        """Whether the configuration allows to look for a model at this address."""
        return self._place(url) is not None

    async def load(self, urls: Iterable[str]) -> dict[str, ThingModel | ModelProblem]:
        """The models at these addresses, or what is wrong with them. Each is loaded once, however many ask."""
        tasks = {url: self._task(url) for url in urls}
        return {url: await asyncio.shield(task) for url, task in tasks.items()}

    def known(self, loaded: Mapping[str, ThingModel | ModelProblem]) -> Mapping[str, ThingModel | ModelProblem]:
        """Those that need not be loaded now: the ones that are given, then the recent ones."""
        return _Known(self, loaded)

    def urls(self) -> list[str]:
        return list(self._known)

    def recent(self, url: str) -> ThingModel | ModelProblem | None:
        found = self._known.get(url)
        if found is None or found[0] <= self._now():
            return None
        self._known.move_to_end(url)
        return found[1]

    def _task(self, url: str) -> asyncio.Task[ThingModel | ModelProblem]:
        task = self._loading.get(url)
        if task is None:
            task = self._loading[url] = asyncio.get_running_loop().create_task(self._load(url))
            task.add_done_callback(lambda _: self._loading.pop(url, None))
        return task

    async def _load(self, url: str) -> ThingModel | ModelProblem:
        found = self.recent(url)
        if found is None:
            found = await self._resolve(url)
            is_failure = isinstance(found, ModelProblem)
            if isinstance(found, ModelProblem):
                log.warning("a thing model cannot be used", url=url, reason=found.text)
            self._known[url] = (self._now() + (FAILURE_SECONDS if is_failure else self._seconds), found)
            self._known.move_to_end(url)
            while len(self._known) > MAX_MODELS:
                self._known.popitem(last=False)
        return found

    async def _resolve(self, url: str) -> ThingModel | ModelProblem:
        documents: dict[str, Json | ModelProblem] = {}
        loop = asyncio.get_running_loop()
        for _ in range(MAX_DOCUMENTS + 1):
            try:
                return await loop.run_in_executor(self._executor, resolved, url, documents)
            except DocumentsNeeded as needed:
                read = await loop.run_in_executor(self._executor, self._read, needed.url)
                if isinstance(read, ModelProblem) and needed.url == url:
                    return read
                documents[needed.url] = read
        return ModelProblem(url, "The model needs too many documents.", is_invalid=True)

    # -- one document, on a thread ---------------------------------------------------------------------------------

    def _place(self, url: str) -> tuple[str, Path | None] | None:
        for prefix, folder in self._places:
            if url.startswith(prefix) and _REST.fullmatch(url, len(prefix)):
                return url[len(prefix) :], folder
        return None

    def _read(self, url: str) -> Json | ModelProblem:
        place = self._place(url)
        if place is None:
            return ModelProblem(url, "The address is not among those that the configuration allows.")
        rest, folder = place
        try:
            text = fetch(url) if folder is None else read_file(folder, rest)
        except (OSError, http.client.HTTPException) as error:
            return ModelProblem(url, f"It could not be read: {str(error) or type(error).__name__}.")
        if isinstance(text, ModelProblem):
            return text
        if len(text) > MAX_BYTES:
            return ModelProblem(url, f"It has more than {MAX_BYTES} bytes.", is_invalid=True)
        try:
            return parse(text)
        except NotJson as error:
            return ModelProblem(url, f"It is not JSON: {error}", is_invalid=True)


class _Known(Mapping[str, ThingModel | ModelProblem]):
    """The models of a store, as the rules look at them."""

    def __init__(self, store: ModelStore, loaded: Mapping[str, ThingModel | ModelProblem]) -> None:
        self._store = store
        self._loaded = loaded

    def __getitem__(self, url: str) -> ThingModel | ModelProblem:
        found = self._loaded.get(url) or self._store.recent(url)
        if found is None:
            raise KeyError(url)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter({**self._loaded, **dict.fromkeys(self._store.urls())})

    def __len__(self) -> int:
        return len(list(iter(self)))


def read_file(folder: Path, rest: str) -> bytes:
    """A file below a folder, at most one byte more than allowed. Raises OSError, also for a link that leads out."""
    path = folder / rest
    try:
        if not path.resolve(strict=True).is_relative_to(folder.resolve()):
            raise FileNotFoundError
        with path.open("rb") as file:
            return file.read(MAX_BYTES + 1)
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, RuntimeError):
        # A loop of links is a RuntimeError before Python 3.13.
        raise OSError(f"there is no file {path.name}") from None


def fetch(url: str) -> bytes | ModelProblem:
    """The body at an address, at most one byte more than allowed. Blocks; raises OSError and HTTPException."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=FETCH_SECONDS)
    end = time.monotonic() + FETCH_SECONDS
    connection.connect()
    # The time-out of a socket begins again with every byte; a host that sends one now and then would never be late.
    guard = threading.Timer(end - time.monotonic(), _cut, (connection.sock,))
    guard.start()
    try:
        connection.request("GET", parts.path, headers={"accept": ACCEPTED_TYPES, "connection": "close"})
        response = connection.getresponse()
        if response.status != 200:
            told = "redirects are not followed" if 300 <= response.status < 400 else "expected 200"
            return ModelProblem(url, f"The answer has status {response.status}; {told}.")
        body = response.read(MAX_BYTES + 1)
    except (OSError, http.client.HTTPException):
        if time.monotonic() < end:
            raise
        raise TimeoutError(TOO_LATE) from None
    else:
        if time.monotonic() >= end:
            raise TimeoutError(TOO_LATE)
        return body
    finally:
        guard.cancel()
        connection.close()


def _cut(line: socket.socket) -> None:
    # It may have been closed in the same moment.
    with contextlib.suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)
