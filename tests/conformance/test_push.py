"""Push notifications, which the specification calls MPN: requests, notifications, codes.

One server with the module is for all tests here; each has a device of its own. What devices are sent is in tests/push
and tests/services.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.push.ports import Handover, Verdict
from penstock.push.records import Platform
from penstock.wire.tlcp.push import PUSH_OPERATIONS
from penstock.wire.tlcp.version import SUPPORTED
from tests.conformance.phrases import add, batch, create, row
from tests.support.background import BackgroundServer
from tests.support.push_lines import push
from tests.support.raw import Exchange, Socket, params, tags

UUID = r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
ADAPTER = "MPN_INTERNAL_DATA_ADAPTER"
TRIGGER = "Double.parseDouble(${x}) > 500.0"
UNKNOWN = "00000000-0000-4000-8000-000000000000"

CONFIG = r"""
[push]
enabled = true
max_subscriptions_per_device = 10

[push.apple."com.example.app"]
triggers = ['Double\.parseDouble\(\$\[\d+\]\) [<>] [+-]?(\d*\.)?\d+']

[push.apple."com.example.gone"]

[push.google."com.example.app"]

[push.web."site"]
"""


@pytest.fixture(scope="module")
def pushing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BackgroundServer]:
    folder = tmp_path_factory.mktemp("push")
    file = folder / "penstock.toml"
    file.write_text(CONFIG)
    with BackgroundServer({"push.store": f"sqlite:///{folder}/push.db"}, file) as running:
        yield running


@pytest.fixture
def client(pushing: BackgroundServer, tmp_path: Path) -> Iterator[PushClient]:
    # The folder's name is another one for every test.
    with PushClient(Exchange(pushing.host, pushing.port), token=str(tmp_path)) as found:
        yield found
        # An item that is followed in one mode cannot be in another.
        found.deactivated()


class PushClient:
    """A session over one WebSocket, with a device that it registers when it is asked for."""

    def __init__(self, exchange: Exchange, token: str, version: str = "TLCP-2.4.0") -> None:
        self.exchange = exchange
        self.token = token
        self.socket: Socket = exchange.socket(f"{version}.lightstreamer.com")
        self.socket.create()
        self._device = ""

    def __enter__(self) -> PushClient:
        return self

    def __exit__(self, *error: object) -> None:
        self.socket.send("control", params(reqId="end", op="destroy"))
        self.socket.read_until("END")
        self.socket.connection.close()

    @property
    def device(self) -> str:
        if not self._device:
            self._device = self.done("register", deviceToken=self.token).split(",")[1]
        return self._device

    def line(self, operation: str, /, **changes: object) -> str:
        """A request about the client's device, unless changed."""
        if operation == "register":
            return push(operation, **{"deviceToken": self.token, **changes})
        if "deviceId" not in changes:
            changes["deviceId"] = self.device
        return push(operation, **changes)

    def refused(self, operation: str, /, **changes: object) -> str:
        """Why a request is refused."""
        line = self.line(operation, **changes)
        self.socket.send("control", line)
        return self.socket.read_until("REQERR")[-1]

    def done(self, operation: str, /, **changes: object) -> str:
        """What is told after a request is answered."""
        line = self.line(operation, **changes)
        self.socket.send("control", line)
        answer = self.socket.read_until("REQOK", "REQERR")[-1]
        assert answer.startswith("REQOK,"), answer
        return self.told()

    def told(self) -> str:
        """The next notification about push notifications."""
        return self.socket.read_until("MPNREG", "MPNZERO", "MPNOK", "MPNCONF", "MPNDEL")[-1]

    def activate(self, **changes: object) -> str:
        """The id of a subscription."""
        _, number, subscription = self.done("activate", **changes).split(",")
        assert number == str(changes.get("subId", 1))
        return subscription

    def deactivated(self, **changes: object) -> set[str]:
        """What is deactivated; what is told afterwards shows that there is no more."""
        self.socket.send("control", self.line("deactivate", **changes))
        self.socket.send("control", self.line("reset_badge", reqId=2))
        lines = self.socket.read_until("MPNZERO")
        assert "REQOK,1" in lines
        return {line.split(",")[1] for line in lines if line.startswith("MPNDEL")}

    def field(self, subscription: str, name: str) -> str:
        """What the internal data adapter has about a subscription."""
        item = {"data_adapter": ADAPTER, "group": f"SUB-{subscription}", "schema": name, "snapshot": True}
        self.socket.send("control", add(90, **item))
        value = self.socket.read_until("U", "REQERR")[-1].split(",")[3]
        self.socket.send("control", params(reqId=91, op="delete", subId=90))
        self.socket.read_until("UNSUB")
        return value


