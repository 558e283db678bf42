from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.form import MAX_DIGITS, FormError, parse_line, split_lines
from penstock.wire.tlcp.control import MODES, Request
from penstock.wire.tlcp.errors import ControlCode, RequestError
from penstock.wire.tlcp.push import (
    PUSH_OPERATIONS,
    ActivatePush,
    DeactivatePush,
    ReconfigurePush,
    RegisterDevice,
    ResetBadge,
)
from penstock.wire.tlcp.requests import (
    CONTROL_OPERATIONS,
    BindSession,
    Constrain,
    CreateSession,
    Destroy,
    ForceRebind,
    Heartbeat,
    Reconfigure,
    SendMessage,
    StreamOptions,
    Subscribe,
    Unsubscribe,
    WebSocketCheck,
    parse_requests,
)

# The least that each request needs.
LEAST = {
    "create_session": "",
    "bind_session": "LS_session=S1",
    "heartbeat": "",
    "add": "LS_reqId=1&LS_op=add&LS_subId=1&LS_group=g&LS_schema=s&LS_mode=MERGE",
    "delete": "LS_reqId=1&LS_op=delete&LS_subId=1",
    "reconf": "LS_reqId=1&LS_op=reconf&LS_subId=1",
    "constrain": "LS_reqId=1&LS_op=constrain",
    "force_rebind": "LS_reqId=1&LS_op=force_rebind",
    "destroy": "LS_reqId=1&LS_op=destroy",
    "msg": "LS_reqId=1&LS_message=hello&LS_msg_prog=1",
    "register": "LS_reqId=1&LS_op=register&PN_type=Apple&PN_appId=app&PN_deviceToken=t",
    "reset_badge": "LS_reqId=1&LS_op=reset_badge&PN_deviceId=d",
    "activate": "LS_reqId=1&LS_op=activate&PN_deviceId=d&LS_subId=1&LS_group=g&LS_schema=s&LS_mode=MERGE"
    "&PN_notificationFormat=%7B%7D",
    "pn_reconf": "LS_reqId=1&LS_op=pn_reconf&PN_deviceId=d&PN_subscriptionId=p&LS_group=g&LS_schema=s&LS_mode=MERGE",
    "deactivate": "LS_reqId=1&LS_op=deactivate&PN_deviceId=d",
}
CONTROLS = (*CONTROL_OPERATIONS, *PUSH_OPERATIONS)
TOO_LONG = "1" * (MAX_DIGITS + 1)
NOT_NUMBERS = [
    "",
    "x",
    "1.5",
    "1e3",
    "+1",
    "%2B1",
    "0x1",
    "1_0",
    "%201",
    "1%20",
    "\u0661",
    "%D9%A1",
    "--1",
    "-",
    TOO_LONG,
]
NOT_COUNTS = [*NOT_NUMBERS, "-1"]
NOT_FLAGS = ["", "True", "TRUE", "1", "0", "yes", "true%20", "null"]
NOT_RATES = [
    "",
    "0",
    "0.0",
    "-1",
    "1e3",
    "1.",
    ".",
    "1,5",
    "NaN",
    "nan",
    "inf",
    "Infinity",
    "Unlimited",
    "1%20",
    TOO_LONG,
]


def name_of(kind: str) -> str:
    return "control" if kind in CONTROLS else kind


def parse(kind: str, line: str, **defaults: str) -> Request | RequestError:
    """The one request of a line."""
    found = parse_requests(name_of(kind), [line], defaults)
    assert len(found) == 1
    return found[0]


def with_parameter(kind: str, name: str, value: str) -> str:
    """The least request, with one parameter set to a value, replaced if it is there."""
    kept = [pair for pair in LEAST[kind].split("&") if pair and not pair.startswith(f"{name}=")]
    return "&".join([*kept, f"{name}={value}"])


def without_parameter(kind: str, name: str) -> str:
    return "&".join(pair for pair in LEAST[kind].split("&") if not pair.startswith(f"{name}="))


def accepted(kind: str, line: str) -> Any:
    found = parse(kind, line)
    assert not isinstance(found, RequestError), found.message
    return found


def refused(kind: str, line: str) -> RequestError:
    found = parse(kind, line)
    assert isinstance(found, RequestError), found
    assert str(found) == found.message
    return found


