from __future__ import annotations

from collections import Counter

import pytest

from penstock.doors.tlex.openapi import OPERATIONS, REFUSALS
from penstock.monitor.statistics import FIELDS
from penstock.services.overview import LIBRARIES
from penstock.wire.ditto.control import Signals
from penstock.wire.ditto.kinds import COMMANDS
from penstock.wire.ditto.rql import COMPARISONS
from penstock.wire.ditto.topic import Criterion, StreamingAction
from penstock.wire.text6 import requests as text6_requests
from penstock.wire.text6.errors import Code
from penstock.wire.tlcp.errors import ControlCode, SessionCode
from penstock.wire.tlcp.push import PUSH_OPERATIONS
from penstock.wire.tlcp.requests import CONTROL_OPERATIONS
from penstock.wire.tlex.datagrams import DatagramKind
from penstock.wire.tlex.vocabulary import EndReason
from tests.adapters.monitor import test_adapter
from tests.conformance.ditto.test_twin import PARTS as DITTO_PARTS
from tests.conformance.table import DOCUMENT, document, rows, shown_rows

# Every code of the specification's appendices; the negative ones belong to the metadata adapter.
SESSION_CODES = {*range(1, 12), 20, 21, *range(31, 36), 40, 48, 60, *range(64, 72)}
CONTROL_CODES = {
    3, 11, 13, 15, 16, 17, *range(19, 31), *range(32, 36), 38, 39, *range(40, 54), 56, 65, 66, 67, 68,
}  # fmt: skip

PARAMETERS = {
    "create": (
        "LS_cid LS_user LS_password LS_adapter_set LS_requested_max_bandwidth LS_content_length LS_supported_diffs "
        "LS_polling LS_polling_millis LS_idle_millis LS_inactivity_millis LS_keepalive_millis LS_send_sync "
        "LS_reduce_head LS_ttl_millis"
    ),
    "bind": (
        "LS_session LS_recovery_from LS_content_length LS_polling LS_polling_millis LS_idle_millis "
        "LS_inactivity_millis LS_keepalive_millis LS_send_sync LS_reduce_head"
    ),
    "control": "LS_session LS_reqId LS_op",
    "add": (
        "LS_subId LS_data_adapter LS_group LS_schema LS_selector LS_mode LS_requested_buffer_size "
        "LS_requested_max_frequency LS_snapshot LS_ack"
    ),
    "delete": "LS_subId LS_ack",
    "reconf": "LS_subId LS_requested_max_frequency",
    "constrain": "LS_requested_max_bandwidth",
    "force_rebind": "LS_polling_millis LS_close_socket",
    "destroy": "LS_cause_code LS_cause_message LS_close_socket",
    "msg": "LS_session LS_message LS_sequence LS_msg_prog LS_max_wait LS_ack LS_outcome",
    "heartbeat": "LS_session",
    "mpn": (
        "PN_type PN_appId PN_deviceToken PN_newDeviceToken PN_deviceId PN_subscriptionId PN_notificationFormat "
        "PN_trigger PN_coalescing PN_subscriptionStatus"
    ),
}
RESPONSES = "CONOK CONERR END REQOK REQERR ERROR WSOK"
NOTIFICATIONS = (
    "U SUBOK SUBCMD UNSUB EOS CS OV CONF MPNREG MPNZERO MPNOK MPNCONF MPNDEL MSGDONE MSGFAIL CONS SYNC CLIENTIP "
    "SERVNAME PROG NOOP PROBE LOOP END"
)

# The text protocol 6.0.2, chapter 4: what its lists of parameters, answers and codes name.
TEXT6_PARAMETERS = {
    "create": (
        "LS_op2 LS_cid LS_user LS_password LS_adapter_set LS_requested_max_bandwidth LS_content_length "
        "LS_keepalive_millis LS_report_info LS_polling LS_polling_millis LS_idle_millis"
    ),
    "bind": (
        "LS_session LS_requested_max_bandwidth LS_content_length LS_keepalive_millis LS_report_info LS_polling "
        "LS_polling_millis LS_idle_millis"
    ),
    "add": (
        "LS_session LS_table LS_op LS_data_adapter LS_id LS_schema LS_selector LS_mode LS_requested_buffer_size "
        "LS_requested_max_frequency LS_snapshot"
    ),
    "add_silent": "LS_session",
    "start": "LS_session LS_table",
    "delete": "LS_session LS_table",
    "reconf": "LS_session LS_table LS_requested_max_frequency",
    "constrain": "LS_session LS_requested_max_bandwidth",
    "force_rebind": "LS_session",
    "destroy": "LS_session LS_cause_code",
    "message": "LS_session LS_message LS_sequence LS_msg_prog LS_max_wait",
}
TEXT6_HEADER = "SessionId ControlAddress KeepaliveMillis MaxBandwidth RequestLimit ServerName Preamble"
TEXT6_ANSWERS = "OK ERROR SYNC END HTML 500"
TEXT6_PUSHES = "update EOS OV MSG.DONE MSG.ERR PROBE LOOP"
TEXT6_CODES = {1, 2, 3, 7, 8, 9, 10, 11, 13, 17, 19, *range(21, 31), 32, 33, 60}
TEXT6_OUTCOMES = {34, 35, 38, 39}
TEXT6_CAUSES = {7, 8, 31, 32, 33, 34, 35, 40, 48}