# -- without the module ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", [row(f"mpn.disabled.{name}", name) for name in PUSH_OPERATIONS])
def test_without_the_module_every_request_is_error_40(exchange: Exchange, operation: str) -> None:
    with exchange.stream() as stream, exchange.socket() as socket:
        expected = f"REQERR,1,40,LS_op={operation}: the MPN module is disabled"
        line = f"{push(operation)}&LS_session={stream.session}"
        assert exchange.request("control", line) == [expected]
        socket.send("control", line)
        assert socket.read_line() == expected


@pytest.mark.conformance("mpn.disabled.session")
def test_without_the_module_an_unknown_session_is_still_error_20(exchange: Exchange) -> None:
    assert exchange.request("control", push("register") + "&LS_session=S1")[0].startswith("REQERR,1,20,LS_session")
    assert exchange.request("control", push("register")) == ["REQERR,1,20,LS_session is missing"]


@pytest.mark.conformance("mpn.disabled.form")
def test_without_the_module_a_missing_parameter_is_still_error_65(exchange: Exchange) -> None:
    with exchange.stream() as stream:
        line = f"{push('register', appId=None)}&LS_session={stream.session}"
        assert exchange.request("control", line) == ["REQERR,1,65,PN_appId is missing"]


# -- operations and notifications --------------------------------------------------------------------------------------


@pytest.mark.conformance("mpn.register")
def test_a_registration_over_http_is_answered_with_reqok_and_told_on_the_stream(client: PushClient) -> None:
    with client.exchange.stream() as stream:
        line = f"{client.line('register', reqId=7)}&LS_session={stream.session}"
        assert client.exchange.request("control", line) == ["REQOK,7"]
        assert stream.read_until("MPNREG")[-1].startswith("MPNREG,")


@pytest.mark.conformance("notify.MPNREG")
def test_mpnreg_has_the_device_and_the_data_adapter(client: PushClient) -> None:
    assert re.fullmatch(f"MPNREG,{UUID},{ADAPTER}", client.done("register"))


@pytest.mark.conformance("mpn.register.again")
def test_a_device_keeps_its_id_in_the_same_session_and_in_others(client: PushClient) -> None:
    assert client.done("register") == f"MPNREG,{client.device},{ADAPTER}"
    with PushClient(client.exchange, client.token) as other:
        assert other.device == client.device


@pytest.mark.conformance("mpn.register.other")
def test_another_token_application_or_platform_is_another_device(client: PushClient) -> None:
    others = [
        client.done("register", deviceToken=f"{client.token} other"),
        client.done("register", type="Google"),
        client.done("register", type="Web", appId="site"),
    ]
    assert len({client.device, *(line.split(",")[1] for line in others)}) == 4


@pytest.mark.conformance("mpn.register.one")
def test_a_session_has_one_device_the_latest_that_it_has_registered(client: PushClient) -> None:
    former = client.device
    client.done("register", deviceToken=f"{client.token} other")
    assert client.refused("reset_badge", deviceId=former).startswith("REQERR,1,45,PN_deviceId: ")
    client.done("register")
    assert client.done("reset_badge") == f"MPNZERO,{former}"


@pytest.mark.parametrize(
    "operation",
    [row(f"mpn.{name}.registered", name) for name in PUSH_OPERATIONS if name != "register"],
)
def test_a_request_needs_a_device_that_was_registered_in_the_same_session(client: PushClient, operation: str) -> None:
    subscription = client.activate()
    with PushClient(client.exchange, client.token) as other:
        changes = {"subscriptionId": subscription} if operation == "pn_reconf" else {}
        line = push(operation, deviceId=client.device, **changes)
        other.socket.send("control", line)
        assert other.socket.read_until("REQERR")[-1].startswith("REQERR,1,45,PN_deviceId: ")
        other.done("register")
        other.socket.send("control", line)
        assert other.socket.read_until("REQOK", "REQERR")[-1] == "REQOK,1"
        other.told()