# -- every parameter: default, valid, invalid --------------------------------------------------------------------------

Reader = Callable[[Any], Any]

# Request, parameter, how the record shows it, its default, valid values with their meaning, invalid values.
PARAMETERS: list[tuple[str, str, Reader, Any, list[tuple[str, Any]], list[str]]] = []


def parameter(
    kinds: str, name: str, reader: Reader, default: Any, valid: list[tuple[str, Any]], invalid: list[str]
) -> None:
    PARAMETERS.extend((kind, name, reader, default, valid, invalid) for kind in kinds.split())


NUMBERS = [("0", 0), ("1", 1), ("007", 7), ("9" * MAX_DIGITS, int("9" * MAX_DIGITS))]
FLAGS = [("true", True), ("false", False)]

parameter("create_session bind_session", "LS_polling", lambda r: r.stream.polling, False, FLAGS, NOT_FLAGS)
parameter("create_session bind_session", "LS_send_sync", lambda r: r.stream.send_sync, True, FLAGS, NOT_FLAGS)
parameter("create_session bind_session", "LS_reduce_head", lambda r: r.stream.reduce_head, False, FLAGS, NOT_FLAGS)
parameter("create_session bind_session", "LS_polling_millis", lambda r: r.stream.polling_millis, 0, NUMBERS, NOT_COUNTS)
parameter("create_session bind_session", "LS_idle_millis", lambda r: r.stream.idle_millis, 0, NUMBERS, NOT_COUNTS)
parameter(
    "create_session bind_session", "LS_keepalive_millis", lambda r: r.stream.keepalive_millis, None, NUMBERS, NOT_COUNTS
)
parameter(
    "create_session bind_session",
    "LS_inactivity_millis",
    lambda r: r.stream.inactivity_millis,
    None,
    NUMBERS,
    NOT_COUNTS,
)
parameter(
    "create_session bind_session", "LS_content_length", lambda r: r.stream.content_length, None, NUMBERS, NOT_COUNTS
)
parameter("bind_session", "LS_recovery_from", lambda r: r.recovery_from, None, NUMBERS, NOT_COUNTS)

TEXTS = [
    ("a", "a"),
    ("a%20b", "a b"),
    ("a+b", "a b"),
    ("%26%3D%25%2B", "&=%+"),
    ("%C3%A9", "é"),
    ("é", "é"),
    ("=", "="),
]

parameter("create_session", "LS_user", lambda r: r.user, None, [*TEXTS, ("", "")], [])
parameter("create_session", "LS_password", lambda r: r.password, None, [*TEXTS, ("", "")], [])
parameter("create_session", "LS_cid", lambda r: r.client_id, None, [*TEXTS, ("", "")], [])
parameter("create_session", "LS_adapter_set", lambda r: r.adapter_set, "DEFAULT", [*TEXTS, ("", "DEFAULT")], [])
parameter(
    "create_session",
    "LS_ttl_millis",
    lambda r: r.ttl_millis,
    None,
    [*NUMBERS, ("unknown", None), ("unlimited", None)],
    [*NOT_COUNTS, "Unlimited"],
)
parameter(
    "create_session",
    "LS_supported_diffs",
    lambda r: r.supported_diffs,
    None,
    [("", ()), ("P", ("P",)), ("P,T", ("P", "T")), ("P%2CT", ("P", "T")), ("Z", ("Z",))],
    [],
)
RATES = [("1", 1.0), ("2.5", 2.5), (".5", 0.5), ("000.10", 0.1), ("unlimited", None)]
parameter("create_session", "LS_requested_max_bandwidth", lambda r: r.max_bandwidth, None, RATES, NOT_RATES)
parameter(
    "constrain",
    "LS_requested_max_bandwidth",
    lambda r: (r.changes_bandwidth, r.max_bandwidth),
    (False, None),
    [(text, (True, rate)) for text, rate in RATES],
    NOT_RATES,
)

