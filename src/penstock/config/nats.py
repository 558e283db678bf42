"""Addresses of NATS servers, and the files with which one signs in there: whether each can be one at all.

Not here: connections (penstock.cluster.nats_link). Whether a server accepts what is in a file, it says itself.
"""

import re
from pathlib import Path

from penstock.config.schema.values import PORTS

_PARTS = re.compile(r"\w+://([^:\[]+|\[(?P<bracketed>[^\]]+)\])(:(?P<port>\d+))?")

# The lines around the two parts of a credentials file.
_CREDENTIALS = (b"BEGIN NATS USER JWT", b"BEGIN USER NKEY SEED")

CREDENTIALS_FILE = "a NATS credentials file, which has a user's JWT and seed between BEGIN and END lines"
NKEY_FILE = "a file that contains nothing but the seed of a user nkey, which begins with SU"


def address_fault(address: str) -> str:
    """What is wrong with one that has the form of schema/cluster.py; empty if nothing is."""
    from ipaddress import IPv6Address  # only clusters wait for it

    found = _PARTS.fullmatch(address)
    assert found is not None
    if found["port"] and int(found["port"]) not in PORTS:
        return f"the port of {address} is not one of 1 to 65535"
    if found["bracketed"]:
        try:
            IPv6Address(found["bracketed"])
        except ValueError:
            return f"what is in the brackets of {address} is not an IPv6 address"
    return ""


def is_credentials_file(path: str) -> bool:
    """nats-py would read on in one that is none, for ever. Raises OSError."""
    found = Path(path).read_bytes()
    return all(each in found for each in _CREDENTIALS)


def is_nkey_file(path: str) -> bool:
    """Raises OSError."""
    seed = Path(path).read_bytes().strip()
    return seed.startswith(b"SU") and seed.isalnum()
