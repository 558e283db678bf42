"""web_client FOLDER: the published web client in FOLDER/node_modules, in Chromium, driven by lines on stdin and stdout.

The page comes from a port of its own, so that to the client every server is of another origin. What the lines mean says
`javascript_client.js`, which runs in the page.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.async_api import ConsoleMessage, Error, Page, async_playwright

from tests.support.browser import FLAGS, PROGRAMS

DRIVER = Path(__file__).with_name("javascript_client.js")

# Served as a module: the client comes as one.
PAGE = """<!doctype html>
<meta charset="utf-8">
<script src="javascript_client.js"></script>
<script type="module">
import * as library from "./node_modules/lightstreamer-client-web/lightstreamer.esm.js";
window.take = driveClient(library, (line) => window.say(line));
</script>
"""


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads the access log of a test."""


@contextmanager
def site(folder: Path) -> Iterator[str]:
    with TemporaryDirectory() as directory:
        root = Path(directory)
        (root / "node_modules").symlink_to((folder / "node_modules").resolve())
        (root / DRIVER.name).symlink_to(DRIVER)
        (root / "index.html").write_text(PAGE)
        with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=directory)) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_address[1]}/"
            finally:
                server.shutdown()
                thread.join()


def say(line: str) -> None:
    print(line, flush=True)


def complain(message: ConsoleMessage | Error) -> None:
    text = message.text if isinstance(message, ConsoleMessage) else str(message)
    print(text, file=sys.stderr, flush=True)


@asynccontextmanager
async def page_at(address: str) -> AsyncIterator[Page]:
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    assert program is not None, f"none of {', '.join(PROGRAMS)} is on the path: run `make system-setup`"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        # The server's certificate of the tests is nobody's that Chromium trusts.
        page = await (await browser.new_context(ignore_https_errors=True)).new_page()
        page.on("console", complain)
        page.on("pageerror", complain)
        await page.expose_function("say", say)
        await page.goto(address)
        await page.wait_for_function("window.take !== undefined")
        yield page
        await browser.close()


async def main(folder: Path) -> None:
    with site(folder) as address:
        async with page_at(address) as page:
            while line := await asyncio.to_thread(sys.stdin.readline):
                await page.evaluate("(line) => window.take(line)", line)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