parameter("add", "LS_group", lambda r: r.group, "g", TEXTS, [""])
parameter("add", "LS_schema", lambda r: r.schema, "s", TEXTS, [""])
parameter(
    "add", "LS_mode", lambda r: r.mode, "MERGE", [(mode, mode) for mode in MODES], ["", "merge", "ALL", "MERGE%20"]
)
parameter("add", "LS_selector", lambda r: r.selector, None, [*TEXTS, ("", "")], [])
parameter("add", "LS_data_adapter", lambda r: r.data_adapter, "DEFAULT", [*TEXTS, ("", "DEFAULT")], [])
parameter(
    "add",
    "LS_requested_buffer_size",
    lambda r: r.buffer_size,
    None,
    [("1", 1), ("1000", 1000), ("unlimited", 0)],
    [*NOT_COUNTS, "0", "unfiltered"],
)
parameter(
    "add",
    "LS_requested_max_frequency",
    lambda r: (r.max_frequency, r.unfiltered),
    (None, False),
    [*((text, (rate, False)) for text, rate in RATES), ("unfiltered", (None, True))],
    NOT_RATES,
)
parameter(
    "add",
    "LS_snapshot",
    lambda r: (r.snapshot, r.snapshot_length),
    (False, None),
    [("true", (True, None)), ("false", (False, None))],
    [*NOT_FLAGS, "10"],
)
parameter("add delete msg", "LS_ack", lambda r: r.ack, True, FLAGS, NOT_FLAGS)
parameter(
    "add delete reconf",
    "LS_subId",
    lambda r: r.subscription,
    1,
    [("2", 2), ("9" * MAX_DIGITS, int("9" * MAX_DIGITS))],
    [*NOT_COUNTS, "0"],
)
parameter(
    "reconf",
    "LS_requested_max_frequency",
    lambda r: (r.changes_frequency, r.max_frequency),
    (False, None),
    [(text, (True, rate)) for text, rate in RATES],
    [*NOT_RATES, "unfiltered"],
)
parameter("force_rebind", "LS_polling_millis", lambda r: r.polling_millis, 0, NUMBERS, NOT_COUNTS)
parameter("force_rebind destroy", "LS_close_socket", lambda r: r.close_socket, False, FLAGS, NOT_FLAGS)
parameter("destroy", "LS_cause_code", lambda r: r.cause_code, None, [*NUMBERS, ("-7", -7), ("-0", 0)], NOT_NUMBERS)
parameter("destroy", "LS_cause_message", lambda r: r.cause_message, None, [*TEXTS, ("", "")], [])

parameter("msg", "LS_message", lambda r: r.message, "hello", [*TEXTS, ("", ""), ("%0D%0A", "\r\n")], [])
parameter(
    "msg",
    "LS_sequence",
    lambda r: r.sequence,
    None,
    [("CHAT", "CHAT"), ("a_1", "a_1"), ("x" * 256, "x" * 256)],
    ["", "a-b", "a%20b", "é", "UNORDERED_MESSAGES", "x" * 257, "*"],
)
parameter(
    "msg", "LS_msg_prog", lambda r: r.progressive, 1, [("2", 2), ("9" * MAX_DIGITS, 10**15 - 1)], [*NOT_COUNTS, "0"]
)
parameter("msg", "LS_max_wait", lambda r: r.max_wait_millis, None, NUMBERS, NOT_COUNTS)
parameter("msg", "LS_outcome", lambda r: r.outcome, True, FLAGS, NOT_FLAGS)