# What the TLEX specification has a heading for and says something about, and the limits it has.
TLEX_SECTIONS = (
    "5.1 5.2.1.1 5.2.1.1.3.2 5.2.1.2 5.2.1.3 5.2.1.4 5.2.2.1 5.2.2.2 6.1 6.2 6.3.1 6.3.2 6.3.3 6.3.4 6.3.4.1 6.3.4.2 "
    "6.3.4.3 6.3.4.4 6.3.4.5 6.3.4.5.2 6.3.4.5.3 6.3.4.5.4 6.3.4.6.1 6.3.4.6.2"
)
TLEX_LIMITS = (
    "keepAliveTimeout clockDiffLimit clockDiffLimitDuration payloadRateLimit payloadRateLimitDuration "
    "payloadThroughputLimit payloadThroughputLimitDuration"
)

# The rules of reactive streams that hold between a client and this server, and the options of a subscription.
DITTO_RULES = "1.1 1.5 1.7 1.8 3.7 3.8 3.9 3.17"
DITTO_RANGES = "fromHistoricalRevision toHistoricalRevision fromHistoricalTimestamp toHistoricalTimestamp"

# The items of the General Concepts, 4.2.1, and those that this server adds, with their fields.
MONITOR_ITEMS = (
    "statistics identification details client_libs socket sessions items adapters queries configuration history"
)
MONITOR_FIELDS = {
    "identification": "EDITION VERSION LICENSE_TYPE CLIENT_ID LOCAL_IP LOCAL_HOST STARTUP_TIME",
    "details": "MAX_SSNS IS_MPN EXP_DATE MAX_RATE BAND TLS JMX VAL_TYPE",
    "client_libs": "key command lib_ext free demo eval startup noprod-lim noprod-full prod standby ordinal",
    "socket": "SERVER_NAME LOCAL_PORT LOCAL_INTERFACE IS_SSL",
    "log_error": "TIME TIME_MS CLIENT.IP CLIENT.NAME MESSAGE THREAD COUNTER",
    "sessions": test_adapter.SESSION,
}

README = DOCUMENT.parents[1] / "README.md"
PRESENT, LATER = document()
SHOWN = shown_rows()


def has_row(name: str) -> bool:
    """Whether a row has this name, or refines it (`add.LS_mode.RAW` is about `add.LS_mode`)."""
    return any(row.name == name or row.name.startswith(f"{name}.") for row in (*PRESENT, *LATER))


def test_row_names_are_unique() -> None:
    assert [name for name, count in Counter(row.name for row in (*PRESENT, *LATER)).items() if count > 1] == []


def test_every_row_says_something_and_where_it_is_specified() -> None:
    assert [row.name for row in (*PRESENT, *LATER) if not (row.rule and row.section and row.last)] == []


def test_every_row_has_its_test() -> None:
    tests = {row for row, _ in SHOWN}
    assert [row.name for row in PRESENT if row.name not in tests] == []


def test_every_test_has_its_row() -> None:
    known = {row.name for row in PRESENT}
    assert [f"{test} shows {row or 'no row'}" for row, test in SHOWN if row not in known] == []


def test_every_row_has_one_test_only() -> None:
    assert [row for row, count in Counter(row for row, _ in SHOWN).items() if count > 1] == []


def test_the_table_names_the_tests_as_they_are() -> None:
    real = dict(SHOWN)
    wrong = [f"{row.name}: {real[row.name]}" for row in PRESENT if row.name in real and row.last != real[row.name]]
    assert wrong == []


