"""The published web client in a page of another origin, over HTTP, with headers of its own: browsers ask first."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.interop.libraries import require
from tests.interop.test_documented_clients import WEB_CLIENT, serving
from tests.support.browser import PATIENCE, chromium
from tests.support.process import ServerProcess

PAGE = """<!DOCTYPE html>
<script src="node_modules/lightstreamer-client-web/lightstreamer.min.js"></script>
<pre id="prices"></pre>
<script>
  const client = new LightstreamerClient("ADDRESS", "WELCOME");
  client.connectionOptions.setForcedTransport("TRANSPORT");
  client.connectionOptions.setHttpExtraHeaders({"X-Token": "secret"});
  const subscription = new Subscription("MERGE", ["item1"], ["last_price"]);
  subscription.setDataAdapter("STOCKS");
  subscription.setRequestedSnapshot("yes");
  subscription.addListener({
    onItemUpdate: (update) => {
      document.querySelector("#prices").textContent += update.getValue("last_price") + "\\n";
    },
    onSubscriptionError: (code, message) => { document.querySelector("#prices").textContent = code + message; },
  });
  client.subscribe(subscription);
  client.connect();
</script>
"""


@pytest.mark.browser
@pytest.mark.config({"cors.accept_extra_headers": ["X-Token"], "demo.pace": 10})
@pytest.mark.parametrize("transport", ["HTTP-STREAMING", "HTTP-POLLING"])
def test_a_page_of_another_origin_that_sets_headers_gets_its_prices_over_http(
    process: ServerProcess, tmp_path: Path, transport: str
) -> None:
    folder = tmp_path / "page"
    folder.mkdir()
    (folder / "node_modules").symlink_to(require(WEB_CLIENT / "lightstreamer-client-web").parent)
    (folder / "index.html").write_text(PAGE.replace("ADDRESS", process.url).replace("TRANSPORT", transport))
    complaints: list[str] = []
    with serving(folder) as address, chromium() as browser:
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: complaints.append(message.text))
        page.goto(address)
        try:
            page.wait_for_function(r"/^([\d.]+\n){3}/.test(document.querySelector('#prices').textContent)")
        except Exception as error:
            raise AssertionError(f"no prices; the browser says {complaints[:3]}") from error