@pytest.mark.parametrize(
    "operation",
    [row("mpn.reset_badge", "reset_badge"), row("notify.MPNZERO", "reset_badge")],
)
def test_a_badge_that_is_reset_is_told_with_its_device(client: PushClient, operation: str) -> None:
    assert client.done(operation) == f"MPNZERO,{client.device}"


@pytest.mark.conformance("mpn.activate")
def test_an_activation_is_told_and_outlives_its_session(client: PushClient) -> None:
    subscription = client.activate()
    with PushClient(client.exchange, client.token) as other:
        assert other.deactivated() == {subscription}


@pytest.mark.conformance("notify.MPNOK")
def test_mpnok_has_the_number_of_the_request_and_the_id(client: PushClient) -> None:
    assert re.fullmatch(f"MPNOK,17,{UUID}", client.done("activate", subId=17))


@pytest.mark.conformance("mpn.pn_reconf")
def test_a_reconfiguration_changes_what_is_given_and_keeps_the_rest(client: PushClient) -> None:
    subscription = client.activate(trigger=TRIGGER, requested_max_frequency="2.0")
    kept = client.field(subscription, "notification_format")
    client.done("pn_reconf", subscriptionId=subscription, trigger="Double.parseDouble($[1]) < 3")
    assert client.field(subscription, "trigger") == "Double.parseDouble($[1]) < 3"
    assert client.field(subscription, "max_frequency") == "2.0"
    assert client.field(subscription, "notification_format") == kept


@pytest.mark.conformance("notify.MPNCONF")
def test_mpnconf_has_the_id(client: PushClient) -> None:
    subscription = client.activate()
    assert client.done("pn_reconf", subscriptionId=subscription) == f"MPNCONF,{subscription}"


@pytest.mark.conformance("mpn.deactivate")
def test_a_deactivation_of_nothing_in_particular_ends_all(client: PushClient) -> None:
    both = {client.activate(), client.activate(subId=2)}
    assert client.deactivated() == both
    assert client.deactivated() == set()


@pytest.mark.conformance("notify.MPNDEL")
def test_mpndel_has_the_id_of_each_that_is_gone(client: PushClient) -> None:
    subscription = client.activate()
    assert client.done("deactivate") == f"MPNDEL,{subscription}"


@pytest.mark.parametrize("version", [row(f"mpn.versions.{version}", str(version)) for version in SUPPORTED])
def test_every_version_has_push_notifications(client: PushClient, version: str) -> None:
    with PushClient(client.exchange, client.token, version) as other:
        assert other.deactivated() == set()
        subscription = other.activate()
        assert other.done("pn_reconf", subscriptionId=subscription) == f"MPNCONF,{subscription}"


@pytest.mark.conformance("mpn.batch")
def test_requests_about_push_notifications_come_in_batches(client: PushClient) -> None:
    lines = [client.line("activate", reqId=number, subId=number) for number in range(1, 6)]
    answers = batch(client.exchange, client.socket.session, *lines, client.line("activate", reqId=6, subId=0))
    assert sorted(answers)[:5] == [
        "REQERR,6,65,LS_subId=0: expected a whole number from 1",
        *(f"REQOK,{number}" for number in range(1, 5)),
    ]
    assert [client.told().split(",")[1] for _ in range(5)] == ["1", "2", "3", "4", "5"]


@pytest.mark.conformance("mpn.order")
def test_requests_of_a_session_are_carried_out_in_their_order(client: PushClient) -> None:
    device = client.device
    with PushClient(client.exchange, client.token) as other:
        # The client knows its device from an earlier session.
        lines = [push("register", deviceToken=client.token), push("activate", reqId=2, deviceId=device)]
        other.socket.send("control", *lines, push("deactivate", reqId=3, deviceId=device))
        assert [other.told().split(",")[0] for _ in range(3)] == ["MPNREG", "MPNOK", "MPNDEL"]