def test_the_readme_claims_no_test_for_rows_that_have_a_reason_instead() -> None:
    assert LATER
    (line,) = [line for line in README.read_text("utf-8").splitlines() if "docs/conformance.md" in line]
    assert "each with its test, or with the reason why it is not served" in line


def test_rows_of_later_versions_have_no_test() -> None:
    tests = {row for row, _ in SHOWN}
    assert [row.name for row in LATER if row.name in tests] == []


@pytest.mark.parametrize(
    ("appendix", "codes", "sent"),
    [pytest.param("A", SESSION_CODES, SessionCode, id="A"), pytest.param("B", CONTROL_CODES, ControlCode, id="B")],
)
def test_every_error_code_of_the_specification_has_a_row(
    appendix: str, codes: set[int], sent: type[SessionCode] | type[ControlCode]
) -> None:
    assert [code for code in sorted(codes) if not has_row(f"error.{appendix}.{code}")] == []
    assert has_row(f"error.{appendix}.negative")
    assert {int(code) for code in sent} <= codes


@pytest.mark.parametrize("request_name", [pytest.param(name, id=name) for name in PARAMETERS])
def test_every_parameter_of_the_specification_has_a_row(request_name: str) -> None:
    names = PARAMETERS[request_name].split()
    assert [name for name in names if not has_row(f"{request_name}.{name}")] == []


def test_every_request_response_and_notification_of_the_specification_has_a_row() -> None:
    wanted = [f"response.{tag}" for tag in RESPONSES.split()] + [f"notify.{tag}" for tag in NOTIFICATIONS.split()]
    wanted += ["create.request", "bind.LS_session", "msg.request", "heartbeat.http", "wsok.request"]
    wanted += [*CONTROL_OPERATIONS, *(f"mpn.{operation}" for operation in PUSH_OPERATIONS)]
    assert [name for name in wanted if not has_row(name)] == []


@pytest.mark.parametrize("request_name", [pytest.param(name, id=name) for name in TEXT6_PARAMETERS])
def test_every_parameter_of_the_text_protocol_has_a_row(request_name: str) -> None:
    names = TEXT6_PARAMETERS[request_name].split()
    assert [name for name in names if not has_row(f"text6.{request_name}.{name}")] == []


def test_every_operation_and_request_of_the_text_protocol_is_in_the_list_of_parameters() -> None:
    requests = {"create_session": "create", "bind_session": "bind", "send_message": "message"}
    known = {requests.get(name, name) for name in text6_requests.REQUESTS if name != "control"}
    assert {*known, *text6_requests.CONTROL_OPERATIONS} == set(TEXT6_PARAMETERS)


def test_every_answer_header_line_and_push_message_of_the_text_protocol_has_a_row() -> None:
    wanted = [f"answer.{name}" for name in TEXT6_ANSWERS.split()]
    wanted += [f"header.{name}" for name in TEXT6_HEADER.split()]
    wanted += [f"push.{name}" for name in TEXT6_PUSHES.split()]
    wanted += [*(f"add.LS_mode.{mode}" for mode in text6_requests.MODES), "header.block", "batch", "batch.500"]
    assert [name for name in wanted if not has_row(f"text6.{name}")] == []


def test_every_code_of_the_text_protocol_has_a_row() -> None:
    wanted = [f"error.{code}" for code in sorted(TEXT6_CODES)]
    wanted += [f"push.MSG.ERR.{code}" for code in sorted(TEXT6_OUTCOMES)]
    wanted += [f"cause.{code}" for code in sorted(TEXT6_CAUSES)]
    wanted += ["error.negative.create", "error.negative.add", "message.synchronous.negative"]
    wanted += ["push.MSG.ERR.negative", "cause.negative", "cause.none"]
    assert [name for name in wanted if not has_row(f"text6.{name}")] == []
    assert {int(code) for code in Code} == (TEXT6_CODES | TEXT6_OUTCOMES) - {7, 11, 28, 29, 30, 60}


def test_rows_of_the_text_protocol_are_told_apart_by_their_names_and_their_place() -> None:
    assert [row.name for row in PRESENT if row.name.startswith("text6.") != row.last.startswith("text6/")] == []


