"""Which client library a client uses, as far as its LS_cid shows.

Every published library has its own value for each version. The prefix depends only on the library, so the library is
recognized even in versions newer than this table. The rest of the value is not interpreted: the version is known only
for the values listed here. Read next: docs/decisions.md, "Remote adapters".
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Library:
    """A client library by its own LIB_NAME and LIB_VERSION; None if not known."""

    name: str | None
    version: str | None


UNKNOWN = Library(None, None)

# How the values of each library begin.
NAMES = {
    "pcYgxn8m8 feOojyA1": "javascript_client",
    "tqGko0tg4pkpW3": "nodejs_client",
    "v Wntytg4pkpW3": "python_client",
    "pcYgxptg4pkpW3": "javase_client",
    "gpGxttxdysogQz2": "android_client",
    "jqWtj1tg4pkpW3": "dotnet_client",
    "irSfhw.i6 3": "cpp_client",
    "oqVfhw.i6 3": "ios_client",
    "scFuxkwp1ltvc": "macos_client",
    "zxRyen2m uz.l5": "tvos_client",
    ".cWimz9dysogQz2": "watchos_client",
    "-kVoty5wvjrkHty": "visionos_client",
    # What the specifications tell authors of other clients to send.
    "mgQkwtwdysogQz2": "generic_client",
}

# The whole values of known versions.
VERSIONS = {
    "v Wntytg4pkpW36AK3P4hwLri8M4OA68h8x": "1.0.3 build 20230622",
    "v Wntytg4pkpW37AK3M4hwLri8M4OA69g7u": "2.0.0 build 20230711",
    "v Wntytg4pkpW37AM3P4hwLri8M4OD6Ah6e": "2.2.3 build 20260820",
    "tqGko0tg4pkpW3DAK3R4hwLri8LBV8k": "8.0.5 build 1791",
    "tqGko0tg4pkpW3EAM3O4hwLri8M4OC63i7x": "9.2.2 build 20250131",
    "pcYgxn8m8 feOojyA1U661o3g2.pz47Ag7s": "8.0.9 build 1811",
    "pcYgxn8m8 feOojyA1V681i3g2.pz482hB5DM9o": "9.2.3 build 20250225",
    "pcYgxptg4pkpW39AN3T4hwLri8L7RAv": "4.3.7 build 1353",
    "pcYgxptg4pkpW3AAM3N4hwLri8M4OC64hBn": "5.2.1 build 20250225",
}


def library(client_id: str | None) -> Library:
    """The library that sends this LS_cid."""
    if client_id is not None:
        for beginning, name in NAMES.items():
            if client_id.startswith(beginning):
                return Library(name, VERSIONS.get(client_id))
    return UNKNOWN