@pytest.mark.conformance("combo.mpn.done")
def test_a_session_may_be_created_with_a_registration(client: PushClient) -> None:
    with client.exchange.socket() as socket:
        socket.send("create_session", create(), push("register", reqId=None, deviceToken=client.token))
        lines = socket.read_until("MPNREG")
        assert (tags(lines)[0], lines[-1]) == ("CONOK", f"MPNREG,{client.device},{ADAPTER}")
        assert "REQOK" not in tags(lines)


@pytest.mark.conformance("recovery.counted.mpn")
def test_the_five_notifications_count_for_recovery(client: PushClient) -> None:
    with client.exchange.stream() as stream:
        session = f"&LS_session={stream.session}"

        def told(line: str) -> str:
            assert client.exchange.request("control", line + session) == ["REQOK,1"]
            return stream.read_until("MPNREG", "MPNZERO", "MPNOK", "MPNCONF", "MPNDEL")[-1]

        lines = [told(client.line("register"))]
        lines += [told(client.line("reset_badge")), told(client.line("activate"))]
        lines.append(told(client.line("pn_reconf", subscriptionId=lines[-1].split(",")[2])))
        lines.append(told(client.line("deactivate")))
        assert tags(lines) == ["MPNREG", "MPNZERO", "MPNOK", "MPNCONF", "MPNDEL"]
        stream.http.close()
        request = params(session=stream.session, recovery_from=2, polling=True)
        assert client.exchange.request("bind_session", request)[2:] == ["PROG,2", *lines[2:], "LOOP,0"]
        request = params(session=stream.session, recovery_from=6, polling=True)
        assert client.exchange.request("bind_session", request)[0].startswith("CONERR,4,")


# -- parameters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "changes", "expected"),
    [
        row("mpn.PN_type.missing", "register", {"type": None}, "PN_type is missing"),
        row("mpn.PN_appId.missing", "register", {"appId": None}, "PN_appId is missing"),
        row("mpn.PN_deviceToken.missing", "register", {"deviceToken": None}, "PN_deviceToken is missing"),
        row("mpn.PN_newDeviceToken.empty", "register", {"newDeviceToken": ""}, "PN_newDeviceToken is empty"),
        row("mpn.PN_deviceId.missing.reset_badge", "reset_badge", {"deviceId": None}, "PN_deviceId is missing"),
        row("mpn.PN_deviceId.missing.activate", "activate", {"deviceId": None}, "PN_deviceId is missing"),
        row("mpn.PN_deviceId.missing.pn_reconf", "pn_reconf", {"deviceId": None}, "PN_deviceId is missing"),
        row("mpn.PN_deviceId.missing.deactivate", "deactivate", {"deviceId": None}, "PN_deviceId is missing"),
        row("mpn.PN_subscriptionId.missing", "pn_reconf", {"subscriptionId": None}, "PN_subscriptionId is missing"),
        row("mpn.PN_subscriptionId.empty", "deactivate", {"subscriptionId": ""}, "PN_subscriptionId is empty"),
        row(
            "mpn.PN_notificationFormat.missing",
            "activate",
            {"notificationFormat": None},
            "PN_notificationFormat is missing",
        ),
        row(
            "mpn.PN_coalescing.invalid",
            "activate",
            {"coalescing": "yes"},
            "PN_coalescing=yes: expected true or false",
        ),
        row(
            "mpn.PN_subscriptionStatus.invalid",
            "deactivate",
            {"subscriptionStatus": "SUSPENDED"},
            "PN_subscriptionStatus=SUSPENDED: expected one of ACTIVE TRIGGERED",
        ),
        row("mpn.LS_subId.missing", "activate", {"subId": None}, "LS_subId is missing"),
        row("mpn.LS_group.missing", "activate", {"group": None}, "LS_group is missing"),
        row("mpn.LS_schema.missing", "activate", {"schema": None}, "LS_schema is missing"),
        row("mpn.LS_mode.missing", "activate", {"mode": None}, "LS_mode is missing"),
        row("mpn.LS_mode.invalid", "activate", {"mode": "ALL"}, "LS_mode=ALL: expected one of"),
        row(
            "mpn.LS_requested_buffer_size.invalid",
            "activate",
            {"requested_buffer_size": 0},
            "LS_requested_buffer_size=0: expected a whole number from 1",
        ),
        row(
            "mpn.LS_requested_max_frequency.unfiltered",
            "activate",
            {"requested_max_frequency": "unfiltered"},
            "LS_requested_max_frequency=unfiltered: expected a decimal number above 0 or unlimited",
        ),
        row("mpn.pn_reconf.LS_group.missing", "pn_reconf", {"group": None}, "LS_group is missing"),
        row("mpn.pn_reconf.LS_schema.missing", "pn_reconf", {"schema": None}, "LS_schema is missing"),
        row("mpn.pn_reconf.LS_mode.missing", "pn_reconf", {"mode": None}, "LS_mode is missing"),
    ],
)
def test_a_missing_or_invalid_parameter_is_error_65(
    client: PushClient, operation: str, changes: dict[str, object], expected: str
) -> None:
    assert client.refused(operation, **changes).startswith(f"REQERR,1,65,{expected}")


