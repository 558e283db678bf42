"""The other end of a connection, as far as it is known: whom its certificate names."""

from __future__ import annotations

import asyncio
import re
from typing import Any

# The short names of RFC 4514 for the parts of a subject; others are written in full.
SHORT_NAMES = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}

_SPECIAL = re.compile(r'[,+"\\<>;=]|^[ #]| $')


def principal_of(transport: asyncio.BaseTransport) -> str | None:
    """The subject of the peer's certificate, which has been verified; None if it has presented none."""
    certificate = transport.get_extra_info("peercert")
    return subject_text(certificate["subject"]) if certificate else None


def subject_text(subject: Any) -> str:
    """A subject in the form of RFC 4514, most specific part first: `CN=device-7,O=Fields`."""
    return ",".join(["+".join([_pair(name, value) for name, value in names]) for names in reversed(subject)])


def _pair(name: str, value: str) -> str:
    return f"{SHORT_NAMES.get(name, name)}={_SPECIAL.sub(_escaped, value)}"


def _escaped(found: re.Match[str]) -> str:
    return f"\\{found[0]}"
