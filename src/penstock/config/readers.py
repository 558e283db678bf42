"""Who may read the journal over the network, `[journal.readers.NAME]`: what is checked, and how its values are read.

Not here: the keys (schema/journal.py), the routes (penstock.services.readers).
"""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from penstock.config.errors import ConfigError
from penstock.config.keys import dotted
from penstock.config.schema.config import Config
from penstock.config.tokens import MIN_TOKEN_LENGTH, tokens_in


def check_readers(config: Config, places: Mapping[str, str]) -> None:
    """Whether each has a token that nobody can guess, and the time when it ends is one. Raises ConfigError.

    `places` says where each key was set.
    """
    for name, reader in config.journal.readers.items():
        path = ("journal", "readers", name)
        place = places[dotted((*path, "entities"))]
        if not config.journal.enabled:
            raise ConfigError(place, "expected journal.enabled to be true as well", key=dotted(path))
        if not reader.entities:
            key = dotted((*path, "entities"))
            raise ConfigError(place, 'expected at least one pattern, or ["*"] for all', key=key, value=[])
        if bool(reader.token) == bool(reader.token_file):
            raise ConfigError(place, "expected token or token_file, and not both", key=dotted(path))
        if reader.token:
            key = dotted((*path, "token"))
            _check_token(reader.token, places[key], key)
        if reader.token_file:
            key = dotted((*path, "token_file"))
            try:
                tokens = tokens_in(Path(reader.token_file).read_text("utf-8"))
            except (OSError, UnicodeDecodeError) as error:
                reason = getattr(error, "strerror", None) or "not UTF-8"
                problem = f"expected a readable file ({reason})"
                raise ConfigError(places[key], problem, key=key, value=reader.token_file) from None
            if not tokens:
                raise ConfigError(places[key], "expected a file with a token", key=key, value=reader.token_file)
            for token in tokens:
                _check_token(token, places[key], key)
        if reader.expires:
            key = dotted((*path, "expires"))
            try:
                moment_of(reader.expires)
            except ValueError:
                allowed = 'expected a time with its zone such as "2026-12-31T00:00:00Z"'
                raise ConfigError(places[key], allowed, key=key, value=reader.expires) from None


def _check_token(token: str, place: str, key: str) -> None:
    if len(token) < MIN_TOKEN_LENGTH or not (token.isascii() and token.isprintable()) or " " in token:
        # Without the value, which is a secret, and not written where such values are masked.
        allowed = f"expected tokens of at least {MIN_TOKEN_LENGTH} ASCII characters without spaces"
        raise ConfigError(place, allowed, key=key)


def moment_of(text: str) -> float:
    """A time that has its zone, in seconds since 1970; raises ValueError."""
    when = datetime.fromisoformat(text)
    if when.tzinfo is None:
        raise ValueError(text)
    return when.timestamp()
