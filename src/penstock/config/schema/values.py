"""The sorts of value that a key may have, and what is said about a key.

Not here: the keys (the other modules of this folder), turning a value of a file into one of these (loading.py).
Read next: keys.py, which reads the ranges and words of these types.
"""

from typing import Annotated

from msgspec import Meta

# Times and sizes stay inside a signed 32-bit number: clients read them into one, and far larger delays
# overflow the timers of event loops.
LARGEST = 2_147_483_647

# Of those that one can connect to; what is listened on may be 0, for any.
PORTS = range(1, 65_536)

# The sorts of value. `extra["allowed"]` says in words what a pattern says in symbols; ranges need no words.
Port = Annotated[int, Meta(ge=0, le=65_535)]
Positive = Annotated[int, Meta(ge=1, le=LARGEST)]
ZeroOrMore = Annotated[int, Meta(ge=0, le=LARGEST)]
# One line of text that a log line, a protocol line and a TOML file can all carry unharmed.
Line = Annotated[
    str,
    Meta(
        pattern=r"^[^\x00-\x1f\x7f\u0085\u2028\u2029\ud800-\udfff]+\Z",
        extra={"allowed": "text on one line, not empty"},
    ),
]
OptionalLine = Annotated[
    str,
    Meta(
        pattern=r"^[^\x00-\x1f\x7f\u0085\u2028\u2029\ud800-\udfff]*\Z",
        extra={"allowed": "text on one line, or empty"},
    ),
]
OptionalPath = Annotated[
    str,
    Meta(
        pattern=r"^[^\x00-\x1f\x7f\u0085\u2028\u2029\ud800-\udfff]*\Z",
        extra={"allowed": "the path of a PEM file, or empty"},
    ),
]
NodeId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9-]{1,32}\Z", extra={"allowed": '1 to 32 letters, digits or "-"'})]
HostName = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9._:%-]+\Z", extra={"allowed": "a host name or address, without port"}),
]
OptionalHostName = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9._:%-]*\Z", extra={"allowed": "a host name or address, without port, or empty"}),
]
Address = Annotated[
    str,
    Meta(pattern=r"^[A-Za-z0-9._:\[\]-]*\Z", extra={"allowed": "host or host:port, or empty"}),
]
WebAddress = Annotated[
    str,
    Meta(
        pattern=r"^(https?://[A-Za-z0-9._:\[\]-]+(/[A-Za-z0-9._~/-]*)?)?\Z",
        extra={"allowed": 'an address such as "https://example.com/path", or empty'},
    ),
]
Ciphers = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9_:,+!@=. -]*\Z", extra={"allowed": "an OpenSSL cipher list, or empty"})
]
# Browsers send origins in lower case and without a path; anything else here could never match.
AllowedOrigin = Annotated[
    str,
    Meta(
        pattern=r"^(\*|null|[a-z][a-z0-9+.-]*://[a-z0-9._:\[\]-]+)\Z",
        extra={"allowed": '"*", "null" or an origin in lower case such as "https://example.com"'},
    ),
]
AdapterPath = Annotated[
    str,
    Meta(
        pattern=r"^([^\W\d]\w*(\.[^\W\d]\w*)*:)?[^\W\d]\w*\Z",
        extra={"allowed": '"module:Class" or the name of a ready-made adapter'},
    ),
]
# What is between the dots and colons is looked at in checks.py.
Network = Annotated[
    str,
    Meta(
        pattern=r"^[0-9A-Fa-f.:]+(/[0-9]{1,3})?\Z",
        extra={"allowed": 'an address or a network such as "10.0.0.7", "10.0.0.0/8" or "fd00::/8"'},
    ),
]
UrlPath = Annotated[
    str,
    Meta(
        pattern=r"^(?!.*//)/[A-Za-z0-9._~!$&'()*+,;=:@/-]*\Z",
        extra={"allowed": 'a path such as "/lightstreamer", or "/" for all of them'},
    ),
]
OptionalHeaderName = Annotated[
    str, Meta(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]*\Z", extra={"allowed": "an HTTP header name, or empty"})
]
HeaderName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+\Z", extra={"allowed": "an HTTP header name"})]


# Marks a key whose value is never printed.
SECRET = Meta(extra_json_schema={"writeOnly": True})


def about(description: str) -> Meta:
    return Meta(description=description)
