from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.tlcp.errors import ControlCode, RequestError
from penstock.wire.tlcp.version import SUPPORTED, Version, parse_version, subprotocol_version


@pytest.mark.parametrize("minor", range(6))
@pytest.mark.parametrize("subminor", ["0", "1", "17", "9999"])
def test_versions_2_0_to_2_5_are_spoken_with_any_third_number(minor: int, subminor: str) -> None:
    assert parse_version(f"TLCP-2.{minor}.{subminor}") == Version(2, minor)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "TLCP",
        "TLCP-",
        "TLCP-2",
        "TLCP-2.4",
        "TLCP-2.4.",
        "TLCP-2.4.0.0",
        "TLCP-2.6.0",
        "TLCP-3.0.0",
        "TLCP-1.0.0",
        "TLCP-0.0.0",
        "TLCP-2.4.x",
        "TLCP-2.-4.0",
        "TLCP-2.4.0 ",
        " TLCP-2.4.0",
        "TLCP-2.4.0\n",
        "tlcp-2.4.0",
        "TLCP_2.4.0",
        "TLCP-٢.4.0",
        "TLCP-2.99999.0",
        "TLCP-" + "2" * 5000 + ".4.0",
        "2.4.0",
        "TLCP-2.4.0.lightstreamer.com",
    ],
)
def test_any_other_version_is_refused_with_65_and_the_supported_ones(name: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse_version(name)
    assert caught.value.code == ControlCode.SYNTAX
    assert "LS_protocol" in caught.value.message
    assert "TLCP-2.0.0 to TLCP-2.5.0" in caught.value.message
    assert len(caught.value.message) < 200


@given(st.text(max_size=40))
def test_no_text_makes_it_raise_anything_else(name: str) -> None:
    outcome: Version | int
    try:
        outcome = parse_version(name)
    except RequestError as error:
        outcome = error.code
    assert outcome in (*SUPPORTED, ControlCode.SYNTAX)


@pytest.mark.parametrize(
    ("subprotocol", "version"),
    [
        ("TLCP-2.4.0.lightstreamer.com", "TLCP-2.4.0"),
        ("TLCP-2.5.0.lightstreamer.com", "TLCP-2.5.0"),
        ("TLCP-9.9.9.lightstreamer.com", "TLCP-9.9.9"),
        ("TLCP-2.4.0", None),
        ("TLCP-2.4.lightstreamer.com", None),
        ("js.lightstreamer.com", None),
        (".lightstreamer.com", None),
        ("lightstreamer.com", None),
        ("TLCP-2.4.0.lightstreamer.com.lightstreamer.com", None),
        ("mqtt", None),
        ("", None),
    ],
)
def test_the_version_is_part_of_the_subprotocol(subprotocol: str, version: str | None) -> None:
    assert subprotocol_version(subprotocol) == version


def test_only_2_5_and_later_has_message_responses() -> None:
    assert [version.minor for version in SUPPORTED if version.has_message_response] == [5]


def test_a_version_is_shown_as_clients_name_it() -> None:
    assert [str(version) for version in SUPPORTED] == [f"TLCP-2.{minor}.0" for minor in range(6)]
