"""What a metadata adapter is asked about devices and push subscriptions, and what becomes of its refusals, failures and
delays."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Awaitable, Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from penstock.adapters import AdapterSet, DeviceFacts, MetadataAdapter, PushFacts, Reason, Refusal
from penstock.adapters.authority import SetAuthority
from penstock.adapters.session_calls import MAX_CALLS
from penstock.doors.tlcp.refusals import control_error
from penstock.kernel.item import Mode
from penstock.kernel.ports import SessionFacts
from penstock.kernel.session import Session
from penstock.testing import Harness

TOKEN = "740f4707bebcf74f"
DEVICE = DeviceFacts("Apple", "com.example.app", TOKEN)
PUSH = PushFacts("QUOTES", Mode.MERGE, "g", "s", ("acme",), ("price",), '{"aps":{}}', "Double.parseDouble($[1])>5")
FAILED = "The metadata adapter failed on this request"


class Judge(MetadataAdapter):
    """Plain methods; `act` is what each of them does."""

    def __init__(self, act: Callable[[], object] = lambda: None) -> None:
        self.act = act
        self.heard: list[tuple[object, ...]] = []

    def register_device(self, session: SessionFacts, device: DeviceFacts) -> None:
        self.heard.append(("register", session.id, device))
        self.act()

    def change_device_token(self, session: SessionFacts, device: DeviceFacts, new_token: str) -> None:
        self.heard.append(("change", session.id, device, new_token))
        self.act()

    def activate_push(self, session: SessionFacts, device: DeviceFacts, subscription: PushFacts) -> None:
        self.heard.append(("activate", session.id, device, subscription))
        self.act()


class QuickJudge(Judge):
    quick = True


class AsyncJudge(Judge):
    async def register_device(self, session: SessionFacts, device: DeviceFacts) -> None:  # type: ignore[override]
        super().register_device(session, device)

    async def change_device_token(  # type: ignore[override]
        self, session: SessionFacts, device: DeviceFacts, new_token: str
    ) -> None:
        super().change_device_token(session, device, new_token)

    async def activate_push(  # type: ignore[override]
        self, session: SessionFacts, device: DeviceFacts, subscription: PushFacts
    ) -> None:
        super().activate_push(session, device, subscription)


CALLS: dict[str, Callable[[SetAuthority, Session], Awaitable[None]]] = {
    "register_device": lambda authority, session: authority.register_device(session, DEVICE),
    "change_device_token": lambda authority, session: authority.change_device_token(session, DEVICE, "new"),
    "activate_push": lambda authority, session: authority.activate_push(session, DEVICE, PUSH),
}
each_call = pytest.mark.parametrize("call", CALLS)
each_judge = pytest.mark.parametrize("kind", [Judge, QuickJudge, AsyncJudge])


async def welcomed(metadata: MetadataAdapter, timeout_millis: int = 20_000) -> tuple[SetAuthority, Session]:
    authority = SetAuthority(AdapterSet("SET", metadata, {}, timeout_millis))
    session, _ = Harness().open()
    await authority.welcome(session)
    return authority, session


def refused(metadata: MetadataAdapter, call: str, timeout_millis: int = 20_000) -> tuple[int, str]:
    """Code and text that a TLCP client is told of the refusal."""

    async def main() -> tuple[int, str]:
        authority, session = await welcomed(metadata, timeout_millis)
        with pytest.raises(Refusal) as raised:
            await CALLS[call](authority, session)
        await authority.stop()
        error = control_error(raised.value, "1")
        return error.code, error.message

    return asyncio.run(main())


@each_judge
def test_an_adapter_is_asked_with_the_session_and_all_facts(kind: type[Judge]) -> None:
    judge = kind()

    async def main() -> str:
        authority, session = await welcomed(judge)
        for ask in CALLS.values():
            await ask(authority, session)
        await authority.stop()
        return session.id

    session = asyncio.run(main())
    assert judge.heard == [
        ("register", session, DEVICE),
        ("change", session, DEVICE, "new"),
        ("activate", session, DEVICE, PUSH),
    ]


@each_call
def test_an_adapter_that_overrides_nothing_allows_everything_and_is_not_asked(call: str) -> None:
    async def main() -> None:
        authority, session = await welcomed(MetadataAdapter())
        before = authority.calls.calls
        await CALLS[call](authority, session)
        assert authority.calls.calls == before

    asyncio.run(main())


def refuse(reason: Reason, code: int | None = None) -> Callable[[], object]:
    def act() -> None:
        raise Refusal(reason, "Not this one", code)

    return act


def fail() -> None:
    raise RuntimeError("failed on purpose")


@each_call
@each_judge
@pytest.mark.parametrize(
    ("act", "answer"),
    [
        (refuse(Reason.APPLICATION), (43, "PN_appId: Not this one")),
        (refuse(Reason.GROUP), (21, "LS_group: Not this one")),
        (refuse(Reason.APPLICATION, -5), (-5, "Not this one")),
        (fail, (66, FAILED)),
    ],
    ids=["application", "group", "code", "failure"],
)
def test_a_client_is_told_the_code_for_a_refusal(
    kind: type[Judge], call: str, act: Callable[[], object], answer: tuple[int, str]
) -> None:
    assert refused(kind(act), call) == answer


@each_call
def test_a_call_that_takes_too_long_is_a_refusal(call: str) -> None:
    release = threading.Event()
    try:
        assert refused(Judge(lambda: release.wait(20)), call, 50) == (
            66,
            "The metadata adapter has not answered in time",
        )
    finally:
        release.set()


@each_call
def test_a_failure_is_logged_with_its_call_and_without_the_token(call: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        refused(Judge(fail), call)
    (record,) = [record for record in caplog.records if record.msg == "metadata adapter failed"]
    assert record.__dict__["fields"] == {"adapter_set": "SET", "call": call}
    assert TOKEN not in caplog.text


def test_the_token_is_no_part_of_what_a_device_looks_like() -> None:
    assert TOKEN not in repr(DEVICE)


@each_call
@pytest.mark.parametrize("metadata", [Judge, MetadataAdapter])
def test_nobody_is_asked_for_a_session_that_has_ended(call: str, metadata: type[MetadataAdapter]) -> None:
    async def main() -> Reason:
        authority, session = await welcomed(metadata())
        session.close(31, "gone")
        authority.session_closed(session)
        with pytest.raises(Refusal) as raised:
            await CALLS[call](authority, session)
        return raised.value.reason

    assert asyncio.run(main()) is Reason.UNKNOWN_SESSION


def test_one_session_has_so_many_calls_at_a_time_and_its_end_comes_after_them() -> None:
    """Those who wait for their turn when it ends are refused."""
    begun, release = threading.Semaphore(0), threading.Event()
    told: list[int] = []

    class Follows(Judge):
        def session_closed(self, session: SessionFacts) -> None:
            told.append(len(self.heard))

    def wait() -> None:
        begun.release()
        release.wait(20)

    judge = Follows(wait)

    async def main() -> list[object]:
        authority, session = await welcomed(judge)
        asked = [asyncio.ensure_future(CALLS["register_device"](authority, session)) for _ in range(MAX_CALLS + 3)]
        for _ in range(MAX_CALLS):
            assert await asyncio.to_thread(begun.acquire, timeout=20)
        authority.session_closed(session)
        for _ in range(10):
            await asyncio.sleep(0)
        assert (len(judge.heard), told) == (MAX_CALLS, [])
        release.set()
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        await authority.stop()
        return [error.reason if isinstance(error, Refusal) else error for error in outcomes]

    assert asyncio.run(main()) == [None] * MAX_CALLS + [Reason.UNKNOWN_SESSION] * 3
    assert told == [MAX_CALLS]


# -- documentation ----------------------------------------------------------------------------------------------------

PAGE = (Path(__file__).parents[2] / "docs" / "adapters.md").read_text("utf-8")
SECTION = PAGE.partition("\n## Devices and push notifications\n")[2].partition("\n## ")[0]


def test_the_page_names_the_methods_and_all_facts() -> None:
    table = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", SECTION, re.MULTILINE))
    assert list(table) == list(CALLS)
    assert {"platform", "application", "token"} <= set(re.findall(r"`(\w+)`", table["register_device"]))
    named = re.findall(r"`(\w+)`", table["activate_push"])
    assert sorted(named) == sorted([field.name for field in fields(PushFacts)] + ["subscription"])


def test_the_example_of_the_page_decides_as_it_says() -> None:
    (example,) = re.findall(r"```python phones.py\n(.*?)```", SECTION, re.DOTALL)
    names: dict[str, Any] = {}
    exec(example, names)
    quotes = DeviceFacts("Web", "com.example.quotes", "one")
    harness = Harness()

    async def main() -> list[int | None]:
        authority = SetAuthority(AdapterSet("SET", names["Phones"](), {}))
        ada, bob, nobody = [await enter(authority, user) for user in ("ada", "bob", None)]
        asked = [
            authority.register_device(ada, quotes),
            authority.register_device(ada, DEVICE),
            authority.register_device(nobody, quotes),
            authority.register_device(bob, quotes),
            authority.change_device_token(ada, quotes, "two"),
            authority.register_device(bob, replace(quotes, token="two")),
            authority.activate_push(ada, quotes, PUSH),
            authority.activate_push(ada, quotes, replace(PUSH, trigger=None)),
        ]
        return [await code(each) for each in asked]

    async def enter(authority: SetAuthority, user: str | None) -> Session:
        session, _ = harness.open()
        session.user = user
        await authority.welcome(session)
        return session

    async def code(question: Awaitable[None]) -> int | None:
        try:
            await question
        except Refusal as refusal:
            return control_error(refusal, "1").code
        return None

    assert asyncio.run(main()) == [None, 43, 43, -10, None, -10, None, -11]
