"""Lines from bytes that come in any pieces. A line is UTF-8 and ends in LF or CR-LF; a byte order mark may come first.

What a line says is read in `packets`.
"""

from __future__ import annotations

from penstock.wire.ari.errors import BadAriStream

_BOM = b"\xef\xbb\xbf"


class LineReader:
    """Feed it bytes, take the lines they complete, then look at `error`: from there on nothing is read.

    `max_length` is the most bytes that a line may have, without its end.
    """

    def __init__(self, max_length: int) -> None:
        self.error: BadAriStream | None = None
        # Complete lines so far.
        self.count = 0
        self._max_length = max_length
        self._rest = bytearray()
        self._at_start = True

    @property
    def in_line(self) -> bool:
        """Whether an incomplete line waits for the rest: if the connection ends now, something has been cut off."""
        return bool(self._rest)

    @property
    def _has_failed(self) -> bool:
        return self.error is not None

    def feed(self, data: bytes) -> list[str]:
        if self._has_failed:
            return []
        end = data.rfind(b"\n")
        if end < 0:
            self._keep(data)
            return []
        block = bytes(self._rest) + data[:end] if self._rest else data[:end]
        self._rest.clear()
        if self._at_start:
            self._at_start = False
            block = block.removeprefix(_BOM)
        lines = self._lines(block)
        self.count += len(lines)
        if not self._has_failed:
            self._keep(data[end + 1 :])
        return lines

    def _keep(self, data: bytes) -> None:
        """An incomplete line; its length does not depend on the pieces it came in."""
        rest = self._rest
        rest += data
        length = len(rest)
        if rest.endswith(b"\r"):
            length -= 1
        if self._at_start and rest.startswith(_BOM):
            length -= len(_BOM)
        if length > self._max_length:
            self._fail(self.count + 1, self._too_long())

    def _lines(self, block: bytes) -> list[str]:
        """Decode all at once, which is the usual case; else one by one, to find what is wrong and where."""
        if len(block) <= self._max_length:
            try:
                text = block.decode()
            except UnicodeDecodeError:
                return self._line_by_line(block)
            if "\r" in text:
                text = (text + "\n").replace("\r\n", "\n")[:-1]
                if "\r" in text:
                    return self._line_by_line(block)
            return text.split("\n")
        return self._line_by_line(block)

    def _line_by_line(self, block: bytes) -> list[str]:
        lines: list[str] = []
        for raw in block.split(b"\n"):
            raw = raw.removesuffix(b"\r")
            number = self.count + len(lines) + 1
            if len(raw) > self._max_length:
                self._fail(number, self._too_long())
                break
            try:
                line = raw.decode()
            except UnicodeDecodeError as error:
                self._fail(number, f"byte {error.start + 1} is 0x{raw[error.start]:02x}, which is not valid UTF-8")
                break
            if "\r" in line:
                self._fail(number, f"byte {raw.index(13) + 1} is a carriage return without a line feed after it")
                break
            lines.append(line)
        return lines

    def _too_long(self) -> str:
        return f"longer than {self._max_length} bytes"

    def _fail(self, line: int, message: str) -> None:
        self.error = BadAriStream(line, message)
        self._rest.clear()