parameter("register", "PN_type", lambda r: r.platform, "Apple", TEXTS, [""])
parameter("register", "PN_appId", lambda r: r.application, "app", TEXTS, [""])
parameter("register", "PN_deviceToken", lambda r: r.token, "t", TEXTS, [""])
parameter("register", "PN_newDeviceToken", lambda r: r.new_token, None, TEXTS, [""])
parameter("reset_badge activate pn_reconf deactivate", "PN_deviceId", lambda r: r.device, "d", TEXTS, [""])
parameter("activate deactivate", "PN_subscriptionId", lambda r: r.subscription, None, TEXTS, [""])
parameter("pn_reconf", "PN_subscriptionId", lambda r: r.subscription, "p", TEXTS, [""])
parameter("activate", "LS_subId", lambda r: r.number, 1, [("2", 2), ("9" * MAX_DIGITS, 10**15 - 1)], [*NOT_COUNTS, "0"])
parameter("activate pn_reconf", "LS_group", lambda r: r.group, "g", TEXTS, [""])
parameter("activate pn_reconf", "LS_schema", lambda r: r.schema, "s", TEXTS, [""])
parameter("activate pn_reconf", "LS_data_adapter", lambda r: r.data_adapter, "DEFAULT", [*TEXTS, ("", "DEFAULT")], [])
parameter(
    "activate pn_reconf",
    "LS_mode",
    lambda r: r.mode,
    "MERGE",
    [(mode, mode) for mode in MODES],
    ["", "merge", "ALL", "MERGE%20"],
)
parameter(
    "activate",
    "LS_requested_buffer_size",
    lambda r: r.buffer_size,
    None,
    [("1", 1), ("1000", 1000), ("unlimited", 0)],
    [*NOT_COUNTS, "0", "unfiltered"],
)
parameter("activate", "LS_requested_max_frequency", lambda r: r.max_frequency, None, RATES, [*NOT_RATES, "unfiltered"])
parameter(
    "pn_reconf",
    "LS_requested_max_frequency",
    lambda r: (r.changes_frequency, r.max_frequency),
    (False, None),
    [(text, (True, rate)) for text, rate in RATES],
    [*NOT_RATES, "unfiltered"],
)
# Whether it is JSON is another question than whether the request has a form; so is whether it is empty.
parameter("activate", "PN_notificationFormat", lambda r: r.format, "{}", [*TEXTS, ("", "")], [])
parameter("pn_reconf", "PN_notificationFormat", lambda r: r.format, None, [*TEXTS, ("", "")], [])
parameter("activate", "PN_trigger", lambda r: r.trigger, None, [*TEXTS, ("", None)], [])
parameter("pn_reconf", "PN_trigger", lambda r: r.trigger, None, [*TEXTS, ("", "")], [])
parameter("activate", "PN_coalescing", lambda r: r.coalescing, False, FLAGS, NOT_FLAGS)
parameter(
    "deactivate",
    "PN_subscriptionStatus",
    lambda r: r.status,
    None,
    [("ACTIVE", "ACTIVE"), ("TRIGGERED", "TRIGGERED")],
    ["", "active", "SUSPENDED", "ACTIVE%20"],
)

parameter(
    "add delete reconf constrain force_rebind destroy msg register reset_badge activate pn_reconf deactivate",
    "LS_reqId",
    lambda r: r.request_id,
    "1",
    [("7", "7"), ("abc", "abc"), ("A-1_b", "A-1_b"), ("9" * 64, "9" * 64)],
    ["", "a%20b", "a,b", "é", "%0D%0A", "9" * 65],
)
parameter(
    "bind_session heartbeat add delete reconf constrain force_rebind destroy msg "
    "register reset_badge activate pn_reconf deactivate",
    "LS_session",
    lambda r: r.session,
    ...,
    [("S2", "S2"), ("%53x", "Sx"), ("any+text", "any text")],
    [],
)


def identity(row: tuple[Any, ...]) -> str:
    return f"{row[0]} {row[1]}"


@pytest.mark.parametrize("row", PARAMETERS, ids=identity)
def test_a_parameter_that_is_not_given_has_its_default(row: tuple[Any, ...]) -> None:
    kind, name, reader, default, _, _ = row
    if default is ...:
        default = "S1" if kind == "bind_session" else None
    assert reader(accepted(kind, LEAST[kind])) == default, name


@pytest.mark.parametrize("row", PARAMETERS, ids=identity)
def test_every_valid_value_of_a_parameter_is_understood(row: tuple[Any, ...]) -> None:
    kind, name, reader, _, valid, _ = row
    for text, meaning in valid:
        assert reader(accepted(kind, with_parameter(kind, name, text))) == meaning, text


@pytest.mark.parametrize("row", PARAMETERS, ids=identity)
def test_every_invalid_value_is_refused_with_65_and_names_its_parameter(row: tuple[Any, ...]) -> None:
    kind, name, _, _, _, invalid = row
    for text in invalid:
        error = refused(kind, with_parameter(kind, name, text))
        assert error.code == ControlCode.SYNTAX, text
        assert name in error.message, text
        assert len(error.message) < 250, text


@pytest.mark.parametrize("row", PARAMETERS, ids=identity)
@pytest.mark.parametrize(
    "value", ["%", "%4", "%zz", "a%", "%u0041", "%C3", "%FF", "%ED%A0%80", "%C0%80", "%F4%90%80%80"]
)
def test_bad_percent_encoding_is_malformed_wherever_it_stands(row: tuple[Any, ...], value: str) -> None:
    kind, name = row[:2]
    error = refused(kind, with_parameter(kind, name, value))
    assert error.code == ControlCode.MALFORMED
    assert name in error.message


