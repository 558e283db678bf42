"""Called by hatchling before it builds: a package without the web page is not built.

The page is ignored by git and built by `make page`: a wheel of a fresh clone would lack it, and nobody would notice
before a browser does. An editable install finds the page in the sources whenever it comes, so it need not wait for it.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGES = "src/penstock/pages"
EDITABLE = "editable"

# Files that the page names, such as src="/assets/index-BO3X5eru.js".
_NAMED = re.compile(r'(?:src|href)="(?:\.\./|\.?/?)(assets/[^"]+)"')

# The page at /, and the dashboard.
INDEXES = ("index.html", "dashboard/index.html")


class PagesHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == EDITABLE:
            return
        pages = Path(self.root, PAGES)
        wanted = []
        for name in INDEXES:
            index = pages / name
            wanted.append(name)
            if index.is_file():
                wanted += _NAMED.findall(index.read_text("utf-8"))
        missing = [name for name in wanted if not (pages / name).is_file()]
        if missing:
            self.app.abort(
                f"penstock cannot be packaged: {PAGES}/{missing[0]} is missing, because the web page is not built. "
                "Run `make page` in a clone of the repository, then build again."
            )