@pytest.mark.conformance("mpn.PN_newDeviceToken")
def test_a_new_token_keeps_the_device_and_its_subscriptions(client: PushClient) -> None:
    device, subscription = client.device, client.activate()
    token = f"{client.token} new"
    assert client.done("register", newDeviceToken=token) == f"MPNREG,{device},{ADAPTER}"
    with PushClient(client.exchange, token) as other:
        assert other.device == device
        assert other.deactivated() == {subscription}
    with PushClient(client.exchange, client.token) as other:
        assert other.device != device


@pytest.mark.conformance("mpn.PN_newDeviceToken.unknown")
def test_a_new_token_for_one_that_nobody_knows_makes_a_new_device(client: PushClient) -> None:
    token = f"{client.token} new"
    told = client.done("register", deviceToken=f"{client.token} old", newDeviceToken=token)
    with PushClient(client.exchange, token) as other:
        assert told == f"MPNREG,{other.device},{ADAPTER}"


@pytest.mark.conformance("mpn.PN_subscriptionId.change")
def test_an_activation_with_an_id_changes_that_subscription(client: PushClient) -> None:
    subscription = client.activate()
    other = {"subscriptionId": subscription, "subId": 2, "group": "b", "mode": "DISTINCT"}
    assert client.activate(**other) == subscription
    assert (client.field(subscription, "group"), client.field(subscription, "mode")) == ("b", "DISTINCT")
    assert client.deactivated() == {subscription}


@pytest.mark.conformance("mpn.PN_subscriptionId.deactivate")
def test_a_deactivation_with_an_id_ends_that_subscription(client: PushClient) -> None:
    first, second = client.activate(), client.activate(subId=2)
    assert client.deactivated(subscriptionId=second) == {second}
    assert client.deactivated() == {first}


@pytest.mark.conformance("mpn.PN_notificationFormat")
def test_names_in_a_format_become_positions(client: PushClient) -> None:
    subscription = client.activate(schema="y x", notificationFormat='{"aps":{"alert":"${x} $[1]"}}')
    assert client.field(subscription, "notification_format") == '{"aps":{"alert":"$[2] $[1]"}}'


@pytest.mark.conformance("mpn.PN_notificationFormat.change")
def test_a_reconfiguration_may_change_the_format(client: PushClient) -> None:
    subscription = client.activate()
    client.done("pn_reconf", subscriptionId=subscription, notificationFormat='{"aps":{"badge":"AUTO"}}')
    assert client.field(subscription, "notification_format") == '{"aps":{"badge":"AUTO"}}'


@pytest.mark.conformance("mpn.PN_trigger")
def test_a_trigger_fires_once_and_the_subscription_is_triggered(pushing: BackgroundServer, client: PushClient) -> None:
    subscription = client.activate(trigger=TRIGGER)
    assert client.field(subscription, "trigger") == "Double.parseDouble($[1]) > 500.0"
    item = {"data_adapter": ADAPTER, "group": f"SUB-{subscription}", "schema": "status", "snapshot": True}
    client.socket.send("control", add(5, **item))
    assert client.socket.read_until("U")[-1] == "U,5,1,ACTIVE"
    pushing.update("a", x="499.5")
    pushing.update("a", x="500.5")
    assert client.socket.read_until("U")[-1] == "U,5,1,TRIGGERED"


