"""Customizers of metadata adapters over real sockets, and what becomes of those that fail."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.adapters import AdapterSet, Customizer, DataAdapter, MetadataAdapter
from penstock.adapters.customizing import GuardedCustomizer
from penstock.kernel.item import Mode
from penstock.kernel.ports import Event, Grant, ItemGrant, SessionFacts, Wish
from tests.adapters.stage import SetServer

PAGE = Path(__file__).parents[2] / "docs" / "adapters.md"


class Prices(DataAdapter):
    quick = True

    def subscribe(self, item: str) -> None:
        self.update(item, {"bid": "1.25", "ask": "1.30", "key": "k", "command": "ADD"}, snapshot=True)
        self.end_of_snapshot(item)


def rounded(event: Event) -> Event:
    return {**event, "bid": str(round(float(event.get("bid") or 0)))}


class Guests(MetadataAdapter):
    """Guests see rounded prices; everybody else sees what there is."""

    def customizer(self, session: SessionFacts, data_adapter: str, item: str, mode: Mode) -> Customizer | None:
        return rounded if session.user == "guest" else None


class QuickGuests(Guests):
    quick = True


class AsyncGuests(Guests):
    async def customizer(  # type: ignore[override]
        self, session: SessionFacts, data_adapter: str, item: str, mode: Mode
    ) -> Customizer | None:
        await asyncio.sleep(0)
        return super().customizer(session, data_adapter, item, mode)


class ResolvingGuests(MetadataAdapter):
    async def resolve(self, session: SessionFacts, wish: Wish) -> Grant:
        customizer = rounded if session.user == "guest" else None
        items = [ItemGrant(name, customizer=customizer) for name in wish.group.split()]
        return Grant(tuple(items), tuple(wish.schema.split()))


@pytest.fixture(params=[Guests, QuickGuests, AsyncGuests, ResolvingGuests])
def server(request: pytest.FixtureRequest) -> Iterator[SetServer]:
    with SetServer([AdapterSet("SET", request.param(), {"ADAPTER": Prices()})]) as running:
        yield running


@pytest.mark.parametrize("mode", ["MERGE", "DISTINCT", "COMMAND"])
def test_each_user_sees_what_is_for_them(server: SetServer, mode: str) -> None:
    schema = "bid ask key command"
    with server.open(user="guest") as guest, server.open(user="ann") as ann:
        for stream, expected in ((guest, "1|1.30|k|ADD"), (ann, "1.25|1.30|k|ADD")):
            assert server.subscribe(stream, "gold", schema, mode) == ["REQOK,1"]
            assert stream.read_until("U")[-1] == f"U,1,1,{expected}"


# -- those that fail ----------------------------------------------------------------------------------------------


def failing(event: Event) -> Any:
    raise RuntimeError("on purpose")


def leaving(event: Event) -> Any:
    raise SystemExit(3)


WRONG: Sequence[tuple[Customizer, Mode]] = [
    (failing, Mode.MERGE),
    (leaving, Mode.MERGE),
    (lambda event: "text", Mode.MERGE),  # type: ignore[list-item, return-value]
    (lambda event: {1: "a"}, Mode.MERGE),  # type: ignore[dict-item]
    (lambda event: {"a": object()}, Mode.MERGE),  # type: ignore[dict-item]
    (lambda event: {"a": "\ud800"}, Mode.MERGE),
    (lambda event: event.update(a="b"), Mode.MERGE),  # type: ignore[attr-defined]
    (lambda event: {"command": "ADD"}, Mode.COMMAND),
    (lambda event: {"key": "k"}, Mode.COMMAND),
    (lambda event: {"key": "k", "command": "MOVE"}, Mode.COMMAND),
]


@pytest.mark.parametrize(("customizer", "mode"), WRONG)
def test_an_event_that_it_fails_on_is_dropped_and_told(
    customizer: Customizer, mode: Mode, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"key": "k", "command": "ADD", "x": "secret"}
    assert GuardedCustomizer("SET", "gold", mode, customizer)(given) is None
    assert given == {"key": "k", "command": "ADD", "x": "secret"}
    (record,) = caplog.records
    assert record.getMessage() in ("customizer failed", "customizer returned an invalid event")
    assert record.fields["item"] == "gold"  # type: ignore[attr-defined]


def test_numbers_are_written_out_as_those_of_data_adapters_are() -> None:
    made = GuardedCustomizer("SET", "gold", Mode.MERGE, lambda event: {"a": 1, "b": True})  # type: ignore[dict-item]
    assert made({}) == {"a": "1", "b": "true"}


class Nonsense(MetadataAdapter):
    quick = True

    def customizer(self, session: SessionFacts, data_adapter: str, item: str, mode: Mode) -> Any:
        return "rounded"


def test_what_is_no_function_refuses_the_subscription() -> None:
    with SetServer([AdapterSet("SET", Nonsense(), {"ADAPTER": Prices()})]) as server, server.open() as stream:
        assert server.subscribe(stream, "gold", "bid")[0].startswith("REQERR,1,66,The metadata adapter failed")


# -- the page -----------------------------------------------------------------------------------------------------


def test_the_example_of_the_page_does_what_the_page_says() -> None:
    section = PAGE.read_text("utf-8").partition("## Different events for different users\n")[2].partition("\n## ")[0]
    (example,) = re.findall(r"```python delayed.py\n(.*?)```", section, re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    with (
        SetServer([AdapterSet("SET", names["Delayed"](), {"ADAPTER": Prices()})]) as server,
        server.open(user="guest") as guest,
        server.open(user="trader") as trader,
    ):
        server.subscribe(guest, "gold secret.plan", "bid ask")
        server.subscribe(trader, "gold secret.plan", "bid ask")
        assert guest.read_until("U")[-1] == "U,1,1,1|#"
        assert [trader.read_until("U")[-1] for _ in range(2)] == ["U,1,1,1.25|1.30", "U,1,2,1.25|1.30"]
