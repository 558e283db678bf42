"""Whose certificates are trusted: the system's authorities, or those in a file that a person names.

A server is always checked: its certificate must be signed by one of these and name the host in the address.
"""

from __future__ import annotations

import ssl
from pathlib import Path


def trusting(authorities: Path | None = None) -> ssl.SSLContext:
    """What a TLS connection is opened with; raises ValueError for a file that has no certificates."""
    if authorities is None:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cafile=authorities)
    except ssl.SSLError:
        raise ValueError(f"{authorities} has no certificates; expected some in PEM format") from None
    except OSError as error:
        raise ValueError(f"{authorities} cannot be read: {error.strerror or error}") from None


def advice(error: BaseException) -> str:
    """What to add for a person who has the option --ca: empty unless a certificate was not trusted."""
    if isinstance(error.__cause__, ssl.SSLCertVerificationError):
        return "; --ca FILE trusts the certificates in a file"
    return ""
