from __future__ import annotations

import asyncio
import http.client
import io
import json
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.adapters import AdapterSet, DataAdapter, MetadataAdapter
from penstock.adapters.ingest import IngestAdapter
from tests.adapters.stage import SetServer
from tests.support.raw import Stream

TOKEN = "0123456789abcdef"
OTHER = "another-long-token"
ARROW = "application/vnd.apache.arrow.stream"
MODES = {"sensor-*": "MERGE", "total": "MERGE", "log": "DISTINCT", "orders": "COMMAND"}


@pytest.fixture
def server() -> Iterator[SetServer]:
    ingest = IngestAdapter(items=MODES, tokens=[TOKEN, OTHER], max_items=5, max_fields=4, max_rows=3)
    small = IngestAdapter(items=["x"], tokens=[TOKEN], max_body_bytes=1_000, max_line_bytes=100)
    data: dict[str, DataAdapter] = {"ADAPTER": ingest, "SMALL": small, "PLAIN": DataAdapter()}
    with SetServer([AdapterSet("SET", MetadataAdapter(), data)]) as running:
        yield running


class Answer:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        body = json.loads(response.read())
        self.accepted, self.refused, self.errors = body["accepted"], body["refused"], body["errors"]


def post(
    server: SetServer,
    body: str | bytes | Iterator[bytes],
    token: str | None = TOKEN,
    kind: str = "application/x-ndjson",
    adapter: str = "ADAPTER",
    **headers: str,
) -> Answer:
    connection = http.client.HTTPConnection(server.host, server.api_port, timeout=15)
    given = {"Content-Type": kind, **{name.replace("_", "-"): value for name, value in headers.items()}}
    if token is not None:
        given["Authorization"] = f"Bearer {token}"
    try:
        connection.request("POST", f"/api/ingest/SET/{adapter}", body, given)
        return Answer(connection.getresponse())
    finally:
        connection.close()


def lines(*events: dict[str, object]) -> str:
    return "".join(f"{json.dumps(event)}\n" for event in events)


def update(item: str, **fields: object) -> dict[str, object]:
    return {"item": item, "fields": fields}


def initial(item: str, **fields: object) -> dict[str, object]:
    return {"item": item, "fields": fields, "snapshot": True}


def told(stream: Stream, count: int) -> list[str]:
    """The next notifications about items."""
    found: list[str] = []
    while len(found) < count:
        line = stream.read_line()
        if line.split(",")[0] in ("U", "EOS", "CS"):
            found.append(line)
    return found


def watch(server: SetServer, group: str, schema: str, mode: str = "MERGE") -> Stream:
    stream = server.open()
    assert server.subscribe(stream, group, schema, mode) == ["REQOK,1"]
    stream.read_until("CONF")
    return stream


def arrow(*batches: dict[str, Sequence[object]]) -> bytes:
    buffer = io.BytesIO()
    made = [pa.record_batch(batch) for batch in batches]
    with pa.ipc.new_stream(buffer, made[0].schema) as writer:
        for batch in made:
            writer.write_batch(batch)
    return buffer.getvalue()


# -- JSON lines -------------------------------------------------------------------------------------------------------


def test_lines_reach_whoever_is_subscribed(server: SetServer) -> None:
    with watch(server, "sensor-1 total", "x y") as stream:
        answer = post(
            server, lines(update("sensor-1", x="1", y=True), update("total", x=2.5), update("sensor-1", x="3"))
        )
        assert (answer.status, answer.accepted, answer.refused, answer.errors) == (200, 3, 0, [])
        assert told(stream, 3) == ["U,1,1,1|true", "U,1,2,2.5|#", "U,1,1,3|"]


def test_whoever_comes_later_gets_the_latest_state_as_snapshot(server: SetServer) -> None:
    post(server, lines(update("sensor-1", x="1", y="old"), update("sensor-1", y="new")))
    with watch(server, "sensor-1", "x y") as stream:
        assert told(stream, 1) == ["U,1,1,1|new"]


def test_the_latest_events_of_a_distinct_item_are_its_snapshot(server: SetServer) -> None:
    post(server, lines(*[update("log", x=number) for number in range(12)]))
    with watch(server, "log", "x", "DISTINCT") as stream:
        assert told(stream, 11) == [*[f"U,1,1,{number}" for number in range(2, 12)], "EOS,1,1"]


def test_the_rows_of_a_command_item_are_its_snapshot(server: SetServer) -> None:
    rows = [("a", "ADD", 1), ("b", "ADD", 2), ("a", "UPDATE", 3), ("b", "DELETE", None), ("c", "UPDATE", 4)]
    answer = post(server, lines(*[update("orders", key=key, command=command, x=x) for key, command, x in rows]))
    assert (answer.status, answer.accepted) == (200, 5)
    with watch(server, "orders", "key command x", "COMMAND") as stream:
        assert told(stream, 3) == ["U,1,1,a|ADD|3", "U,1,1,c||4", "EOS,1,1"]
        post(server, lines(update("orders", key="a", command="DELETE")))
        assert told(stream, 1) == ["U,1,1,a|DELETE|#"]


