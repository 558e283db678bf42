"""Each category is written from its own level on, also if that is changed while the process runs."""

from __future__ import annotations

import logging

import pytest

from penstock import log
from penstock.log import LevelError
from penstock.log.levels import TALKATIVE

EVERY = ("debug", "info", "warning", "error")


@pytest.fixture(autouse=True)
def _restored(root_logger: logging.Logger) -> None:
    """Every test here changes levels."""


def written(category: str) -> list[str]:
    """The levels that a category is written at."""
    logger = logging.getLogger(category.removeprefix("penstock.library."))
    return [level for level in EVERY if logger.isEnabledFor(getattr(logging, level.upper()))]


def test_a_category_counts_for_all_below_it_and_the_longest_name_wins() -> None:
    log.configure("warning", "text", levels={"penstock.doors": "debug", "penstock.doors.tlcp": "error"})
    assert written("penstock.kernel") == ["warning", "error"]
    assert written("penstock.doors.reception") == [*EVERY]
    assert written("penstock.doors.tlcp.door") == ["error"]


def test_a_level_is_changed_while_the_process_runs_and_taken_back(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure("info", "text", levels={"penstock.doors": "error"})
    log.set_level("penstock.doors.tlcp", "debug")
    log.get("penstock.doors.tlcp.door").debug("heard")
    log.set_level("penstock.doors.tlcp", None)
    log.get("penstock.doors.tlcp.door").warning("not heard")
    log.set_level("penstock.doors", "warning")
    log.get("penstock.doors.tlcp.door").warning("heard again")
    log.set_level("penstock.doors", None)
    log.get("penstock.doors.tlcp.door").warning("not heard")
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition("door ")[2] for line in lines] == ["heard", "heard again"]


def test_libraries_are_categories_under_one_name(capsys: pytest.CaptureFixture[str]) -> None:
    log.configure("info", "text", levels={"penstock.library": "error", "penstock.library.quotes": "debug"})
    assert written("penstock.adapters") == ["info", "warning", "error"]
    logging.getLogger("asyncio").warning("not heard")
    logging.getLogger("quotes.feed").debug("connected to %s", "x")
    logging.getLogger().error("of nobody")
    lines = [line.split(" ", 1)[1] for line in capsys.readouterr().err.splitlines()]
    assert lines == ["DEBUG penstock.library.quotes.feed connected to x", "ERROR penstock.library of nobody"]


def test_a_level_for_everything_is_one_for_libraries_too() -> None:
    log.configure("error", "text")
    log.set_level("penstock", "debug")
    assert written("penstock.library.asyncio") == [*EVERY]
    log.set_level("penstock", None)
    assert written("penstock.library.asyncio") == ["error"]


@pytest.mark.parametrize("library", TALKATIVE)
def test_a_library_that_logs_passwords_is_never_asked_to(library: str) -> None:
    log.configure("debug", "text", levels={"penstock.library": "debug"})
    assert written(f"penstock.library.{library}.protocol") == ["warning", "error"]
    for category in (f"penstock.library.{library}", f"penstock.library.{library}.protocol"):
        with pytest.raises(LevelError, match="because it would log passwords; expected warning or error"):
            log.set_level(category, "info")
    log.set_level(f"penstock.library.{library}", "error")
    assert written(f"penstock.library.{library}.protocol") == ["error"]
    log.set_level(f"penstock.library.{library}", None)
    assert written(f"penstock.library.{library}.protocol") == ["warning", "error"]


@pytest.mark.parametrize(
    "category",
    [
        "",
        "root",
        "penstok",
        "penstock.door",
        "penstock.",
        "penstock..doors",
        "penstock.doors.tlcp.nobody",
        "penstock./etc",
        "x\ny",
    ],
)
def test_a_category_that_does_not_exist_is_refused_with_those_that_do(category: str) -> None:
    log.configure("info", "text")
    before = log.levels()
    with pytest.raises(
        LevelError, match=r"is not a category; expected penstock, .*penstock\.doors, .*penstock\.kernel"
    ) as raised:
        log.set_level(category, "debug")
    assert str(raised.value).isprintable()
    assert log.levels() == before