@pytest.mark.parametrize("row", PARAMETERS, ids=identity)
def test_a_parameter_given_twice_is_malformed(row: tuple[Any, ...]) -> None:
    kind, name, _, _, valid, _ = row
    line = with_parameter(kind, name, valid[0][0])
    for repeated in (f"{name}={valid[0][0]}", f"{name.replace('_', '%5F')}={valid[-1][0]}"):
        error = refused(kind, f"{line}&{repeated}")
        assert error.code == ControlCode.MALFORMED
        assert name in error.message


REQUIRED = [
    *((kind, "LS_reqId") for kind in (*CONTROLS, "msg")),
    *((kind, "LS_subId") for kind in ("add", "delete", "reconf")),
    *(("add", name) for name in ("LS_group", "LS_schema", "LS_mode")),
    ("msg", "LS_message"),
    ("msg", "LS_msg_prog"),
    *(("register", name) for name in ("PN_type", "PN_appId", "PN_deviceToken")),
    *((kind, "PN_deviceId") for kind in ("reset_badge", "activate", "pn_reconf", "deactivate")),
    *((kind, name) for kind in ("activate", "pn_reconf") for name in ("LS_group", "LS_schema", "LS_mode")),
    ("activate", "LS_subId"),
    ("activate", "PN_notificationFormat"),
    ("pn_reconf", "PN_subscriptionId"),
]


@pytest.mark.parametrize(("kind", "name"), REQUIRED)
def test_a_required_parameter_that_is_missing_is_named(kind: str, name: str) -> None:
    error = refused(kind, without_parameter(kind, name))
    assert error.code == ControlCode.SYNTAX
    assert name in error.message
    assert "missing" in error.message


def test_every_parameter_of_the_records_is_in_the_table() -> None:
    """A new field needs a row above."""
    records = {
        "create_session": CreateSession,
        "bind_session": BindSession,
        "add": Subscribe,
        "delete": Unsubscribe,
        "reconf": Reconfigure,
        "constrain": Constrain,
        "force_rebind": ForceRebind,
        "destroy": Destroy,
        "msg": SendMessage,
        "register": RegisterDevice,
        "reset_badge": ResetBadge,
        "activate": ActivatePush,
        "pn_reconf": ReconfigurePush,
        "deactivate": DeactivatePush,
    }
    # Fields that are another view of a parameter in the table, or no parameter.
    derived = {
        "unknown",
        "stream",
        "controls",
        "changes_frequency",
        "changes_bandwidth",
        "unfiltered",
        "snapshot_length",
    }
    for kind, record in records.items():
        shown = (
            {field.name for field in fields(record)} - derived - ({"session"} if kind == "create_session" else set())
        )
        rows = [row for row in PARAMETERS if row[0] == kind]
        if "stream" in {field.name for field in fields(record)}:
            shown |= {field.name for field in fields(StreamOptions)}
        assert len(rows) == len(shown), kind


# -- rules between parameters ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "meaning"), [("10", (True, 10)), ("0", (False, 0)), ("true", (True, None))])
def test_a_snapshot_length_is_allowed_in_distinct_mode(value: str, meaning: tuple[bool, int | None]) -> None:
    line = with_parameter("add", "LS_mode", "DISTINCT") + f"&LS_snapshot={value}"
    found = accepted("add", line)
    assert (found.snapshot, found.snapshot_length) == meaning


@pytest.mark.parametrize("mode", ["RAW", "MERGE", "COMMAND"])
def test_a_snapshot_length_is_refused_in_any_other_mode(mode: str) -> None:
    error = refused("add", with_parameter("add", "LS_mode", mode) + "&LS_snapshot=10")
    assert (error.code, "LS_snapshot" in error.message) == (ControlCode.SYNTAX, True)


def test_raw_mode_has_no_snapshot_and_no_filter() -> None:
    found = accepted("add", with_parameter("add", "LS_mode", "RAW") + "&LS_snapshot=true")
    assert (found.snapshot, found.unfiltered) == (False, True)


