"""The push notifications of the published web client, in a page: any token and application serve, nothing is sent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.interop.libraries import require
from tests.interop.test_documented_clients import WEB_CLIENT, serving
from tests.support.browser import PATIENCE, chromium
from tests.support.process import ServerProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(240)

APPLICATION = "com.mydomain.myapp"
SETTINGS = {
    "demo.pace": 10,
    "push.enabled": True,
    f'push.google."{APPLICATION}".service_level': "test",
    f'push.google."{APPLICATION}".min_send_delay_millis': 0,
    f'push.google."{APPLICATION}".triggers': [r"Double\\.parseDouble\\(\\$\\[\\d+\\]\\) [<>] [+-]?(\\d*\\.)?\\d+"],
}

# Everything that the client reports is a line of `heard`.
PAGE = """<!DOCTYPE html>
<script src="node_modules/lightstreamer-client-web/lightstreamer.min.js"></script>
<script>
  const heard = [];
  const client = new LightstreamerClient("ADDRESS", "WELCOME");
  client.connectionOptions.setForcedTransport("TRANSPORT");
  const device = new MpnDevice("token", "APPLICATION", "Google");
  device.addListener({
    onRegistered: () => heard.push("registered"),
    onRegistrationFailed: (code, message) => heard.push(`registration failed ${code} ${message}`),
    onStatusChanged: (status) => heard.push(`device ${status}`),
    onSubscriptionsUpdated: () => heard.push(`subscriptions ${client.getMpnSubscriptions("ALL").length}`),
  });
  function subscription(name, trigger) {
    const found = new MpnSubscription("MERGE", ["item1"], ["stock_name", "last_price"]);
    found.setDataAdapter("STOCKS");
    found.setNotificationFormat(JSON.stringify({notification: {title: "${stock_name}", body: "${last_price}"}}));
    if (trigger) found.setTriggerExpression(trigger);
    found.addListener({
      onSubscription: () => heard.push(`${name} subscribed`),
      onSubscriptionError: (code, message) => heard.push(`${name} error ${code} ${message}`),
      onUnsubscription: () => heard.push(`${name} unsubscribed`),
      onTriggered: () => heard.push(`${name} triggered`),
      onModificationError: (code, message) => heard.push(`${name} modification error ${code} ${message}`),
      onPropertyChanged: (property) => heard.push(`${name} changed ${property}`),
    });
    return found;
  }
  client.registerForMpn(device);
  client.connect();
