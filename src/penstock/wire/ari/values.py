"""The tokens between the pipes of a packet: text in both encodings, and the typed pairs of a letter and a value.

`#` is null and `$` is the empty text; a token is never empty. Which packet has which tokens is known elsewhere.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Callable, Sequence
from math import isfinite
from urllib.parse import quote_plus

from penstock.wire.ari.errors import BadPacket
from penstock.wire.ari.version import Version

NULL = "#"
EMPTY = "$"

# The letters of subscription modes, in the order in which they are written.
MODES = {"RAW": "R", "MERGE": "M", "DISTINCT": "D", "COMMAND": "C"}
_MODE_NAMES = {letter: name for name, letter in MODES.items()}

# The letters of platforms of push notifications. The protocol has none for other platforms: they are null.
PLATFORMS = {"Apple": "A", "Google": "G"}
_PLATFORM_NAMES = {letter: name for name, letter in PLATFORMS.items()}

# The letters of difference formats: JSON Patch, and TLCP-diff (also called diff-match-patch).
JSON_PATCH = "J"
TEXT_DIFFERENCE = "M"

# No number of this protocol has more digits than this, not even a 64-bit one with its sign.
MAX_DIGITS = 20
# Python writes 1e-05, Java 1.0E-5, JavaScript 1e+21; some write more digits than they are precise to.
MAX_DOUBLE = 40

_INTEGER = re.compile(r"-?[0-9]+", re.ASCII)
_DOUBLE = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")

_HEXADECIMAL = [*"0123456789abcdefABCDEF"]
_BYTES = {(high + low).encode(): bytes.fromhex(high + low) for high in _HEXADECIMAL for low in _HEXADECIMAL}
# Without those that must be decoded only after a line has been split, and null and empty were recognized: | # $
_HARMLESS_BYTES = {digits: byte for digits, byte in _BYTES.items() if byte not in b"|#$"}
# Common in times, dates and numbers. None is a digit: replacing one cannot make a valid escape of an invalid one.
_FREQUENT = (("%3A", ":"), ("%2F", "/"), ("%2C", ","), ("%2B", "+"))

Encoder = Callable[[str | None], str]


def encode_compatible(text: str | None) -> str:
    """URL-encoded: ASCII that every version understands. Lone surrogates, which UTF-8 cannot encode, become `?`."""
    if text is None:
        return NULL
    if not text:
        return EMPTY
    return quote_plus(text, errors="replace")


def encode_smart(text: str | None) -> str:
    """The text itself, except for what would end a token or a line, or be mistaken for an escape, null or empty."""
    if text is None:
        return NULL
    if not text:
        return EMPTY
    if text == NULL:
        return "%23"
    if text == EMPTY:
        return "%24"
    if "%" in text:
        text = text.replace("%", "%25")
    if "|" in text:
        text = text.replace("|", "%7C")
    if "+" in text:
        text = text.replace("+", "%2B")
    if "\r" in text:
        text = text.replace("\r", "%0D")
    if "\n" in text:
        text = text.replace("\n", "%0A")
    return text


def encoder(version: Version) -> Encoder:
    """The encoding of all packets except RAC, CLOSE, MPI and DPI, which always use the compatible one."""
    return encode_smart if version.has_smart_encoding else encode_compatible


def decode(token: str) -> str | None:
    """Text or null, from either encoding. Raises ValueError, which says what is wrong without quoting the value."""
    if token == NULL:
        return None
    if token == EMPTY:
        return ""
    if not token:
        raise ValueError("empty")
    if "+" in token:
        token = token.replace("+", " ")
    return _unescaped(token) if "%" in token else token


def _unescaped(token: str) -> str:
    try:
        return _with_bytes(token, _BYTES)
    except UnicodeDecodeError:
        raise ValueError("the escapes are not valid UTF-8") from None
    except KeyError:
        bad = _BAD_ESCAPE.search(token)
        place = 0 if bad is None else bad.start() + 1
        raise ValueError(f"the percent sign at character {place} is not followed by two hexadecimal digits") from None


def _with_bytes(text: str, table: dict[bytes, bytes]) -> str:
    """Escapes replaced by means of the table. Not with `urllib`, which is slower and accepts invalid ones."""
    first, *pieces = text.encode("utf-8", "surrogatepass").split(b"%")
    return (first + b"".join([table[piece[:2]] + piece[2:] for piece in pieces])).decode()


def unescape_line(line: str) -> str | None:
    """All tokens of a line decoded at once, which is faster than one by one; null and empty are left as they are.

    None if that cannot be done, because an escape is invalid or decodes to a character that would be misunderstood.
    """
    if "+" in line:
        line = line.replace("+", " ")
    for escape, character in _FREQUENT:
        line = line.replace(escape, character)
    if "%" not in line:
        return line
    try:
        return _with_bytes(line, _HARMLESS_BYTES)
    except (KeyError, UnicodeDecodeError):
        return None


def encode_modes(modes: Sequence[str]) -> str:
    """The letters of modes; the empty text if there are none."""
    return "".join([MODES[mode] for mode in modes]) or EMPTY


def encode_platform(platform: str | None) -> str:
    return PLATFORMS.get(platform or "", NULL)


class TokenReader:
    """Reads the tokens of one packet from left to right; what does not fit raises BadPacket with its position.

    For infrequent packets: `notifications` has a faster way for updates.
    """

    def __init__(self, parts: Sequence[str], method: str, request: str | None = None) -> None:
        self._parts = parts
        self._method = method
        self._request = request
        # After the identifier and the method.
        self._next = 2

    def bad(self, message: str, back: int = 0) -> BadPacket:
        """The exception for the next token, or one `back` from it."""
        return BadPacket(message, self._method, self._next + 1 - back, self._request)

    @property
    def more(self) -> bool:
        return self._next < len(self._parts)

    @property
    def type(self) -> str:
        """What the next token is, if there is one: the letter of a type, with its subtype."""
        return self._parts[self._next] if self.more else ""

    def skip_empty_list(self) -> None:
        """One SDK writes an empty list as a single empty token at the end."""
        if self._next == len(self._parts) - 1 and not self._parts[-1]:
            self._next += 1

    def end(self) -> None:
        if self.more:
            raise self.bad("unexpected, the packet should have ended")

    def raw(self) -> str:
        if not self.more:
            raise self.bad("missing")
        self._next += 1
        return self._parts[self._next - 1]

    def typed(self, letter: str) -> str:
        """The raw value of a pair."""
        if not self.more:
            raise self.bad(f"missing, expected type {letter}")
        if self._parts[self._next] != letter:
            raise self.bad(f"expected type {letter}")
        self._next += 1
        return self.raw()

    def void(self) -> None:
        if self.type != "V":
            raise self.bad("expected type V")
        self._next += 1
        self.end()

    def bare_text(self) -> str | None:
        """Text without a type, as in exceptions."""
        return self._decoded(self.raw())

    def text(self) -> str | None:
        return self._decoded(self.typed("S"))

    def _decoded(self, token: str) -> str | None:
        try:
            return decode(token)
        except ValueError as error:
            raise self.bad(str(error), 1) from None

    def name(self) -> str:
        """Text that is neither null nor empty."""
        text = self.text()
        if not text:
            raise self.bad("null or empty, expected a name", 1)
        return text

    def platform(self) -> str | None:
        """Null is one that the protocol has no letter for."""
        letter = self.typed("P")
        if letter != NULL and letter not in _PLATFORM_NAMES:
            raise self.bad(f"expected one of {', '.join(_PLATFORM_NAMES)}, {NULL}", 1)
        return _PLATFORM_NAMES.get(letter)

    def boolean(self) -> bool:
        value = self.typed("B")
        if value not in ("0", "1"):
            raise self.bad("expected 0 or 1", 1)
        return value == "1"

    def integer(self, letter: str = "I") -> int:
        return self._integer(self.typed(letter))

    def bare_integer(self) -> int:
        return self._integer(self.raw())

    def _integer(self, value: str) -> int:
        if len(value) > MAX_DIGITS or _INTEGER.fullmatch(value) is None:
            raise self.bad("expected an integer", 1)
        return int(value)

    def double(self) -> float:
        value = self.typed("D")
        if len(value) > MAX_DOUBLE or _DOUBLE.fullmatch(value) is None or not isfinite(float(value)):
            raise self.bad("expected a decimal number", 1)
        return float(value)

    def modes(self) -> tuple[str, ...]:
        """Names of modes; null means none, as does empty."""
        value = self.typed("M")
        if value in (NULL, EMPTY):
            return ()
        modes = tuple([_MODE_NAMES.get(letter, "") for letter in value])
        if not modes or "" in modes or len(set(modes)) < len(modes):
            raise self.bad("expected some of the letters R, M, D and C, each once", 1)
        return modes

    def differences(self) -> str | None:
        """Difference formats in the order in which to try them; null leaves it to the server, empty forbids them."""
        value = self.typed("F")
        if value == NULL:
            return None
        if value == EMPTY:
            return ""
        if not value or set(value) - {JSON_PATCH, TEXT_DIFFERENCE} or len(set(value)) < len(value):
            raise self.bad("expected some of the letters J and M, each once", 1)
        return value

    def field_value(self) -> str | None:
        """The value of a field: text, or bytes as ISO-8859-1. An empty token means no bytes."""
        if self.type != "Y":
            return self.text()
        try:
            return b64decode(self.typed("Y"), validate=True).decode("latin-1")
        except (Base64Error, ValueError):
            raise self.bad("expected Base64", 1) from None
