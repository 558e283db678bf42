"""The secret that the demo's ingest adapters and the pipeline share: in a file that only its owner may read.

Not here: who asks for it (`penstock.adapters.ingest`).
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from penstock.durable import OWNER_FILE, make_directory

# Random bytes of a token, and the least length of one that is taken for a token.
TOKEN_BYTES = 32
MIN_LENGTH = 16


def kept_token(path: Path) -> str:
    """The token in the file, made when there is none: a pipeline that outlives the server is still let in. Raises
    OSError.
    """
    try:
        token = path.read_text("ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        token = ""
    if len(token) < MIN_LENGTH:
        token = new_token()
        make_directory(path.parent)
        fresh = path.with_name(f"{path.name}.new")
        fresh.unlink(missing_ok=True)
        # Nobody else may read it, not even for a moment.
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_FILE), "w") as file:
            file.write(f"{token}\n")
        fresh.replace(path)
    return token


def new_token() -> str:
    return secrets.token_urlsafe(TOKEN_BYTES)