</script>
"""


@pytest.fixture(params=["WS-STREAMING", "HTTP-STREAMING"])
def page(request: pytest.FixtureRequest, process: ServerProcess, tmp_path: Path) -> Iterator[Page]:
    folder = tmp_path / "page"
    folder.mkdir()
    (folder / "node_modules").symlink_to(require(WEB_CLIENT / "lightstreamer-client-web").parent)
    text = PAGE.replace("ADDRESS", process.url).replace("TRANSPORT", request.param).replace("APPLICATION", APPLICATION)
    (folder / "index.html").write_text(text)
    with serving(folder) as address, chromium() as browser:
        page = browser.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(address)
        yield page


def hear(page: Page, *lines: str) -> None:
    """Wait until the client has reported each of these."""
    for line in lines:
        try:
            page.wait_for_function("(line) => heard.includes(line)", arg=line)
        except Exception as error:
            raise AssertionError(f"not {line!r} but {page.evaluate('heard')}") from error


@pytest.mark.browser
@pytest.mark.config(SETTINGS)
def test_the_web_client_registers_subscribes_is_triggered_and_unsubscribes(page: Page, process: ServerProcess) -> None:
    hear(page, "registered", "device REGISTERED")
    page.evaluate("plain = subscription('plain'); client.subscribeMpn(plain, true)")
    hear(page, "plain subscribed", "subscriptions 1")
    subscription = page.evaluate("plain.getSubscriptionId()")
    expected = '{"notification":{"title":"$[1]","body":"$[2]"}}'
    page.wait_for_function("(expected) => plain.getActualNotificationFormat() == expected", arg=expected)
    page.evaluate("client.subscribeMpn(subscription('same'), true)")
    hear(page, "same subscribed")
    page.evaluate("alarm = subscription('alarm', 'Double.parseDouble(${last_price}) > 0.01')")
    page.evaluate("client.subscribeMpn(alarm, false)")
    hear(page, "alarm subscribed", "alarm triggered", "subscriptions 2")
    page.evaluate("alarm.setTriggerExpression('Double.parseDouble(${last_price}) > 1000000')")
    expected = "Double.parseDouble($[2]) > 1000000"
    page.wait_for_function("(expected) => alarm.getActualTriggerExpression() == expected", arg=expected)
    page.wait_for_function("() => alarm.getStatus() == 'SUBSCRIBED'")
    page.evaluate("client.unsubscribeMpn(alarm)")
    hear(page, "alarm unsubscribed")
    page.evaluate("client.unsubscribeMpnSubscriptions('ALL')")
    hear(page, "plain unsubscribed")
    assert f"Payload for subscription {subscription} with notification ID" in process.log
    assert [line for line in page.evaluate("heard") if "error" in line or "failed" in line] == []


@pytest.mark.browser
@pytest.mark.config(SETTINGS)
def test_the_web_client_is_told_why_something_is_refused(page: Page) -> None:
    hear(page, "registered")
    page.evaluate("client.subscribeMpn(subscription('wrong', '${last_price} > 1'), false)")
    page.wait_for_function("() => heard.some((line) => line.startsWith('wrong error 44 PN_trigger: '))")
    page.evaluate("client.subscribeMpn(subscription('unknown', 'Double.parseDouble(${nothing}) > 1'), false)")
    page.wait_for_function("() => heard.some((line) => line.startsWith('unknown error 47 '))")


@pytest.mark.browser
@pytest.mark.config(SETTINGS)
def test_the_web_client_lists_the_subscriptions_again_after_a_reconnection_and_in_another_page(page: Page) -> None:
    hear(page, "registered")
    page.evaluate("plain = subscription('plain'); client.subscribeMpn(plain, true)")
    page.evaluate("alarm = subscription('alarm', 'Double.parseDouble(${last_price}) > 0.01')")
    page.evaluate("client.subscribeMpn(alarm, true)")
    hear(page, "plain subscribed", "alarm triggered", "subscriptions 2")
    device = page.evaluate("device.getDeviceId()")
    there = sorted(page.evaluate("[plain, alarm].map((each) => each.getSubscriptionId())"))

    page.evaluate("heard.length = 0; client.disconnect()")
    page.wait_for_function("() => client.getStatus() == 'DISCONNECTED'")
    page.evaluate("client.connect()")
    hear(page, "registered", "subscriptions 2")
    assert listed(page) == there

    # Another page knows nothing of the first but the token.
    page.reload()
    hear(page, "registered", "subscriptions 2")
    assert page.evaluate("device.getDeviceId()") == device
    assert listed(page) == there
    assert page.evaluate("client.getMpnSubscriptions('TRIGGERED').length") == 1
    found = f"client.findMpnSubscription('{there[0]}')"
    assert page.evaluate(f"[{found}.getItemGroup() ?? {found}.getItems()[0], {found}.getMode()]") == ["item1", "MERGE"]


def listed(page: Page) -> list[str]:
    found: list[str] = page.evaluate("client.getMpnSubscriptions('ALL').map((each) => each.getSubscriptionId())")
    return sorted(found)


BADGE = '{"aps":{"alert":"${last_price}","badge":"AUTO"}}'


@pytest.mark.browser
@pytest.mark.config(SETTINGS)
def test_the_web_client_resets_the_badge_by_what_it_has_inside(page: Page, process: ServerProcess) -> None:
    """Its public methods have nothing for it, but its state machine makes the request and understands the answer."""
    hear(page, "registered")
    public = "[LightstreamerClient, MpnDevice, MpnSubscription].flatMap((each) => Object.keys(each.prototype))"
    names = page.evaluate(public)
    assert "registerForMpn" in names
    assert [name for name in names if "badge" in name.lower()] == []

    page.evaluate("(format) => { counted = subscription('counted'); counted.setNotificationFormat(format); }", BADGE)
    page.evaluate("client.subscribeMpn(counted, false)")
    hear(page, "counted subscribed")
    wait_until(lambda: 3 in badges(process), "the badge counts to 3")
    page.evaluate(
        """() => {
            const machine = client.delegate.machine;
            const inside = machine.doMPNZERO;
            machine.doMPNZERO = function (device) {
                inside.call(this, device);
                heard.push(`badge of ${device} reset`);
            };
            machine.mpn_badge_reset_requested = true;
            machine.evtExtMpnResetBadge();
        }"""
    )
    hear(page, f"badge of {page.evaluate('device.getDeviceId()')} reset")
    page.wait_for_function("() => !client.delegate.machine.mpn_badge_reset_requested")
    # They count up, and begin again.
    wait_until(lambda: badges(process).count(2) == 2, "the badge counts to 2 again")
    assert 1 in badges(process)[3:]


def badges(process: ServerProcess) -> list[int]:
    """Those of the notifications, in their order."""
    return [int(badge) for badge in re.findall(r'"badge":(\d+)', process.log)]