@pytest.mark.conformance("mpn.PN_trigger.empty")
def test_an_empty_trigger_is_none_and_takes_the_present_one_away(client: PushClient) -> None:
    assert client.field(client.activate(trigger=""), "trigger") == "#"
    subscription = client.activate(trigger=TRIGGER)
    client.done("pn_reconf", subscriptionId=subscription, trigger="")
    assert client.field(subscription, "trigger") == "#"


@pytest.mark.parametrize(
    "operation",
    [
        row("mpn.activate.triggered", "activate"),
        row("mpn.pn_reconf.triggered", "pn_reconf"),
        row("mpn.PN_coalescing.triggered", "coalescing"),
    ],
)
def test_a_change_makes_a_triggered_subscription_active_again(
    pushing: BackgroundServer, client: PushClient, operation: str
) -> None:
    subscription = triggered(pushing, client)
    if operation == "pn_reconf":
        client.done("pn_reconf", subscriptionId=subscription)
    elif operation == "activate":
        client.activate(subscriptionId=subscription, trigger=TRIGGER)
    else:
        assert client.activate(coalescing=True, trigger=TRIGGER) == subscription
    assert client.field(subscription, "status") == "ACTIVE"


@pytest.mark.parametrize(
    ("status", "index"),
    [
        row("mpn.PN_subscriptionStatus.ACTIVE", "ACTIVE", 0),
        row("mpn.PN_subscriptionStatus.TRIGGERED", "TRIGGERED", 1),
    ],
)
def test_a_deactivation_with_a_status_ends_the_subscriptions_that_have_it(
    pushing: BackgroundServer, client: PushClient, status: str, index: int
) -> None:
    both = [client.activate(subId=2, group="b"), triggered(pushing, client)]
    assert client.deactivated(subscriptionStatus=status) == {both[index]}
    assert client.deactivated() == {both[1 - index]}


def triggered(pushing: BackgroundServer, client: PushClient) -> str:
    """A subscription whose trigger has fired."""
    subscription = client.activate(trigger=TRIGGER)
    item = {"data_adapter": ADAPTER, "group": f"SUB-{subscription}", "schema": "status", "snapshot": True}
    client.socket.send("control", add(80, **item))
    client.socket.read_until("U")
    pushing.update("a", x="0")
    pushing.update("a", x="501")
    assert client.socket.read_until("U")[-1] == "U,80,1,TRIGGERED"
    client.socket.send("control", params(reqId=81, op="delete", subId=80))
    client.socket.read_until("UNSUB")
    return subscription


@pytest.mark.conformance("mpn.PN_coalescing")
def test_coalescing_takes_the_place_of_a_subscription_with_the_same_base_parameters(client: PushClient) -> None:
    first = client.activate(coalescing=True, trigger=TRIGGER)
    changed = '{"aps":{"alert":"other"}}'
    assert client.activate(subId=2, coalescing=True, trigger=TRIGGER, notificationFormat=changed) == first
    assert client.field(first, "notification_format") == changed
    others: list[dict[str, object]] = [
        {"data_adapter": "PLAIN"},
        {"group": "b"},
        {"schema": "x y"},
        {"group": "c", "mode": "DISTINCT"},
        {"trigger": None},
    ]
    found = {client.activate(**{"coalescing": True, "trigger": TRIGGER, **other}) for other in others}
    assert len({first, *found}) == 6


@pytest.mark.conformance("mpn.PN_coalescing.false")
def test_without_coalescing_every_activation_is_a_new_subscription(client: PushClient) -> None:
    assert len({client.activate(), client.activate(subId=2), client.activate(subId=3, coalescing=False)}) == 3


@pytest.mark.conformance("mpn.PN_coalescing.id")
def test_coalescing_with_an_id_is_error_65(client: PushClient) -> None:
    refusal = client.refused("activate", coalescing=True, subscriptionId=client.activate())
    assert refusal.startswith("REQERR,1,65,")


