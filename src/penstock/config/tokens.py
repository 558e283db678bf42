"""A file of tokens, which open an ingest adapter or the journal: one in each line, beside comments."""

from __future__ import annotations

# Characters of a token: shorter ones can be guessed.
MIN_TOKEN_LENGTH = 16


def tokens_in(text: str) -> list[str]:
    """Those of a file, in their order."""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
