from __future__ import annotations

import pickle
import random
import socket
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.pipeline.errors import BadOption
from penstock.pipeline.outlet import (
    BatchRefused,
    Declared,
    Delivery,
    Outlet,
    ServerUnreachable,
    StageLost,
)
from penstock.pipeline.token import read_token
from penstock.pipeline.web import FIRST_PAUSE, LAST_PAUSE
from tests.pipeline.real_server import RealServer
from tests.pipeline.sink_server import TOKEN, Fault, SinkServer
from tests.support.tls import CERTIFICATES


@pytest.fixture
def sink() -> Iterator[SinkServer]:
    with SinkServer() as running:
        yield running


class Pauses:
    """A clock that only pauses move."""

    def __init__(self) -> None:
        self.now = 0.0
        self.made: list[float] = []

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.made.append(seconds)
        self.now += seconds


def outlet(server: SinkServer, *, pauses: Pauses | None = None, **more: object) -> Outlet:
    pauses = pauses or Pauses()
    return Outlet(server.url, "SET", "OUT", TOKEN, clock=pauses.clock, sleep=pauses.sleep, **more)  # type: ignore[arg-type]


def table(*prices: int) -> pa.Table:
    return pa.table({"item": [f"stock{price}" for price in prices], "price": list(prices)})


def test_a_batch_is_published_whole_and_in_order(sink: SinkServer) -> None:
    with outlet(sink) as out:
        assert out.last_batch("q") is None
        assert out.put_batch("q", 0, table(1, 2, 3), "MERGE") == Delivery(3)
        assert out.last_batch("q") == 0
    assert [row["price"] for row in sink.rows()] == [1, 2, 3]
    assert sink.modes == {("q", 0): "MERGE"}
    assert sink.connections == 1


def test_a_batch_that_was_committed_is_repeated_and_not_published_again(sink: SinkServer) -> None:
    with outlet(sink) as out:
        out.put_batch("q", 4, table(1), "MERGE")
        assert out.put_batch("q", 4, table(1), "MERGE") == Delivery(0, repeated=True)
        assert out.put_batch("other", 4, table(2), "MERGE") == Delivery(1)
    assert [row["price"] for row in sink.rows()] == [1, 2]


def test_the_adapter_says_what_it_takes(sink: SinkServer) -> None:
    with outlet(sink) as out:
        assert out.check() == Declared({"*": "MERGE"}, durable=True)


def test_stages_are_published_when_they_are_committed_in_the_order_given(sink: SinkServer) -> None:
    with outlet(sink) as out:
        assert out.stage("q", 0, "1-0", table(3)) == (["1-0"], False)
        out.stage("q", 0, "0-0", table(1, 2))
        assert sink.rows() == []
        assert out.commit("q", 0, ["0-0", "1-0"], "DISTINCT") == Delivery(3)
        assert out.stage("q", 0, "2-0", table(4)) == (["2-0"], True), "it was committed before"
    assert [row["price"] for row in sink.rows()] == [1, 2, 3]


def test_stages_that_are_abandoned_are_gone(sink: SinkServer) -> None:
    with outlet(sink) as out:
        out.stage("q", 0, "0", table(1))
        out.abandon("q", 0)
        with pytest.raises(StageLost, match="stage 0 is not known"):
            out.commit("q", 0, ["0"], "MERGE")
    assert sink.rows() == []


def test_a_very_large_batch_goes_in_pieces_and_still_at_once(sink: SinkServer) -> None:
    with outlet(sink, part_bytes=100) as out:
        assert out.put_batch("q", 0, table(*range(50)), "MERGE") == Delivery(50)
    assert len([path for method, path in sink.asked if "/stages/" in path]) > 3
    assert list(sink.published) == [("q", 0)]
    assert [row["price"] for row in sink.rows()] == list(range(50))


