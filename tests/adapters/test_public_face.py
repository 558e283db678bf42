"""What authors of adapters see: names that stay, and declarations that the server reads."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from penstock.adapters import AdapterSet, ClientFacts, DataAdapter, MetadataAdapter
from penstock.adapters.api import Adapter
from penstock.adapters.authority import SetAuthority
from penstock.adapters.inside import InsideAdapter
from penstock.adapters.loading import DATA_ADAPTERS, METADATA_ADAPTERS, Signature
from penstock.kernel.feed import Feed
from tests.adapters.stage import Stage

DOCS = Path(__file__).parents[2] / "docs"

LIFE = {"check_start", "listener_certificate", "quick", "start", "stop", "trouble", "wait_until_ready"}


def public(found: type) -> set[str]:
    return {name for name in vars(found) if not name.startswith("_")}


def test_what_both_kinds_of_adapters_have_in_common_is_in_one_place() -> None:
    assert public(Adapter) == LIFE
    assert not LIFE & (public(DataAdapter) | public(MetadataAdapter))


def test_a_data_adapter_has_these_methods_and_no_others() -> None:
    assert public(DataAdapter) == {
        "attach",
        "subscribe",
        "unsubscribe",
        "has_snapshot",
        "update",
        "updates",
        "update_rows",
        "update_table",
        "end_of_snapshot",
        "clear_snapshot",
        "declare_differences",
        "fail",
    }


def test_a_metadata_adapter_has_these_methods_and_declarations_and_no_others() -> None:
    assert public(MetadataAdapter) == {
        "adapter_set",
        "attach",
        "decides_by_password",
        "knows_names",
        "sessions_per_user",
        # Sessions.
        "authenticate",
        "manages_bandwidth",
        "max_bandwidth",
        "new_session",
        "session_closed",
        # Subscriptions.
        "allows_mode",
        "customizer",
        "fields",
        "items",
        "max_buffer_size",
        "max_frequency",
        "prefilter_frequency",
        "resolve",
        "resolve_frequencies",
        "resumed",
        "selector",
        "snapshot_length",
        "subscribed",
        "unsubscribed",
        # Push notifications.
        "activate_push",
        "change_device_token",
        "register_device",
        # Messages.
        "message",
    }


def test_methods_of_an_author_that_are_called_like_hooks_of_the_server_are_left_alone() -> None:
    class Own(DataAdapter):
        def enter(self, room: str) -> None:
            raise AssertionError(room)

        def journal_to(self, diary: str, page: int) -> None:
            raise AssertionError(diary, page)

    async def main() -> None:
        async with Stage(Own()) as stage:
            stage.adapter.update("a", {"x": "1"})

    asyncio.run(main())


def test_an_inside_adapter_is_given_the_feed_before_it_starts() -> None:
    calls: list[object] = []

    class Inside(InsideAdapter):
        quick = True

        def enter(self, feed: Feed) -> None:
            calls.append(feed)

        def journal_to(self, recorder: object, directory: Path | None) -> None:
            calls.append((recorder, directory))

        def start(self) -> None:
            calls.append("start")

    async def main() -> Feed:
        async with Stage(Inside()) as stage:
            return stage.feed

    feed = asyncio.run(main())
    assert calls == [feed, (None, None), "start"]


# -- declarations -------------------------------------------------------------------------------------------------


class Asks(MetadataAdapter):
    quick = True

    def authenticate(self, user: str | None, password: str | None, client: ClientFacts) -> None:
        pass


class Nameless(Asks):
    knows_names = False


class Constant(Asks):
    decides_by_password = True


@pytest.mark.parametrize(
    ("metadata", "vouches", "is_constant"),
    [(MetadataAdapter(), False, False), (Asks(), True, False), (Nameless(), False, False), (Constant(), True, True)],
    ids=lambda each: type(each).__name__ if isinstance(each, MetadataAdapter) else "",
)
def test_a_metadata_adapter_declares_what_its_decisions_are_worth(
    metadata: MetadataAdapter, vouches: bool, is_constant: bool
) -> None:
    authority = SetAuthority(AdapterSet("SET", metadata, {}))
    assert (authority.vouches, authority.is_constant) == (vouches, is_constant)


def test_the_page_has_every_declaration() -> None:
    kinds = (Adapter, DataAdapter, MetadataAdapter)
    declared = {name for kind in kinds for name in public(kind) if not callable(vars(kind)[name])}
    # Set by the server, not by the author.
    declared -= {"adapter_set"}
    page = (DOCS / "adapters.md").read_text("utf-8")
    (table,) = re.findall(r"^\| attribute \| of \|.*?^$", page, re.MULTILINE | re.DOTALL)
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == declared


# -- ready-made adapters ------------------------------------------------------------------------------------------

PAGES = {
    "access": "access.md",
    "ingest": "adapters.md",
    "kafka": "brokers.md",
    "mqtt": "brokers.md",
    "nats": "brokers.md",
    "remote": "remote-adapters.md",
    "replay": "adapters.md",
}
READY_MADE = [*METADATA_ADAPTERS.items(), *DATA_ADAPTERS.items()]


@pytest.mark.parametrize(("name", "target"), READY_MADE, ids=lambda each: each)
def test_a_page_has_every_parameter_of_a_ready_made_adapter(name: str, target: str) -> None:
    module, _, class_name = target.partition(":")
    found = getattr(__import__(module, fromlist=[class_name]), class_name)
    assert issubclass(found, MetadataAdapter if METADATA_ADAPTERS.get(name) == target else DataAdapter)
    # `directory` is given by the loader.
    parameters = Signature(found).hints.keys() - {"directory"}
    if parameters:
        page = (DOCS / PAGES[name]).read_text("utf-8")
        assert [each for each in parameters if f"`{each}`" not in page] == []
