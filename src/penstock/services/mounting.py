"""Applications at a path of the API port: how one is put below it, whatever the rest of the path is.

Which there are is known to the services that bring them (`Service.mount`).
"""

from __future__ import annotations

import re

from starlette.routing import Mount
from starlette.types import ASGIApp


def below(path: str, application: ASGIApp) -> Mount:
    """The application at a path of a larger one: all of it, also paths with a line feed, which a dot stands not for."""
    mount = Mount(path, application)
    mount.path_regex = re.compile(mount.path_regex.pattern, re.DOTALL)
    return mount
