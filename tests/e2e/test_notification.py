"""The whole way of a notification: from the demo's page in Chromium, over the server, to Chromium's service worker.

Chromium subscribes, decrypts and shows by itself; the server encrypts and sends by Web Push. Replaced are Google's
servers, which no test may need: Chromium is told by switches to ask those of tests/providers/google_push.py, and the
host in its subscription's address, which it cannot be told, is changed on the way to the server into that of the push
service of the test.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.e2e.test_notify_page import Demo, Shown, address, ask_for_passed_price, open_page
from tests.providers.google_push import TOKEN, GooglePush
from tests.providers.push_service import PushService
from tests.support.browser import Watch, chromium_with_profile

pytestmark = pytest.mark.browser

CHANGE_HOST = """
const whole = PushSubscription.prototype.toJSON;
PushSubscription.prototype.toJSON = function () {
    const found = whole.call(this);
    window.endpoint = found.endpoint;
    const { pathname, search } = new URL(found.endpoint);
    return { ...found, endpoint: ORIGIN + pathname + search };
};
"""


def test_a_price_that_is_passed_is_told_by_a_notification_of_the_browser(tmp_path: Path) -> None:
    with (
        PushService() as service,
        GooglePush() as google,
        Demo(tmp_path, service).command() as command,
        chromium_with_profile(tmp_path / "profile", *google.switches) as context,
    ):
        url = address(command)
        context.grant_permissions(["notifications"], origin=url.rstrip("/"))
        watch = Watch(context)
        watch.page.add_init_script(CHANGE_HOST.replace("ORIGIN", json.dumps(service.origin)))
        page = open_page(watch, url)
        ask_for_passed_price(page)
        told = page.locator("#alarms li[data-status=TRIGGERED]").first
        expect(told).to_have_text(re.compile("Ations Europe (above|below) [0-9.]+: reached at "))

        sent = service.receive()
        assert sent.path.endswith(TOKEN)
        assert page.evaluate("window.endpoint").endswith(sent.path)
        notifications = Shown(context)
        google.deliver(sent.body)
        (notification,) = notifications.wait()
        assert re.fullmatch(r"Ations Europe is at [\d.]+", notification["title"])
        assert notification["body"] == "You asked Penstock to tell you."
        expect(page.locator("#notice")).to_be_hidden()
        assert watch.complaints() == []
