"""The demo adapter sets: what is journaled of them, who may see what, and the pipeline's way in."""

from __future__ import annotations

import asyncio
import json
import stat
from collections import Counter
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from penstock.adapters import ClientFacts, Refusal
from penstock.adapters.demo import demo_sets
from penstock.adapters.demo.chat import ChatAdapter
from penstock.adapters.demo.market import LISTINGS
from penstock.adapters.demo.token import kept_token
from penstock.config import load
from penstock.journal.entity import parts_of
from penstock.journal.reader import JournalReader
from penstock.kernel.item import Mode
from penstock.kernel.ports import SessionFacts
from penstock.server import Server
from tests.support.process import ServerProcess

VISITOR = SessionFacts("S1", "ann", "WELCOME", ClientFacts("192.0.2.1", False, {}))
STOCKS = {f"item{number}" for number in range(1, len(LISTINGS) + 1)}


def records(journal: Path) -> list[tuple[str, str, str, str, dict[str, str]]]:
    """Set, adapter, item, kind, fields."""
    found = []
    for batch in JournalReader(journal).read():
        columns = (batch.column(name).to_pylist() for name in ("entity", "kind", "value"))
        for entity, kind, value in zip(*columns, strict=True):
            parts = parts_of(entity)
            assert parts is not None
            found.append((*parts, kind, json.loads(value)))
    return found


def test_everything_in_the_demo_is_journaled_from_the_start_whether_anybody_watches_or_not(tmp_path: Path) -> None:
    async def main() -> None:
        sets = demo_sets(seed=7)
        server = Server(load(None, {"stream.port": 0, "api.port": 0}).config, sets, data_dir=tmp_path)
        await server.start()
        for one, adapter in (("WELCOME", "CHAT"), ("DEMO", "CHAT_ROOM")):
            chat = next(found for found in sets if found.name == one).data[adapter]
            assert isinstance(chat, ChatAdapter)
            chat.say(VISITOR, f"hello {one}")
        portfolio = sets[0].data["PORTFOLIO"]
        portfolio.order("BUY", "item7", "3")  # type: ignore[attr-defined]
        # The chat answers its sender first, and publishes after that.
        await asyncio.sleep(0)
        await server.stop()

    asyncio.run(main())
    found = records(tmp_path / "journal")
    snapshots = Counter((adapter_set, adapter) for adapter_set, adapter, _, kind, _ in found if kind == "snapshot")
    assert snapshots == {
        ("WELCOME", "STOCKS"): 30,
        ("DEMO", "QUOTE_ADAPTER"): 30,
        ("WELCOME", "PORTFOLIO"): 3,
        ("DEMO", "PORTFOLIO_ADAPTER"): 3,
    }
    assert {item for adapter_set, adapter, item, _, _ in found if adapter == "STOCKS"} == STOCKS
    assert all(int(fields["last_quantity"]) >= 0 for _, adapter, _, _, fields in found if adapter == "STOCKS")
    said = [
        (adapter_set, adapter, item, fields["message"])
        for adapter_set, adapter, item, _, fields in found[60:]
        if "message" in fields
    ]
    assert said == [("WELCOME", "CHAT", "chat_room", "hello WELCOME"), ("DEMO", "CHAT_ROOM", "chat_room", "hello DEMO")]
    bought = {"key": "item7", "command": "ADD", "qty": "3"}
    assert ("WELCOME", "PORTFOLIO", "portfolio1", "update", bought) in found


def test_a_trade_tells_its_quantity() -> None:
    stocks = demo_sets(seed=7)[0].data["STOCKS"]._market.stocks  # type: ignore[attr-defined]
    for stock in stocks.values():
        assert stock.fields()["last_quantity"] == "0"
        stock.trade()
        assert int(stock.fields()["last_quantity"]) > 0


MODES = [
    ("STOCKS", "item30", Mode.MERGE),
    ("CHAT", "chat_room", Mode.DISTINCT),
    ("PORTFOLIO", "portfolio1", Mode.COMMAND),
    ("CANDLES", "candle.1s.item1", Mode.MERGE),
    ("CANDLES", "candles.10s.item2", Mode.DISTINCT),
    ("MOVERS", "movers", Mode.COMMAND),
    ("PIPELINE", "query.candles", Mode.MERGE),
    ("PIPELINE", "queries", Mode.COMMAND),
]


@pytest.mark.parametrize(("adapter", "item", "mode"), MODES)
def test_everybody_may_see_everything_in_the_mode_that_suits_it(adapter: str, item: str, mode: Mode) -> None:
    metadata = demo_sets()[0].metadata
    assert metadata.items(VISITOR, adapter, item) == [item]
    allowed = {one for one in Mode if metadata.allows_mode(VISITOR, adapter, item, one)}
    assert allowed == {Mode.RAW, mode}


@pytest.mark.parametrize(
    ("adapter", "item"),
    [
        ("STOCKS", "item31"),
        ("CANDLES", "candle"),
        ("CANDLES", "candlesticks"),
        ("MOVERS", "movers2"),
        ("PIPELINE", "x"),
    ],
)
def test_an_item_that_is_not_there_is_refused(adapter: str, item: str) -> None:
    with pytest.raises(Refusal, match=f"{adapter} has no item {item}"):
        demo_sets()[0].metadata.items(VISITOR, adapter, item)


# -- the pipeline's way in ----------------------------------------------------------------------------------------


def test_the_token_is_made_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "pipeline" / "token"
    token = kept_token(path)
    assert len(token) > 30
    assert path.read_text() == f"{token}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert kept_token(path) == token
    assert kept_token(tmp_path / "other") != token
    assert [one.name for one in path.parent.iterdir()] == ["token"]


@pytest.mark.parametrize("content", [b"", b"short\n", b"\xff" * 40])
def test_a_file_without_a_token_is_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    path.chmod(0o644)
    token = kept_token(path)
    assert path.read_text() == f"{token}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_pipeline_is_let_in_by_the_token_also_after_a_restart(process: ServerProcess) -> None:
    path = process.directory / "data" / "pipeline" / "token"
    token = path.read_text().strip()
    assert _publish(process, token) == 200
    assert _publish(process, "x" * len(token)) == 401
    process.stop()
    process.start()
    assert path.read_text().strip() == token
    assert _publish(process, token) == 200


def _publish(process: ServerProcess, token: str) -> int:
    line = json.dumps({"item": "candle.1s.item1", "fields": {"open": "1"}})
    request = Request(
        f"http://{process.host}:{process.api_port}/api/ingest/WELCOME/CANDLES",
        line.encode(),
        {"Authorization": f"Bearer {token}", "Content-Type": "application/x-ndjson"},
    )
    try:
        with urlopen(request, timeout=20) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code