@pytest.mark.parametrize(
    ("extra", "is_needed"),
    [
        ("", True),
        ("&LS_outcome=true", True),
        ("&LS_outcome=false", False),
        ("&LS_sequence=A", True),
        ("&LS_sequence=A&LS_outcome=false", True),
    ],
)
def test_a_message_needs_its_number_with_a_sequence_or_an_outcome(extra: str, is_needed: bool) -> None:
    line = without_parameter("msg", "LS_msg_prog") + extra
    found = parse("msg", line)
    if is_needed:
        assert isinstance(found, RequestError)
        assert "LS_msg_prog" in found.message
    else:
        assert isinstance(found, SendMessage)
        assert found.progressive is None


@pytest.mark.parametrize("operation", ["", "ADD", "subscribe", "add%20", "x" * 5000])
def test_an_unknown_operation_is_refused_and_shortened(operation: str) -> None:
    error = refused("add", f"LS_reqId=9&LS_op={operation}")
    assert (error.code, error.request_id) == (ControlCode.SYNTAX, "9")
    assert "LS_op" in error.message
    assert len(error.message) < 250


def test_a_password_is_shown_neither_by_the_record_nor_by_an_error() -> None:
    found = accepted("create_session", "LS_user=u&LS_password=s3cret")
    assert "s3cret" not in repr(found)
    for line in ("LS_password=s3cret%", "LS_password=s3cret&LS_password=s3cret", "LS_password=a&s3cret", "s3cret"):
        assert "s3cret" not in refused("create_session", line).message


def test_the_token_of_a_device_is_shown_neither_by_the_record_nor_by_an_error() -> None:
    tokens = "&PN_deviceToken=s3cret&PN_newDeviceToken=s3cret"
    found = accepted("register", without_parameter("register", "PN_deviceToken") + tokens)
    assert (found.token, found.new_token) == ("s3cret", "s3cret")
    assert "s3cret" not in repr(found)
    for line in (tokens, tokens + "%", tokens + tokens, LEAST["register"] + "&s3cret"):
        assert "s3cret" not in refused("register", f"LS_reqId=1&LS_op=register{line}").message


# -- names -------------------------------------------------------------------------------------------------------------


def test_parameters_nobody_knows_are_reported_and_change_nothing() -> None:
    plain = accepted("add", LEAST["add"])
    found = accepted("add", LEAST["add"] + "&LS_new=1&x=&%C3%A9=2")
    assert found.unknown == ("LS_new", "x", "é")
    assert plain.unknown == ()
    assert (found.group, found.subscription) == (plain.group, plain.subscription)


@pytest.mark.parametrize("name", ["LS_cause", "LS_old_session", "LS_unq", "LS_domain", "LS_protocol"])
def test_what_official_clients_always_send_is_not_reported(name: str) -> None:
    for kind in LEAST:
        assert accepted(kind, f"{LEAST[kind]}&{name}=x".lstrip("&")).unknown == (), kind


def test_names_are_case_sensitive() -> None:
    assert "LS_reqId is missing" in refused("destroy", "LS_reqid=1&LS_op=destroy").message


@pytest.mark.parametrize(
    "name", ["", "Control", "control.txt", "sessions", "create-session", "constrain", "x" * 5000, "é"]
)
def test_an_unknown_request_name_is_malformed(name: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_requests(name, ["LS_reqId=1"], {})
    assert caught.value.code == ControlCode.MALFORMED
    assert "create_session" in caught.value.message
    assert len(caught.value.message) < 300


# -- lines -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    ["x", "=", "=x", "&=", "a=1&=", "&x", "a=1&&b", "a=1&b", "\0", "a\r", "a=1\nb=2", "a=\r"],
)
def test_a_line_that_is_not_pairs_is_malformed(line: str) -> None:
    for kind in LEAST:
        assert refused(kind, line).code == ControlCode.MALFORMED