def test_pieces_that_a_restart_lost_are_staged_again(sink: SinkServer) -> None:
    sink.faults = iter(["", "", "restart"])
    with outlet(sink, part_bytes=10_000_000) as out:
        pieces = Outlet(sink.url, "SET", "OUT", TOKEN, part_bytes=table(*range(8)).nbytes // 2 + 1)
        assert pieces.put_batch("q", 0, table(*range(8)), "MERGE") == Delivery(8)
        pieces.close()
        assert out.last_batch("q") == 0
    assert [path.rpartition("/")[2].rpartition("-")[2] for _, path in sink.asked[:6]] == [
        "0", "1", "commit?mode=MERGE", "0", "1", "commit?mode=MERGE",
    ]  # fmt: skip
    assert len({path for _, path in sink.asked[:6] if "/stages/" in path}) == 4, "each attempt has names of its own"
    assert [row["price"] for row in sink.rows()] == list(range(8))


def test_a_batch_that_was_committed_before_is_not_sent_to_its_end(sink: SinkServer) -> None:
    with outlet(sink, part_bytes=100) as out:
        out.put_batch("q", 0, table(*range(50)), "MERGE")
        before = len(sink.asked)
        assert out.put_batch("q", 0, table(*range(50)), "MERGE") == Delivery(0, repeated=True)
        assert len(sink.asked) == before + 1


@pytest.mark.parametrize("parts", [100_000, 500])
def test_a_server_that_accepts_small_bodies_only_gets_smaller_parts(sink: SinkServer, parts: int) -> None:
    sink.max_body_bytes = 800
    with outlet(sink, part_bytes=parts) as out:
        assert out.put_batch("q", 0, table(*range(50)), "MERGE") == Delivery(50)
        wide = pa.table({"item": ["a"], "price": ["x" * 1_000]})
        with pytest.raises(BatchRefused, match="answered 413: The body is larger than max_body_bytes = 800"):
            out.put_batch("q", 1, wide, "MERGE")
    assert [row["price"] for row in sink.rows()] == list(range(50))


def test_parts_are_made_one_after_the_other(sink: SinkServer) -> None:
    made: list[int] = []

    def parts() -> Iterator[pa.Table]:
        for number in range(5):
            made.append(len([path for _, path in sink.asked if "/stages/" in path]))
            yield table(number)

    with outlet(sink) as out:
        assert out.put_parts("q", 0, parts, "MERGE") == Delivery(5)
    # Two to see whether there is more than one; then each when the one before was sent.
    assert made == [0, 0, 0, 1, 2, 3, 4]
    assert [row["price"] for row in sink.rows()] == list(range(5))


def test_when_every_first_answer_is_lost_each_batch_is_still_published_once(sink: SinkServer) -> None:
    sink.faults = chain.from_iterable(repeat(["lost", ""]))
    with outlet(sink) as out:
        outcomes = [out.put_batch("q", batch, table(batch), "MERGE") for batch in range(10)]
    assert outcomes == [Delivery(0, repeated=True)] * 10
    assert [row["price"] for row in sink.rows()] == list(range(10))


@pytest.mark.parametrize("seed", range(20))
def test_whatever_goes_wrong_each_batch_is_published_once_and_in_order(seed: int) -> None:
    chance = random.Random(seed)
    kinds: list[Fault] = ["", "", "lost", "cut", 429, 503, "restart"]

    def faults() -> Iterator[Fault]:
        while True:
            yield chance.choice(kinds)

    with SinkServer(faults()) as sink, outlet(sink) as out:
        expected = []
        for batch in range(12):
            rows = table(*range(batch * 10, batch * 10 + chance.randrange(1, 5)))
            expected += rows.column("price").to_pylist()
            if batch % 2:
                out.put_batch("q", batch, rows, "MERGE")
                continue
            while True:
                # As Spark does: a batch that could not be committed is run again.
                out.stage("q", batch, "a", rows.slice(0, 1))
                out.stage("q", batch, "b", rows.slice(1))
                try:
                    out.commit("q", batch, ["a", "b"], "MERGE")
                    break
                except StageLost:
                    continue
    assert [row["price"] for row in sink.rows()] == expected


def test_a_busy_server_is_asked_again_with_longer_and_longer_pauses(sink: SinkServer) -> None:
    sink.faults = iter([429, 503] * 5)
    pauses = Pauses()
    with outlet(sink, pauses=pauses) as out:
        assert out.put_batch("q", 0, table(1), "MERGE") == Delivery(1)
    assert pauses.made[:4] == [FIRST_PAUSE, 0.2, 0.4, 0.8]
    assert pauses.made[-2:] == [LAST_PAUSE, LAST_PAUSE]
    assert len(pauses.made) == 10


def test_after_retry_timeout_it_gives_up_and_says_what_the_server_said(sink: SinkServer) -> None:
    sink.faults = repeat(503)
    with outlet(sink, retry_timeout=3.0) as out, pytest.raises(ServerUnreachable) as caught:
        out.put_batch("q", 7, table(1), "MERGE")
    said = str(caught.value)
    assert sink.url in said
    assert "adapter OUT of set SET" in said
    assert "answered 503: the journal is busy (503)" in said
    assert "tried for 3 s" in said


def test_a_server_that_is_not_there_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    out = Outlet(f"http://127.0.0.1:{port}", "SET", "OUT", TOKEN, retry_timeout=0)
    with pytest.raises(
        ServerUnreachable, match=f"http://127.0.0.1:{port}, adapter OUT of set SET: cannot be reached: Conn"
    ):
        out.check()


def test_rows_that_the_server_refuses_are_named_and_not_sent_again(sink: SinkServer) -> None:
    rows = pa.table({"item": ["a", None], "price": [1, 2]})
    with outlet(sink) as out, pytest.raises(BatchRefused, match="answered 422: row 2: column item has no value"):
        out.put_batch("q", 0, rows, "MERGE")
    assert len(sink.asked) == 1
    assert sink.rows() == []


def test_an_unknown_adapter_is_refused_at_once(sink: SinkServer) -> None:
    with (
        Outlet(sink.url, "SET", "NONE", TOKEN) as out,
        pytest.raises(BatchRefused, match="404: There is no ingest adapter NONE"),
    ):
        out.check()


def test_a_wrong_token_is_refused_and_shown_nowhere(sink: SinkServer) -> None:
    out = Outlet(sink.url, "SET", "OUT", "a-wrong-token-1234")
    with out, pytest.raises(BatchRefused, match="answered 401") as caught:
        out.check()
    assert "a-wrong-token-1234" not in str(caught.value) + repr(caught.value) + repr(out)


def test_names_with_any_characters_arrive_as_they_are(sink: SinkServer) -> None:
    with outlet(sink) as out:
        out.put_batch("a/b?c#d é", 0, table(1), "MERGE")
        assert out.last_batch("a/b?c#d é") == 0
    assert list(sink.published) == [("a/b?c#d é", 0)]


def test_it_travels_without_its_connection(sink: SinkServer) -> None:
    with Outlet(sink.url, "SET", "OUT", TOKEN) as out:
        out.check()
        copy = pickle.loads(pickle.dumps(out))
        with copy:
            assert copy.put_batch("q", 0, table(1), "MERGE") == Delivery(1)
    assert sink.connections == 2


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ("localhost:8081", "server is 'localhost:8081'"),
        ("ftp://localhost", "server is 'ftp://localhost'"),
        ("http://user:secret@localhost", r"server is 'http://\*\*\*@localhost'; a token is an option of its own"),
    ],
)
def test_an_address_that_is_none_is_named(server: str, said: str) -> None:
    with pytest.raises(BadOption, match=said):
        Outlet(server, "SET", "OUT", TOKEN)