def test_a_snapshot_may_come_line_by_line(server: SetServer) -> None:
    with watch(server, "log", "x", "DISTINCT") as early:
        post(server, lines(initial("log", x="1"), initial("log", x="2")))
        post(server, lines(initial("log", x="3")))
        post(server, '{"item": "log", "op": "end_of_snapshot"}')
        assert told(early, 4) == ["U,1,1,1", "U,1,1,2", "U,1,1,3", "EOS,1,1"]
    with watch(server, "log", "x", "DISTINCT") as late:
        assert told(late, 4) == ["U,1,1,1", "U,1,1,2", "U,1,1,3", "EOS,1,1"]


def test_a_cleared_item_is_empty_for_those_who_are_there_and_those_who_come(server: SetServer) -> None:
    with watch(server, "log", "x", "DISTINCT") as stream:
        post(server, lines(update("log", x="1"), {"item": "log", "op": "clear"}, update("log", x="2")))
        assert told(stream, 4) == ["EOS,1,1", "U,1,1,1", "CS,1,1", "U,1,1,2"]
    with watch(server, "log", "x", "DISTINCT") as late:
        assert told(late, 2) == ["U,1,1,2", "EOS,1,1"]


def test_clearing_makes_room_for_other_items(server: SetServer) -> None:
    assert post(server, lines(*[update(f"sensor-{number}", x=1) for number in range(5)])).status == 200
    answer = post(server, lines(update("sensor-5", x=1)))
    assert (answer.status, answer.errors) == (
        422,
        [{"line": 1, "error": "item 'sensor-5' is one more than max_items = 5"}],
    )
    assert post(server, lines({"item": "sensor-0", "op": "clear"}, update("sensor-5", x=1))).accepted == 2


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        ('{"item": "sensor-1", "fields": {"x": [1]}}', "Expected `bool | int | float | str | null`, got `array`"),
        ('{"item": "elsewhere", "fields": {"x": 1}}', "item 'elsewhere' is not declared"),
        ('{"item": "elsewhere", "op": "clear"}', "item 'elsewhere' is not declared"),
        ('{"item": "elsewhere", "op": "end_of_snapshot"}', "item 'elsewhere' is not declared"),
        ('{"item": "xtotal", "fields": {"x": 1}}', "is not declared"),
        ('{"item": "total\\n", "fields": {"x": 1}}', "is not declared"),
        ('{"item": "total"}', "an update without fields"),
        ('{"item": "total", "fields": {"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}}', "6 fields; max_fields = 4"),
        ('{"item": "log", "fields": {"a": 1, "b": 1, "c": 1, "d": 1, "e": 1}}', "5 fields; max_fields = 4"),
        ('{"item": "orders", "fields": {"x": 1}}', "no field key, which a COMMAND item needs"),
        ('{"item": "orders", "fields": {"key": "a", "command": "PUT"}}', "expected ADD, UPDATE or DELETE"),
        ('{"item": "orders", "fields": {"key": "a", "command": "DELETE"}}', "which is not there"),
        ("not json", "malformed"),
    ],
)
def test_a_bad_line_is_refused_by_its_number_and_the_others_are_taken(server: SetServer, bad: str, error: str) -> None:
    good = lines(update("total", x="good"))
    answer = post(server, f"{good}\n{bad}\n{good}")
    assert (answer.status, answer.accepted, answer.refused) == (422, 2, 1)
    ((found),) = answer.errors
    assert found["line"] == 3
    assert error in found["error"]


def test_a_refused_line_takes_no_room(server: SetServer) -> None:
    crowd = {f"f{number}": 1 for number in range(5)}
    assert post(server, lines(*[update(f"sensor-{number}", **crowd) for number in range(9)])).refused == 9
    assert post(server, lines(*[update(f"sensor-{number}", x=1) for number in range(10, 15)])).accepted == 5


def test_the_fields_of_an_item_are_bounded_over_all_lines(server: SetServer) -> None:
    answer = post(server, lines(*[update("total", **{f"f{number}": 1}) for number in range(6)]))
    assert (answer.accepted, answer.refused) == (4, 2)


def test_the_rows_of_an_item_are_bounded(server: SetServer) -> None:
    answer = post(server, lines(*[update("orders", key=key, command="ADD") for key in "abcdbc"]))
    assert (answer.accepted, answer.refused) == (5, 1)
    assert answer.errors == [{"line": 4, "error": "key 'd' is one more than max_rows = 3"}]


