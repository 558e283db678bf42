"""The log as the configuration says, opened at the start of a process.

Not a service, because it is there before the first one and after the last. What the log does: `penstock.log`.
"""

from __future__ import annotations

from penstock.config import Config
from penstock.log import configure
from penstock.services.errors import StartError


def open_log(config: Config) -> None:
    """Raises StartError with the reason; the log is then on standard error, so that it can be told there."""
    section = config.log
    try:
        configure(
            section.level,
            section.format,
            section.max_repeats,
            levels=section.levels,
            stderr=section.stderr,
            file=section.file,
            file_bytes=section.file_bytes,
            file_count=section.file_count,
        )
    except OSError as error:
        configure(section.level, section.format, section.max_repeats)
        raise StartError(f"the log file {section.file} cannot be opened: {error.strerror}") from None
