"""Where a lake is, a directory or a URL, and what is done with either in one way: open its table, read a file of it.

Not here: object stores (`lake_url`), what is in the files (`layout`). Needs deltalake only if there is a lake.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from penstock.history.lake_url import BadLake, LakeUrl

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from deltalake import DeltaTable

    from penstock.config import Config

LakeRoot = Path | LakeUrl

# The lake's folder in the data directory, unless it is elsewhere.
FOLDER = "lake"


def lake_of(config: Config, data_dir: Path | None = None) -> LakeRoot:
    """As configured; `data_dir` is in place of the configuration's."""
    section = config.lake
    if not section.url:
        return (Path(config.server.data_dir) if data_dir is None else data_dir) / FOLDER
    return root_of(
        section.url, section.options, Path(section.credentials_file).resolve() if section.credentials_file else None
    )


def root_of(url: str, options: Mapping[str, Any] | None = None, credentials_file: Path | None = None) -> LakeRoot:
    """A path, or a URL. Raises BadLake."""
    if "://" not in url:
        return Path(url).resolve()
    parts = urlsplit(url)
    if parts.scheme != "file":
        return LakeUrl(url, options, credentials_file)
    if parts.netloc or not parts.path.startswith("/"):
        raise BadLake(f"{url}: expected file:///… with an absolute path")
    return Path(unquote(parts.path))


def open_table(root: LakeRoot) -> DeltaTable | None:
    """The newest version of the table there; None if there is none. Raises LakeUnavailable."""
    if isinstance(root, LakeUrl):
        return root.open_table()
    from penstock.history.layout import has_lake  # with Arrow: whoever only names a lake does not need it

    if not has_lake(root):
        return None
    from deltalake import DeltaTable

    return DeltaTable(str(root))


def open_file(root: LakeRoot, name: str) -> Any:
    """For Arrow to read from. Raises FileNotFoundError, for a URL perhaps only when something is read."""
    return root.open(name) if isinstance(root, LakeUrl) else root / name


def may_be(root: LakeRoot) -> bool:
    """Whether there can be a lake, without asking anybody."""
    return isinstance(root, LakeUrl) or root.is_dir()


@contextmanager
def reading(root: LakeRoot) -> Iterator[None]:
    """Around what asks deltalake something: it may read the log again. Raises LakeUnavailable if the store fails."""
    if not isinstance(root, LakeUrl):
        yield
        return
    from deltalake.exceptions import DeltaError

    try:
        yield
    except (OSError, DeltaError) as error:
        raise root.unavailable("read", error) from None


def unavailable(root: LakeRoot, done: str, error: OSError) -> OSError:
    """The same error for people, if an object store said it."""
    return root.unavailable(done, error) if isinstance(root, LakeUrl) else error


def table_options(root: LakeRoot) -> dict[str, str] | None:
    """What deltalake needs to get there. Raises LakeUnavailable."""
    return root.options() if isinstance(root, LakeUrl) else None
