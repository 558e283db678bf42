from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.pipeline.errors import BadOption
from penstock.pipeline.target import BadRow, Target

OPTIONS = {"server": "http://localhost:1", "adapterSet": "SET", "adapter": "OUT", "token": "a-secret-token-123"}


def target(**more: Any) -> Target:
    return Target("http://localhost:1", "SET", "OUT", **more)


def test_a_column_names_the_item_and_all_others_are_fields() -> None:
    rows = target(item="stock").rows(pa.table({"price": [1.5], "stock": ["acme"], "volume": [3]}))
    assert rows.to_pylist() == [{"item": "acme", "price": 1.5, "volume": 3}]


def test_a_template_makes_the_name_of_columns_which_are_fields_as_well() -> None:
    rows = target(item_template="candle.{size}.{stock}!").rows(pa.table({"stock": ["a", "b"], "size": ["1s", "1m"]}))
    assert rows.column("item").to_pylist() == ["candle.1s.a!", "candle.1m.b!"]
    assert rows.column_names == ["item", "stock", "size"]


def test_a_template_may_have_numbers_and_no_text_between_them() -> None:
    rows = target(item_template="{a}{b}").rows(pa.table({"a": [1, 2], "b": [True, False]}))
    assert rows.column("item").to_pylist() == ["1true", "2false"]


def test_a_template_without_columns_is_one_item_for_all() -> None:
    rows = target(item_template="movers", mode="COMMAND", key="k").rows(pa.table({"k": ["x", "y"], "v": [1, 2]}))
    assert rows.to_pylist() == [{"item": "movers", "key": "x", "v": 1}, {"item": "movers", "key": "y", "v": 2}]


def test_only_the_fields_that_are_named_are_sent_in_their_order() -> None:
    rows = target(item="i", fields=("c", "a")).rows(pa.table({"i": ["x"], "a": [1], "b": [2], "c": [3]}))
    assert rows.to_pylist() == [{"item": "x", "c": 3, "a": 1}]


def test_a_command_column_is_sent_as_the_command_and_nulls_are_left_to_the_server() -> None:
    wanted = target(item_template="t", mode="COMMAND", key="id", command="op")
    rows = wanted.rows(pa.table({"id": [7, 8], "op": ["DELETE", None], "v": [None, 1]}))
    assert rows.column("key").to_pylist() == ["7", "8"]
    assert rows.column("command").to_pylist() == ["DELETE", None]


def test_a_record_batch_will_do() -> None:
    assert target(item="i").rows(pa.record_batch({"i": ["x"], "v": [1]})).num_rows == 1


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"k": ["a", None], "i": ["x", "y"]}, "the column 'k' is null in row 2; it is the key"),
        ({"k": ["", "b"], "i": ["x", "y"]}, "the column 'k' is empty in row 1; it is the key"),
        ({"k": ["a", "b"], "i": ["x", None]}, "the column 'i' is null in row 2; it is the item's name"),
        (
            {"k": ["a", "b"], "i": ["x", "y"], "c": ["ADD", "DROP"]},
            "the column 'c' is 'DROP' in row 2; allowed: ADD",
        ),
    ],
)
def test_a_row_that_cannot_be_published_is_named(table: dict[str, list[str | None]], said: str) -> None:
    wanted = target(item_template="a.{i}", mode="COMMAND", key="k", command="c" if "c" in table else None)
    with pytest.raises(BadRow, match=said):
        wanted.rows(pa.table(table))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"item": "nope"}, "item names the column 'nope', which is not there; the DataFrame has a, b"),
        ({"item_template": "x.{nope}"}, "itemTemplate names the column 'nope'"),
        ({"item": "a", "fields": ("c",)}, "fields names the column 'c'"),
        ({"item": "a", "mode": "COMMAND", "key": "c"}, "key names the column 'c'"),
        ({"item": "a", "mode": "COMMAND", "key": "b", "command": "c"}, "command names the column 'c'"),
    ],
)
def test_a_column_that_is_not_there_is_named(more: dict[str, Any], said: str) -> None:
    with pytest.raises(BadOption, match=said):
        target(**more).check_columns(["a", "b"])


def test_a_field_may_not_be_called_as_the_column_that_names_the_item() -> None:
    with pytest.raises(BadOption, match="the column 'item' cannot be a field"):
        target(item_template="x.{item}").check_columns(["item", "price"])
    target(item="item").check_columns(["item", "price"])


def test_without_any_field_there_is_nothing_to_publish() -> None:
    with pytest.raises(BadOption, match="no column is left to be published"):
        target(item="a").check_columns(["a"])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"server": ""}, "option server is missing"),
        ({"adapterSet": ""}, "option adapterSet is missing"),
        ({"adapter": ""}, "option adapter is missing"),
        ({"item": "a", "server": "nonsense"}, "server is 'nonsense'; expected an address"),
        ({}, "item and itemTemplate: exactly one is needed"),
        ({"item": "a", "itemTemplate": "b"}, "item and itemTemplate: exactly one is needed"),
        ({"itemTemplate": ""}, "itemTemplate is empty"),
        ({"item": "a", "mode": "RAW"}, "mode is 'RAW'; allowed: MERGE, DISTINCT, COMMAND"),
        ({"item": "a", "mode": "COMMAND"}, "key is missing; mode COMMAND needs"),
        ({"item": "a", "key": "k"}, "key is 'k'; only mode COMMAND"),
        ({"item": "a", "retryTimeoutSeconds": "soon"}, "retryTimeoutSeconds is 'soon'"),
        ({"item": "a", "retryTimeoutSeconds": "nan"}, "retryTimeoutSeconds is 'nan'"),
        ({"item": "a", "colour": "red"}, "option colour is not known; allowed: server, adapterSet"),
        ({"item": "a", "tokenFile": "/nowhere"}, "token and tokenFile are both given"),
    ],
)
def test_a_wrong_option_is_named_with_what_is_allowed(changed: dict[str, str], said: str) -> None:
    with pytest.raises(BadOption, match=said) as caught:
        Target.of({**OPTIONS, **changed})
    assert OPTIONS["token"] not in str(caught.value)


def test_options_come_in_any_case_and_together_with_those_of_spark(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("a-token-from-a-file\n")
    found = Target.of(
        {
            "SERVER": "http://localhost:1",
            "adapterset": "SET",
            "Adapter": "OUT",
            "tokenfile": str(file),
            "item": "a",
            "MODE": "distinct",
            "fields": " b , c ",
            "retrytimeoutseconds": "1.5",
            "checkpointLocation": "/tmp/x",
        }
    )
    assert (found.mode, found.fields, found.retry_timeout) == ("DISTINCT", ("b", "c"), 1.5)
    assert found.token == "a-token-from-a-file"


def test_the_token_is_not_shown_but_travels() -> None:
    wanted = Target.of({**OPTIONS, "item": "a"})
    assert OPTIONS["token"] not in repr(wanted)
    assert pickle.loads(pickle.dumps(wanted)).token == OPTIONS["token"]