@pytest.mark.conformance("mpn.PN_subscriptionStatus.id")
def test_a_deactivation_with_an_id_and_a_status_is_error_65(client: PushClient) -> None:
    refusal = client.refused("deactivate", subscriptionStatus="ACTIVE", subscriptionId=client.activate())
    assert refusal.startswith("REQERR,1,65,")


@pytest.mark.conformance("mpn.LS_subId")
def test_the_number_may_be_that_of_a_real_time_subscription(client: PushClient) -> None:
    client.socket.send("control", add(1))
    client.socket.read_until("SUBOK")
    assert client.done("activate", subId=1).startswith("MPNOK,1,")
    assert client.done("activate", subId=1).startswith("MPNOK,1,")


@pytest.mark.parametrize(
    ("changes", "name", "shown"),
    [
        row("mpn.LS_data_adapter", {"data_adapter": "HAND"}, "adapter", "HAND"),
        row("mpn.LS_data_adapter.omitted", {}, "adapter", "DEFAULT"),
        row("mpn.LS_group", {"group": "a b"}, "group", "a b"),
        row("mpn.LS_schema", {"schema": "x y"}, "schema", "x y"),
        row("mpn.LS_mode.MERGE", {"mode": "MERGE"}, "mode", "MERGE"),
        row("mpn.LS_mode.DISTINCT", {"mode": "DISTINCT"}, "mode", "DISTINCT"),
        row("mpn.LS_requested_buffer_size", {"requested_buffer_size": 7, "mode": "DISTINCT"}, "buffer_size", "7"),
        row("mpn.LS_requested_buffer_size.MERGE", {}, "buffer_size", "1"),
        row("mpn.LS_requested_buffer_size.DISTINCT", {"mode": "DISTINCT"}, "buffer_size", "unlimited"),
        row(
            "mpn.LS_requested_buffer_size.unlimited",
            {"requested_buffer_size": "unlimited"},
            "buffer_size",
            "unlimited",
        ),
        row("mpn.LS_requested_max_frequency", {"requested_max_frequency": "2.5"}, "max_frequency", "2.5"),
        row("mpn.LS_requested_max_frequency.omitted", {}, "max_frequency", "unlimited"),
        row(
            "mpn.LS_requested_max_frequency.unlimited",
            {"requested_max_frequency": "unlimited"},
            "max_frequency",
            "unlimited",
        ),
    ],
)
def test_a_parameter_of_a_subscription_is_shown_by_the_internal_data_adapter(
    client: PushClient, changes: dict[str, object], name: str, shown: str
) -> None:
    assert client.field(client.activate(**changes), name) == shown


