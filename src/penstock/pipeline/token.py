"""The token that opens the ingest adapters which jobs publish to: given as it is, or in a file. Imports nothing big."""

from __future__ import annotations

from pathlib import Path

from penstock.config.tokens import tokens_in
from penstock.pipeline.errors import BadOption


def read_token(token: str | None, token_file: str | Path | None) -> str | None:
    """The token itself, or the first line of its file that is not a comment; raises BadOption."""
    if token is not None and token_file is not None:
        raise BadOption("token and tokenFile are both given; one of them is enough")
    if token_file is None:
        return token
    try:
        found = tokens_in(Path(token_file).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        cause = getattr(error, "strerror", None) or "it is not UTF-8"
        raise BadOption(f"tokenFile is {str(token_file)!r}, which cannot be read: {cause}") from None
    if not found:
        raise BadOption(f"tokenFile is {str(token_file)!r}, which has no token in it")
    return found[0]