@pytest.mark.parametrize("token", ["", "two\nlines", "späßig", " padded "])
def test_a_token_that_no_header_can_carry_is_refused_without_showing_it(token: str) -> None:
    with pytest.raises(BadOption, match="token has characters") as caught:
        Outlet("http://localhost", "SET", "OUT", token)
    assert not token or token not in str(caught.value)


def test_a_token_file_has_the_token_in_its_first_line_that_is_no_comment(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("# made by hand\n\n secret-token \n")
    assert read_token(None, path) == "secret-token"
    assert read_token("given", None) == "given"


@pytest.mark.parametrize(
    ("content", "said"), [(None, "cannot be read: No such file"), ("# nothing\n", "has no token in it")]
)
def test_a_token_file_without_a_token_is_named(tmp_path: Path, content: str | None, said: str) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    with pytest.raises(BadOption, match=said) as caught:
        read_token(None, path)
    assert str(path) in str(caught.value)


def test_an_api_port_with_tls_is_trusted_if_the_environment_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = str(CERTIFICATES / "certificate.pem")
    tls = {"api.tls.certificate": certificate, "api.tls.private_key": str(CERTIFICATES / "private_key.pem")}
    with RealServer(tmp_path, tls) as server, Outlet(server.api, "SET", "OUT", TOKEN, retry_timeout=0) as out:
        assert server.api.startswith("https://")
        with pytest.raises(ServerUnreachable, match=r"(?i)certificate.verify.failed"):
            out.last_batch("q")
        monkeypatch.setenv("SSL_CERT_FILE", certificate)
        assert out.last_batch("q") is None