@pytest.mark.parametrize("level", ["", "DEBUG", "trace", "10", "warn\n"])
def test_a_level_that_does_not_exist_is_refused_with_those_that_do(level: str) -> None:
    with pytest.raises(LevelError, match="is not a level; expected one of debug, info, warning, error"):
        log.set_level("penstock.doors", level)


def test_wrong_levels_of_a_configuration_change_nothing() -> None:
    log.configure("info", "text", levels={"penstock.doors": "debug"})
    with pytest.raises(LevelError):
        log.configure_levels("error", {"penstock.kernel": "debug", "penstock.nobody": "debug"})
    assert log.levels()["penstock"] == "info"
    assert log.levels()["penstock.doors"] == "debug"


def test_the_list_has_every_category_with_the_level_that_counts() -> None:
    log.configure("info", "text", levels={"penstock.doors": "debug"})
    log.get("penstock.doors.levels.test")
    logging.getLogger("quotes")
    log.set_level("penstock.library.quotes", "error")
    found = log.levels()
    assert found["penstock"] == found["penstock.library"] == "info"
    assert found["penstock.doors"] == found["penstock.doors.levels.test"] == "debug"
    assert found["penstock.library.quotes"] == "error"
    assert found["penstock.library.websockets"] == "warning"
    assert list(found) == sorted(found)
    assert set(found.values()) <= set(EVERY)


def test_a_new_configuration_forgets_what_was_set_while_the_process_ran() -> None:
    log.configure("info", "text", levels={"penstock.doors": "error"})
    log.set_level("penstock.kernel", "debug")
    log.configure_levels("warning", {"penstock.twins": "info"})
    assert written("penstock.kernel") == written("penstock.doors") == ["warning", "error"]
    assert written("penstock.twins") == ["info", "warning", "error"]


def test_another_configuration_leaves_what_was_set_unless_it_says_something_else_of_the_same_category() -> None:
    log.configure("info", "text", levels={"penstock.doors": "error", "penstock.twins": "error"})
    for category in ("penstock.kernel", "penstock.doors", "penstock.twins", "penstock.journal"):
        log.set_level(category, "debug")
    log.change_levels("warning", {"penstock.doors": "error", "penstock.twins": "warning", "penstock.journal": "error"})
    assert written("penstock.wire") == ["warning", "error"]
    assert written("penstock.kernel") == written("penstock.doors") == [*EVERY]
    assert written("penstock.twins") == ["warning", "error"]
    assert written("penstock.journal") == ["error"]
    # And again: the later word counts, not the earlier one.
    log.change_levels("warning", {"penstock.twins": "warning"})
    assert written("penstock.doors") == ["warning", "error"]
    assert written("penstock.kernel") == [*EVERY]
    log.set_level("penstock.kernel", None)
    assert written("penstock.kernel") == ["warning", "error"]


def test_the_level_of_all_is_one_of_them() -> None:
    log.configure("info", "text")
    log.set_level("penstock", "debug")
    log.change_levels("info", {})
    assert written("penstock.kernel") == [*EVERY]
    log.change_levels("error", {})
    assert written("penstock.kernel") == ["error"]


def test_another_configuration_with_wrong_levels_changes_nothing() -> None:
    log.configure("info", "text", levels={"penstock.doors": "error"})
    log.set_level("penstock.doors", "debug")
    with pytest.raises(LevelError):
        log.change_levels("error", {"penstock.doors": "warning", "penstock.nobody": "debug"})
    assert written("penstock.doors") == [*EVERY]
    assert written("penstock.kernel") == ["info", "warning", "error"]


def test_what_another_process_has_set_takes_the_place_of_what_was_set_here() -> None:
    log.configure("info", "text", levels={"penstock.wire": "error"})
    log.set_level("penstock.doors", "debug")
    log.set_levels_alone({"penstock.wire": "debug", "penstock.kernel": "error"})
    assert log.levels_over() == {"penstock.wire": "debug", "penstock.kernel": "error"}
    assert written("penstock.doors") == ["info", "warning", "error"]
    assert written("penstock.wire") == [*EVERY]
    with pytest.raises(LevelError):
        log.set_levels_alone({"penstock.doors": "debug", "penstock.of_another_release": "debug"})
    assert written("penstock.doors") == ["info", "warning", "error"]
    log.set_levels_alone({})
    assert (written("penstock.wire"), written("penstock.kernel")) == (["error"], ["info", "warning", "error"])