def test_ten_errors_are_named_and_all_are_counted(server: SetServer) -> None:
    answer = post(server, "x\n" * 500)
    assert (answer.refused, len(answer.errors), answer.errors[-1]["line"]) == (500, 10, 10)


def test_a_line_that_is_too_long_is_refused_and_the_next_is_taken(server: SetServer) -> None:
    answer = post(server, lines(update("x", a="y" * 100), update("x", a="z")), adapter="SMALL")
    assert (answer.status, answer.accepted, answer.refused) == (422, 1, 1)
    assert answer.errors == [{"line": 1, "error": "longer than max_line_bytes = 100"}]


def test_a_body_that_is_too_large_is_cut_off_and_what_came_before_counts(server: SetServer) -> None:
    def chunks() -> Iterator[bytes]:
        yield lines(*[update("x", a="y")] * 5).encode()
        yield b"\n" * 1_000

    answer = post(server, chunks(), adapter="SMALL")
    assert answer.status == 413
    assert answer.accepted in (0, 5), "as much as had come in chunks of its own"
    (error,) = answer.errors
    assert str(error["error"]).startswith(
        "The body is larger than max_body_bytes = 1000: send fewer rows per request, or"
    )


def test_lines_are_published_while_the_request_is_still_under_way(server: SetServer) -> None:
    with watch(server, "total", "x") as stream, socket.create_connection((server.host, server.api_port), 15) as sender:
        head = f"POST /api/ingest/SET/ADAPTER HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        sender.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        for number in range(3):
            line = lines(update("total", x=number))
            sender.sendall(f"{len(line):x}\r\n{line}\r\n".encode())
            assert told(stream, 1) == [f"U,1,1,{number}"]
        sender.sendall(b"0\r\n\r\n")
        response = http.client.HTTPResponse(sender)
        response.begin()
        assert Answer(response).accepted == 3


def test_a_sender_that_goes_away_has_published_what_it_sent(server: SetServer) -> None:
    with watch(server, "total", "x") as stream:
        with socket.create_connection((server.host, server.api_port), 15) as sender:
            head = f"POST /api/ingest/SET/ADAPTER HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
            sender.sendall(f"{head}Content-Length: 100000\r\n\r\n{lines(update('total', x='here'))}".encode())
            assert told(stream, 1) == ["U,1,1,here"]
        post(server, lines(update("total", x="still here")))
        assert told(stream, 1) == ["U,1,1,still here"]


# -- Arrow ------------------------------------------------------------------------------------------------------------


def test_the_rows_of_an_arrow_stream_reach_whoever_is_subscribed(server: SetServer) -> None:
    body = arrow({"item": ["total", "sensor-1"], "x": [1, None]}, {"item": ["total"], "x": [3]})
    with watch(server, "sensor-1 total", "x") as stream:
        answer = post(server, body, kind=ARROW)
        assert (answer.status, answer.accepted) == (200, 3)
        assert told(stream, 3) == ["U,1,2,1", "U,1,1,#", "U,1,2,3"]


def test_a_bad_row_is_refused_by_its_number(server: SetServer) -> None:
    answer = post(server, arrow({"item": ["total", None, "elsewhere"], "x": [1, 2, 3]}), kind=ARROW)
    assert (answer.status, answer.accepted, answer.refused) == (422, 1, 2)
    assert answer.errors == [
        {"line": 2, "error": "column item has no value"},
        {"line": 3, "error": "item 'elsewhere' is not declared"},
    ]


def test_thousands_of_rows_are_numbered_through(server: SetServer) -> None:
    names = ["total"] * 2_500 + ["elsewhere"]
    answer = post(server, arrow({"item": names, "x": list(range(2_501))}), kind=ARROW)
    assert (answer.accepted, answer.refused, answer.errors[0]["line"]) == (2_500, 1, 2_501)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", ""),
        (b"garbage that is not Arrow", ""),
        (arrow({"item": ["total"], "x": [1]})[:-60], ""),
        (arrow({"name": ["total"], "x": [1]}), "no column item; the table has name, x"),
        (arrow({"item": ["total"], "x": [[1, 2]]}), "column x is of type list"),
        (arrow({"item": ["total"], "x": [b"1"]}), "column x is of type binary"),
    ],
)
def test_what_is_not_a_stream_of_events_is_refused(server: SetServer, body: bytes, error: str) -> None:
    answer = post(server, body, kind=ARROW)
    assert answer.status == 422
    assert (answer.accepted, answer.refused, answer.errors[0]["line"]) == (0, 1, 1)
    assert error in answer.errors[0]["error"]