def test_every_operation_datagram_and_end_reason_of_tlex_has_a_row() -> None:
    # `/sessions/{token}` is a session, `/sessions` are sessions.
    paths = [
        (each.method.upper(), each.path.strip("/").replace("s/{token}", "").replace("s/{uuid}", ""))
        for each in OPERATIONS
    ]
    wanted = [f"{method}.{path}" for method, path in paths]
    # What a datagram is for, or what it must look like; the token and the two payloads have rows of their own names.
    named = {DatagramKind.TOKEN: "token", DatagramKind.TIMESTAMPS_RESPONSE: "0x07"}
    wanted += [named.get(kind, f"0x{kind:02x}") for kind in DatagramKind]
    # Bye may have any size.
    wanted += [f"size.0x{kind:02x}" for kind in DatagramKind if kind is not DatagramKind.BYE]
    wanted += [f"endReason.{end}" for end in EndReason]
    wanted += [f"limit.{name}" for name in TLEX_LIMITS.split()]
    wanted += [f"error.{status}" for status in REFUSALS if status not in (400, 403, 413)]
    assert [name for name in wanted if not has_row(f"tlex.{name}")] == []


def test_every_section_of_the_tlex_specification_has_a_row() -> None:
    found = {row.section.partition(" ")[0] for row in PRESENT if row.name.startswith("tlex.")}
    assert [section for section in TLEX_SECTIONS.split() if section not in found] == []


def test_rows_of_tlex_are_told_apart_by_their_names_and_their_place() -> None:
    assert [row.name for row in PRESENT if row.name.startswith("tlex.") != row.last.startswith("tlex/")] == []


def test_every_message_rule_option_and_part_of_ditto_has_a_row() -> None:
    wanted = [f"streaming.{action}" for action in StreamingAction if action is not StreamingAction.ERROR]
    wanted += [f"rule.{rule}" for rule in DITTO_RULES.split()]
    wanted += [f"range.{option}" for option in DITTO_RANGES.split()]
    wanted += [f"live.{verb}-SEND-{signals}" for verb in ("START", "STOP") for signals in Signals]
    known = (Criterion.COMMANDS, Criterion.STREAMING, Criterion.SEARCH, Criterion.MESSAGES, Criterion.ACKS)
    wanted += [f"search.{operator}" for operator in (*COMPARISONS, "in", "exists", "empty", "and", "or", "not")]
    wanted += [f"search.{action}" for action in ("created", "next", "complete", "cancel")]
    named = {Criterion.EVENTS: "event", Criterion.ERRORS: "error"}
    wanted += [f"unsupported.{named.get(each, each.value)}" for each in Criterion if each not in known]
    wanted += [f"http.{method}" for method in ("POST", "PUT", "PATCH", "DELETE", "GET", "policies", "connections")]
    wanted += [f"sse.{side}-historical-{what}" for side in ("from", "to") for what in ("revision", "timestamp")]
    wanted += [f"twin.{action}.{part}" for action in COMMANDS for part in ("thing", *DITTO_PARTS)]
    # Only a whole thing is created.
    created = [f"twin.create.{part}" for part in DITTO_PARTS]
    assert [name for name in wanted if name not in created and not has_row(f"ditto.{name}")] == []


def test_rows_of_ditto_are_told_apart_by_their_names_and_their_place() -> None:
    assert [row.name for row in PRESENT if row.name.startswith("ditto.") != row.last.startswith("ditto/")] == []


def test_the_rules_of_reactive_streams_are_listed_for_readers_each_with_its_test() -> None:
    text = (DOCUMENT.parent / "ditto.md").read_text()
    tests = {row.name.removeprefix("ditto.rule."): row.last for row in PRESENT if row.name.startswith("ditto.rule.")}
    wrong = [rule for rule in DITTO_RULES.split() if f"`{tests[rule]}`" not in text]
    assert wrong == []


def test_every_item_and_field_of_monitoring_has_a_row() -> None:
    wanted = [f"statistics.{field}" for field in FIELDS]
    wanted += [f"{item}.{field}" for item, fields in MONITOR_FIELDS.items() for field in fields.split()]
    wanted += [f"details.MAX_{code}API" for code in LIBRARIES]
    wanted += [*MONITOR_ITEMS.split(), *(f"log_{level}" for level in ("error", "warning", "info", "output"))]
    assert [name for name in wanted if not has_row(f"monitor.{name}")] == []


def test_a_row_is_read_from_its_line() -> None:
    (row,) = rows("| `a.b` | It holds. | 2 Control Requests | `test_x.py::test_y` |\n| row | rule | section | test |\n")
    assert (row.name, row.rule, row.section, row.last) == (
        "a.b",
        "It holds.",
        "2 Control Requests",
        "test_x.py::test_y",
    )