@pytest.mark.parametrize(
    ("line", "parameters"),
    [
        ("", {}),
        ("a=", {"a": ""}),
        ("a=b=c", {"a": "b=c"}),
        ("a=1&b=2", {"a": "1", "b": "2"}),
        ("a=+", {"a": " "}),
        ("a=%2B", {"a": "+"}),
        ("a+b=1", {"a b": "1"}),
        ("%61=1", {"a": "1"}),
        ("a=%e2%82%AC", {"a": "€"}),
        ("a=%00", {"a": "\0"}),
        ("a=%0D%0A", {"a": "\r\n"}),
        ("a=𝄞", {"a": "𝄞"}),
        ("a=é%C3%A9+", {"a": "éé "}),
        ("a=%25%32%35", {"a": "%25"}),
        ("a=1&", {"a": "1"}),
        ("&a=1", {"a": "1"}),
        ("a=1&&b=2&", {"a": "1", "b": "2"}),
        ("&", {}),
        ("&&&", {}),
    ],
)
def test_pairs_are_percent_decoded_once(line: str, parameters: dict[str, str]) -> None:
    assert parse_line(line) == parameters


@given(st.text(max_size=60) | st.text("&=%+ab\r\n\0é2F", max_size=60))
def test_any_line_is_pairs_or_malformed(line: str) -> None:
    parameters = {}
    is_malformed = True
    try:
        parameters = parse_line(line)
    except FormError as error:
        is_malformed = error.is_malformed
    assert is_malformed
    for text in (*parameters, *parameters.values()):
        assert text.encode().decode() == text


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", [""]),
        ("\r\n", [""]),
        ("a", ["a"]),
        ("a\r\n", ["a"]),
        ("a\r\nb", ["a", "b"]),
        ("a\r\nb\r\n", ["a", "b"]),
        ("a\r\n\r\n", ["a", ""]),
        ("\r\n\r\n", ["", ""]),
        ("\r\na", ["", "a"]),
        ("a\nb", ["a\nb"]),
        ("a\rb\r\nc", ["a\rb", "c"]),
    ],
)
def test_lines_end_in_cr_lf_and_the_last_end_is_optional(text: str, lines: list[str]) -> None:
    assert split_lines(text) == lines


# -- batches -----------------------------------------------------------------------------------------------------------

GOOD = "LS_reqId=%d&LS_op=constrain"
WRONG_LINES = [
    ("", None, ControlCode.SYNTAX),
    ("x", None, ControlCode.MALFORMED),
    ("LS_reqId=2&LS_op=nothing", "2", ControlCode.SYNTAX),
    ("LS_reqId=2&LS_op=constrain&LS_requested_max_bandwidth=no", "2", ControlCode.SYNTAX),
    ("LS_reqId=2&LS_op=constrain&LS_op=constrain", "2", ControlCode.MALFORMED),
    ("LS_op=constrain&x&LS%5FreqId=%32", "2", ControlCode.MALFORMED),
    ("LS_reqId=2&LS_op=constrain&LS_reqId=3", None, ControlCode.MALFORMED),
    ("LS_reqId=2\nLS_op=constrain", None, ControlCode.MALFORMED),
    ("LS_reqId=a%20b&LS_op=%", None, ControlCode.MALFORMED),
    ("LS_reqId=%FF&LS_op=constrain", None, ControlCode.MALFORMED),
    ("LS_reqId=a%20b&LS_op=constrain", None, ControlCode.SYNTAX),
    ("LS_op=constrain", None, ControlCode.SYNTAX),
    ("LS_reqId=2&LS_op=constrain\nLS_reqId=3&LS_op=constrain", "2", ControlCode.MALFORMED),
    ("LS_reqId=2&LS_op=register", "2", ControlCode.SYNTAX),
]


@pytest.mark.parametrize(("line", "request_id", "code"), WRONG_LINES)
@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_wrong_line_does_not_spoil_its_neighbours(
    line: str, request_id: str | None, code: int, position: int
) -> None:
    batch = [GOOD % 10, GOOD % 11]
    batch.insert(position, line)
    found = parse_requests("control", split_lines("\r\n".join([*batch, ""])), {"LS_session": "S1"})
    wrong = found.pop(position)
    assert isinstance(wrong, RequestError)
    assert (wrong.request_id, wrong.code) == (request_id, code)
    assert [request.request_id for request in found if isinstance(request, Constrain)] == ["10", "11"]
    assert [request.session for request in found if isinstance(request, Constrain)] == ["S1", "S1"]


def test_the_session_of_the_query_string_is_a_default_that_a_line_may_override() -> None:
    found = parse_requests("control", [GOOD % 1, GOOD % 2 + "&LS_session=S2"], {"LS_session": "S1"})
    assert [request.session for request in found if isinstance(request, Constrain)] == ["S1", "S2"]