@pytest.mark.parametrize("broken", [b"\xff\xfe", b"\xed\xa0\x80"])
def test_text_that_is_not_utf8_is_refused_before_anybody_trips_over_it(server: SetServer, broken: bytes) -> None:
    body = arrow({"item": ["total"], "x": ["ab" if len(broken) == 2 else "abc"]}).replace(
        b"ab" if len(broken) == 2 else b"abc", broken
    )
    answer = post(server, body, kind=ARROW)
    assert (answer.status, answer.accepted) == (422, 0)
    assert "UTF8" in answer.errors[0]["error"] or "utf-8" in answer.errors[0]["error"]


def test_every_byte_of_an_arrow_stream_may_be_wrong_and_the_server_lives(server: SetServer) -> None:
    body = arrow({"item": ["total", "sensor-1"], "x": ["one", "two"]})
    for place in range(0, len(body), 5):
        wrong = bytearray(body)
        wrong[place] ^= 0xFF
        assert post(server, bytes(wrong), kind=ARROW).status in (200, 422)
    assert post(server, body, kind=ARROW).status == 200


def test_an_arrow_stream_that_is_too_large_is_refused_whole(server: SetServer) -> None:
    answer = post(server, arrow({"item": ["x"] * 500, "a": ["y"] * 500}), kind=ARROW, adapter="SMALL")
    assert (answer.status, answer.accepted) == (413, 0)


# -- who may ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", [None, "", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "é" * 16])
def test_without_one_of_the_tokens_nothing_is_read(server: SetServer, token: str | None) -> None:
    answer = post(server, lines(update("total", x=1)), None, Authorization=f"Bearer {token}".encode().decode("latin-1"))
    assert (answer.status, answer.accepted, answer.headers["www-authenticate"]) == (401, 0, "Bearer")


@pytest.mark.parametrize("header", [{}, {"Authorization": f"Basic {TOKEN}"}, {"Authorization": TOKEN}])
def test_a_token_comes_in_a_bearer_header(server: SetServer, header: dict[str, str]) -> None:
    assert post(server, lines(update("total", x=1)), None, **header).status == 401


def test_every_token_opens_the_door(server: SetServer) -> None:
    for token in (TOKEN, OTHER):
        assert post(server, lines(update("total", x=1)), token).accepted == 1


@pytest.mark.parametrize("adapter", ["NONE", "PLAIN", "ADAPTER/x", "../SET/ADAPTER"])
def test_there_is_a_door_for_ingest_adapters_only(server: SetServer, adapter: str) -> None:
    connection = http.client.HTTPConnection(server.host, server.api_port, timeout=15)
    connection.request("POST", f"/api/ingest/SET/{adapter}", b"", {"Authorization": f"Bearer {TOKEN}"})
    assert connection.getresponse().status == 404
    connection.close()


@pytest.mark.parametrize("kind", ["application/x-ndjson; charset=utf-8", "application/json", "text/plain", ""])
def test_json_lines_have_many_names(server: SetServer, kind: str) -> None:
    assert post(server, lines(update("total", x=1)), kind=kind).accepted == 1


@pytest.mark.parametrize("headers", [{"kind": "text/csv"}, {"Content_Encoding": "gzip"}])
def test_what_cannot_be_read_is_refused_at_once(server: SetServer, headers: dict[str, str]) -> None:
    answer = post(server, lines(update("total", x=1)), **headers)
    assert (answer.status, answer.accepted) == (415, 0)


# -- the start --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"items": []}, r"items = \[\]: expected a list of names"),
        ({"items": "total"}, "items = 'total': expected a list of names"),
        ({"items": {"a": "RAW"}}, "items: a = 'RAW': expected MERGE, DISTINCT, COMMAND"),
        ({"tokens": []}, "tokens is missing"),
        ({"tokens": ["short"]}, "tokens: a token of 5 characters; expected at least 16"),
        ({"max_items": 0}, "max_items = 0: expected 1 or more"),
        ({"max_body_bytes": -1}, "max_body_bytes = -1: expected 1 or more"),
    ],
)
def test_a_parameter_that_makes_no_sense_is_told_with_its_value(parameters: dict[str, object], message: str) -> None:
    given = {"items": ["total"], "tokens": [TOKEN], **parameters}
    with pytest.raises(ValueError, match=message) as caught:
        IngestAdapter(**given)  # type: ignore[arg-type]
    assert "short" not in str(caught.value), "a token is never repeated"


def test_tokens_may_stand_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"# for the cron job\n\n{TOKEN}\n  {OTHER}  \n")
    adapter = IngestAdapter(items=["x"], token_file=str(path))
    asyncio.run(adapter.start())
    assert adapter.admits(TOKEN)
    assert adapter.admits(OTHER)
    assert not adapter.admits("# for the cron job")


@pytest.mark.parametrize(("text", "message"), [(None, "No such file"), ("", "it has no token"), ("short\n", "5 char")])
def test_a_token_file_without_tokens_stops_the_start(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "tokens"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=message):
        asyncio.run(IngestAdapter(items=["x"], token_file=str(path)).start())
