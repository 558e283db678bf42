"""The keys that tokens are signed with: a JSON Web Key Set from a file or a URL, cached and read again at times.

The key determines its algorithm, so that no token can choose one. Not here: the tokens (tokens).
Specification: RFC 7517, RFC 7518.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from jwt import PyJWK
from jwt.exceptions import PyJWTError

from penstock.adapters.access.settings import AccessError
from penstock.log import get

log = get(__name__)

# Seconds between two readings that unknown key identifiers ask for: anybody can send one.
LEAST_GAP = 10.0

# How long a URL may take to answer, and how much a key set may hold.
FETCH_SECONDS = 5.0
MAX_SET_BYTES = 1_048_576
MAX_KEYS = 100

# Anything shorter can be broken; RFC 7518, 3.2 and 3.3.
LEAST_SECRET_BYTES = 32
LEAST_RSA_BITS = 2_048

# By key type: the one algorithm, and the members that make up the public key.
ALGORITHMS = {"RSA": "RS256", "EC": "ES256", "oct": "HS256"}
MEMBERS = {"RSA": ("kty", "n", "e"), "EC": ("kty", "crv", "x", "y"), "oct": ("kty", "k")}

FetchKeys = Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class SigningKey:
    algorithm: str
    identifier: str | None
    material: Any

    def __repr__(self) -> str:
        return f"Key({self.algorithm}, {self.identifier!r})"


def secret_key(path: Path) -> SigningKey:
    """The content of a file, without the end of its last line, as the secret of HS256."""
    secret = _read_file(path).rstrip(b"\r\n")
    if len(secret) < LEAST_SECRET_BYTES:
        raise AccessError(f"{path}: expected a secret of at least {LEAST_SECRET_BYTES} bytes, not {len(secret)}")
    return SigningKey("HS256", None, secret)


class KeyStore:
    """Lives on one event loop; reading happens on threads. A reading that fails leaves the keys as they are."""

    def __init__(
        self,
        read: FetchKeys,
        place: str,
        algorithms: Collection[str],
        refresh_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._place = place
        self._algorithms = algorithms
        self._refresh_seconds = refresh_seconds
        self._clock = clock
        self._keys: tuple[SigningKey, ...] = ()
        self._read_at = float("-inf")
        self._tried_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    async def load(self) -> None:
        """Raises AccessError if there are no keys."""
        content = await asyncio.to_thread(self._read)
        self._keys = parse(content, self._place, self._algorithms)
        self._read_at = self._clock()

    async def find(self, algorithm: str, identifier: str | None) -> SigningKey | None:
        """The key for a token; for an unknown one the keys are read again, but not too often."""
        if self._clock() - self._read_at >= self._refresh_seconds:
            # Nobody has to wait for this: the present keys are valid until there are new ones.
            self._refresh()
        found = choose(self._keys, algorithm, identifier)
        if found is None and (reading := self._refresh()) is not None:
            # All waiters share one reading; if one of them is cancelled, it must go on.
            await asyncio.shield(reading)
            found = choose(self._keys, algorithm, identifier)
        return found

    def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()

    def _refresh(self) -> asyncio.Task[None] | None:
        if self._reading is None:
            now = self._clock()
            if now - self._tried_at < LEAST_GAP:
                return None
            self._tried_at = now
            self._reading = asyncio.get_running_loop().create_task(self._load_again())
        return self._reading

    async def _load_again(self) -> None:
        try:
            await self.load()
        except AccessError as error:
            log.warning("token keys not read again, the old ones stay", reason=str(error))
        except Exception:
            log.exception("token keys not read again, the old ones stay", place=self._place)
        finally:
            self._reading = None


def choose(keys: Sequence[SigningKey], algorithm: str, identifier: str | None) -> SigningKey | None:
    """The key of that identifier; without one on either side, the only key of the algorithm."""
    fitting = [key for key in keys if key.algorithm == algorithm]
    if identifier is not None:
        named = [key for key in fitting if key.identifier == identifier]
        if named:
            return named[0]
        fitting = [key for key in fitting if key.identifier is None]
    return fitting[0] if len(fitting) == 1 else None


def parse(content: bytes, place: str, algorithms: Collection[str]) -> tuple[SigningKey, ...]:
    """The usable keys of a set; raises AccessError if there are none. Others are logged and left out."""
    expected = f"{place}: expected a JSON Web Key Set"
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise AccessError(f"{expected}, but it is not JSON") from None
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise AccessError(f'{expected}: an object with a list "keys"')
    if len(listed) > MAX_KEYS:
        raise AccessError(f"{expected} of at most {MAX_KEYS} keys, not {len(listed)}")
    found = []
    for number, entry in enumerate(listed, 1):
        try:
            found.append(_key(entry, algorithms))
        except ValueError as problem:
            log.warning("token key ignored", place=place, key=number, reason=str(problem))
    if not found:
        raise AccessError(f"{expected} with a key for one of {', '.join(algorithms)}")
    return tuple(found)


def _key(entry: object, algorithms: Collection[str]) -> SigningKey:
    """Raises ValueError, with nothing of the key in it."""
    if not isinstance(entry, dict):
        raise ValueError("not an object")
    kind = entry.get("kty")
    algorithm = ALGORITHMS.get(kind) if isinstance(kind, str) else None
    if algorithm is None or (kind == "EC" and entry.get("crv") != "P-256"):
        raise ValueError("an unsupported type of key")
    if algorithm not in algorithms:
        raise ValueError(f"{algorithm} is not among the algorithms")
    if entry.get("alg", algorithm) != algorithm or entry.get("use", "sig") != "sig":
        raise ValueError(f"not meant for signatures with {algorithm}")
    identifier = entry.get("kid")
    if identifier is not None and not isinstance(identifier, str):
        raise ValueError("kid is not text")
    # Only what is public of it, should the set hold private keys by mistake.
    return SigningKey(
        algorithm, identifier, _material({name: entry.get(name) for name in MEMBERS[str(kind)]}, algorithm)
    )


def _material(public: Mapping[str, Any], algorithm: str) -> Any:
    try:
        material = PyJWK(dict(public), algorithm=algorithm).key
    except (PyJWTError, ValueError, TypeError, AttributeError):
        raise ValueError("its numbers are not a valid key") from None
    if algorithm == "RS256" and material.key_size < LEAST_RSA_BITS:
        raise ValueError(f"shorter than {LEAST_RSA_BITS} bits")
    if algorithm == "HS256" and len(material) < LEAST_SECRET_BYTES:
        raise ValueError(f"shorter than {LEAST_SECRET_BYTES} bytes")
    return material


# -- where they come from -------------------------------------------------------------------------------------------


def source(place: str, directory: Path) -> FetchKeys:
    """For a path, relative to the directory, or a URL; raises AccessError for a URL that others could intercept."""
    if "://" not in place:
        return lambda: _read_file(directory / place)
    try:
        parts = urlsplit(place)
        host = parts.hostname or ""
        # Asked for here, because a wrong one shows only then.
        _ = parts.port
    except ValueError:
        host = ""
    if not host or parts.username or not (parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host))):
        raise AccessError(f"tokens: keys = {place}: expected a path, or a URL with https or of this machine")
    return lambda: _fetch(place, _is_loopback(host))


def _read_file(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_SET_BYTES + 1)
    except OSError as error:
        raise AccessError(f"{path}: expected a readable file of keys ({error.strerror})") from None
    if len(content) > MAX_SET_BYTES:
        raise AccessError(f"{path}: expected at most {MAX_SET_BYTES} bytes of keys")
    return content


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A URL that was checked must not redirect to one that was not."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


def _fetch(url: str, loopback: bool) -> bytes:
    # No proxy for this machine itself.
    handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
    if loopback:
        handlers.append(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + FETCH_SECONDS
    content = b""
    try:
        with urllib.request.build_opener(*handlers).open(url, timeout=FETCH_SECONDS) as response:
            while piece := response.read1(65_536):
                content += piece
                if len(content) > MAX_SET_BYTES:
                    raise AccessError(f"{url}: expected at most {MAX_SET_BYTES} bytes of keys")
                if time.monotonic() > deadline:
                    raise AccessError(f"{url}: expected keys within {FETCH_SECONDS:g} s")
    except urllib.error.HTTPError as error:
        error.close()
        raise AccessError(f"{url}: expected status 200, not {error.code}") from None
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, TimeoutError):
            raise AccessError(f"{url}: expected keys within {FETCH_SECONDS:g} s") from None
        raise AccessError(f"{url}: cannot be fetched ({reason})") from None
    return content