def test_messages_and_heartbeats_come_in_batches_too() -> None:
    found = parse_requests(
        "msg", ["LS_reqId=1&LS_message=a&LS_msg_prog=1", "LS_reqId=2&LS_message=b&LS_msg_prog=2"], {}
    )
    assert [request.message for request in found if isinstance(request, SendMessage)] == ["a", "b"]
    assert parse_requests("heartbeat", ["", "LS_session=S1"], {}) == [Heartbeat(None), Heartbeat("S1")]


def test_a_binding_request_is_one_line() -> None:
    (found,) = parse_requests("bind_session", ["LS_session=S1", "LS_session=S2"], {})
    assert isinstance(found, RequestError)
    assert found.code == ControlCode.MALFORMED


def test_the_check_of_a_websocket_has_no_parameters() -> None:
    assert parse_requests("wsok", [""], {}) == [WebSocketCheck(None)]


# -- session and control in one request --------------------------------------------------------------------------------


def test_a_creation_may_carry_a_control_request_in_its_own_line() -> None:
    found = accepted("create_session", "LS_user=&LS_adapter_set=DEMO&LS_cid=x&" + without_parameter("add", "LS_reqId"))
    assert (found.adapter_set, found.user) == ("DEMO", "")
    (control,) = found.controls
    assert isinstance(control, Subscribe)
    assert (control.request_id, control.subscription, control.session) == ("", 1, None)
    assert found.unknown == ()


def test_a_creation_may_be_followed_by_any_number_of_control_requests() -> None:
    add = "LS_op=add&LS_group=g&LS_schema=s&LS_mode=MERGE&LS_subId="
    (found,) = parse_requests("create_session", ["LS_adapter_set=DEMO", add + "1", add + "2", "LS_op=constrain"], {})
    assert isinstance(found, CreateSession)
    assert [type(control) for control in found.controls] == [Subscribe, Subscribe, Constrain]


@pytest.mark.parametrize("kind", PUSH_OPERATIONS)
def test_a_creation_may_carry_a_request_about_push_notifications(kind: str) -> None:
    found = accepted("create_session", "LS_adapter_set=DEMO&" + without_parameter(kind, "LS_reqId"))
    (control,) = found.controls
    assert replace(control, unknown=()) == replace(accepted(kind, LEAST[kind]), request_id="")
    assert found.unknown == ()


@pytest.mark.parametrize(
    "line", ["LS_op=add", "LS_op=nothing", "x", "", "LS_op=constrain&LS_requested_max_bandwidth=0", "LS_op=register"]
)
def test_a_wrong_control_request_spoils_the_creation_with_64(line: str) -> None:
    (found,) = parse_requests("create_session", ["LS_adapter_set=DEMO", "LS_op=constrain", line], {})
    assert isinstance(found, RequestError)
    assert found.code == 64
    assert found.request_id is None


def test_parameters_of_a_get_request_come_from_its_query_string() -> None:
    query = parse_line("LS_protocol=TLCP-2.4.0&LS_user=&LS_adapter_set=DEMO&LS_cid=a%20b")
    (found,) = parse_requests("create_session", [""], query)
    assert isinstance(found, CreateSession)
    assert (found.adapter_set, found.client_id, found.unknown) == ("DEMO", "a b", ())


# -- anything ----------------------------------------------------------------------------------------------------------

NAMES = sorted({row[1] for row in PARAMETERS} | {"LS_op", "x"})
PAIRS = st.tuples(
    st.sampled_from(NAMES), st.sampled_from([*CONTROLS, *MODES, "1", "true", "%41"]) | st.text(max_size=8)
)
BODIES = st.lists(st.lists(PAIRS, max_size=8), max_size=4)


@given(st.sampled_from([*LEAST, "control", "wsok"]), BODIES)
def test_any_lines_become_one_request_or_documented_error_each(kind: str, body: list[list[tuple[str, str]]]) -> None:
    lines = ["&".join(f"{name}={value}" for name, value in pairs) for pairs in body]
    found = parse_requests(name_of(kind), lines, {})
    assert all(isinstance(entry, Request | RequestError) for entry in found)
    if kind not in ("wsok", "create_session", "bind_session"):
        assert len(found) == len(lines)