# -- codes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "changes", "expected"),
    [
        row("error.B.17.mpn", "activate", {"data_adapter": "NONE"}, "17,Data Adapter not found"),
        row("mpn.LS_mode.RAW", "activate", {"mode": "RAW"}, "24,LS_mode: "),
        row("mpn.LS_mode.COMMAND", "activate", {"mode": "COMMAND", "schema": "key command"}, "24,LS_mode: "),
        row("error.B.42", "register", {"type": "Windows"}, "42,PN_type: unknown platform Windows%2C expected one of"),
        row("error.B.43", "register", {"appId": "com.example.other"}, "43,PN_appId: "),
        row("error.B.43.platform", "register", {"type": "Google", "appId": "site"}, "43,PN_appId: "),
        row("error.B.44", "activate", {"trigger": "Double.parseDouble($[1]) >"}, "44,PN_trigger: "),
        row("error.B.44.accepted", "activate", {"trigger": "$[1].length() > 5"}, "44,PN_trigger: "),
        row("error.B.44.pn_reconf", "pn_reconf", {"trigger": "nonsense"}, "44,PN_trigger: "),
        row("error.B.45", "reset_badge", {"deviceId": UNKNOWN}, "45,PN_deviceId: "),
        row("error.B.46.activate", "activate", {"subscriptionId": UNKNOWN}, "46,PN_subscriptionId: "),
        row("error.B.46.pn_reconf", "pn_reconf", {"subscriptionId": UNKNOWN}, "46,PN_subscriptionId: "),
        row("error.B.46.deactivate", "deactivate", {"subscriptionId": UNKNOWN}, "46,PN_subscriptionId: "),
        row("error.B.47.name", "activate", {"notificationFormat": '{"aps":{"alert":"${z}"}}'}, "47,"),
        row("error.B.47.index", "activate", {"notificationFormat": '{"aps":{"alert":"$[2]"}}'}, "47,"),
        row("error.B.47.trigger", "activate", {"trigger": "Double.parseDouble(${z}) > 1"}, "47,"),
        row("error.B.49.token", "register", {"deviceToken": "t" * 4097}, "49,"),
        row("error.B.49.format", "activate", {"notificationFormat": f'{{"aps":{{"x":"{"x" * 9000}"}}}}'}, "49,"),
        row("error.B.50", "activate", {"group": "empty"}, "50,"),
        row(
            "error.B.51",
            "activate",
            {"notificationFormat": f'{{"aps":{{"alert":"{"x" * 4096}"}}}}'},
            "51,PN_notificationFormat: ",
        ),
        row("error.B.52", "activate", {"notificationFormat": "{aps}"}, "52,PN_notificationFormat: "),
        row("error.B.52.object", "activate", {"notificationFormat": "[1]"}, "52,PN_notificationFormat: "),
        row("error.B.52.pn_reconf", "pn_reconf", {"notificationFormat": "{aps}"}, "52,PN_notificationFormat: "),
        row("error.B.53", "activate", {"notificationFormat": ""}, "53,PN_notificationFormat: "),
        row("error.B.53.object", "activate", {"notificationFormat": "{}"}, "53,PN_notificationFormat: "),
        row("error.B.56.data_adapter", "pn_reconf", {"data_adapter": "PLAIN"}, "56,"),
        row("error.B.56.group", "pn_reconf", {"group": "b"}, "56,"),
        row("error.B.56.schema", "pn_reconf", {"schema": "y"}, "56,"),
        row("error.B.56.mode", "pn_reconf", {"mode": "DISTINCT"}, "56,"),
    ],
)
def test_a_request_that_fails_is_answered_with_its_code_and_changes_nothing(
    client: PushClient, operation: str, changes: dict[str, object], expected: str
) -> None:
    subscription = client.activate()
    if operation == "pn_reconf":
        changes = {"subscriptionId": subscription, **changes}
    assert client.refused(operation, **changes).startswith(f"REQERR,1,{expected}")
    assert client.deactivated() == {subscription}


@pytest.mark.conformance("error.B.41")
def test_more_than_the_module_can_take_is_error_41(client: PushClient) -> None:
    for number in range(1, 11):
        client.activate(subId=number)
    assert client.refused("activate", subId=11).startswith("REQERR,1,41,")
    assert client.activate(subId=11, coalescing=True)


@pytest.mark.conformance("error.B.48")
def test_a_device_that_its_platform_does_not_know_any_more_is_suspended(
    pushing: BackgroundServer, client: PushClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(*arguments: object) -> Handover:
        return Handover(Verdict.GONE, "Unregistered")

    push_service = pushing.server.push
    assert push_service.engine is not None
    provider = push_service.engine.flights.providers[Platform.APPLE, "com.example.gone"]
    monkeypatch.setattr(provider, "send", gone)
    device = client.done("register", appId="com.example.gone").split(",")[1]
    subscription = client.activate(deviceId=device)
    item = {"data_adapter": ADAPTER, "group": f"DEV-{device}", "schema": "status", "snapshot": True}
    client.socket.send("control", add(5, **item))
    assert client.socket.read_until("U")[-1] == "U,5,1,ACTIVE"
    pushing.update("a", x="1")
    assert client.socket.read_until("U")[-1] == "U,5,1,SUSPENDED"
    assert client.refused("activate", deviceId=device).startswith("REQERR,1,48,PN_deviceId: ")
    assert client.refused("pn_reconf", deviceId=device, subscriptionId=subscription).startswith("REQERR,1,48,")
    client.done("register", appId="com.example.gone")
    client.activate(deviceId=device, subId=2)
    client.done("deactivate", deviceId=device)
