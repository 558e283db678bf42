"""Called by hatchling before it builds: a package without the web page is not built, and one may be compiled.

The page is ignored by git and built by `make page`: a wheel of a fresh clone would lack it, and nobody would notice
before a browser does. An editable install finds the page in the sources whenever it comes, so it need not wait for it.

With PENSTOCK_WHEEL=compiled the wheel brings the compiled build of kernel and wire along (docs/compiled.md), for the
Python and the kind of machine that it is built with (`make wheels`).
"""

import os
import re
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PAGES = "src/penstock/pages"
EDITABLE = "editable"

# Files that the page names, such as src="/assets/index-BO3X5eru.js".
_NAMED = re.compile(r'(?:src|href)="(?:\.\./|\.?/?)(assets/[^"]+)"')

# The page at /, and the dashboard.
INDEXES = ("index.html", "dashboard/index.html")


# Whether the compiled build goes into the wheel.
VARIABLE = "PENSTOCK_WHEEL"


class PagesHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == EDITABLE:
            return
        self._check_pages()
        if self.target_name == "wheel" and os.environ.get(VARIABLE) == "compiled":
            self._pack(build_data)

    def _pack(self, build_data: dict[str, Any]) -> None:
        """Compile, and have the result go where `penstock.build.choice.packed` looks for it."""
        sys.path.insert(0, str(Path(self.root, "src")))
        from penstock.build.choice import packed
        from penstock.build.compiler import CompileError, Impossible, compile_sources

        package = Path(self.root, "src", "penstock")
        place = Path(self.root, "build", "packed", packed().name)
        try:
            folder = compile_sources(os.cpu_count() or 1, package, place)
        except (CompileError, Impossible) as error:
            self.app.abort(f"penstock cannot be compiled: {error}")
        inside = packed(Path("penstock")) / folder.name
        for file in folder.rglob("*.so"):
            build_data["force_include"][str(file)] = str(inside / file.relative_to(folder))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def _check_pages(self) -> None:
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
