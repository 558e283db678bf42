from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.kernel.recovery import Batch, RecoveryLog


def lines(*names: str) -> list[bytes]:
    return [f"{name}\r\n".encode() for name in names]


def append(log: RecoveryLog, now: float, *names: str) -> None:
    log.append(Batch(now, lines(*names)))


def test_what_was_sent_after_a_point_comes_back_in_order_as_if_never_sent() -> None:
    log = RecoveryLog(1_000, 60.0)
    append(log, 0.0, "a", "b")
    append(log, 1.0, "c")
    assert log.sent == 3
    assert log.rewind(1) == lines("b", "c")
    assert log.sent == 1
    assert log.rewind(1) == []
    assert log.rewind(0) == lines("a")


def test_a_point_in_the_middle_of_a_batch_splits_it() -> None:
    log = RecoveryLog(1_000, 60.0)
    append(log, 0.0, "a", "b", "c", "d", "e")
    assert log.rewind(3) == lines("d", "e")
    assert log.rewind(2) == lines("c")
    append(log, 1.0, "C", "D")
    assert log.sent == 4
    assert log.rewind(0) == lines("a", "b", "C", "D")


def test_a_point_never_reached_or_no_longer_kept_cannot_be_recovered() -> None:
    log = RecoveryLog(7, 60.0)
    append(log, 0.0, "a")
    assert log.rewind(2) is None
    append(log, 0.0, "bb")
    append(log, 0.0, "c")
    assert (log.first, log.sent) == (1, 3)
    assert log.rewind(0) is None
    assert log.rewind(1) == lines("bb", "c")


def test_the_oldest_batches_go_when_there_are_too_many_bytes() -> None:
    log = RecoveryLog(8, 60.0)
    append(log, 0.0, "aa", "bb")
    assert log.first == 0
    append(log, 0.0, "c")
    assert log.first == 2
    append(log, 0.0, "ddddddddd")
    assert log.first == log.sent == 4
    append(log, 0.0, "e")
    assert log.rewind(4) == lines("e")


def test_bytes_freed_by_a_rewind_count_no_more() -> None:
    log = RecoveryLog(8, 60.0)
    append(log, 0.0, "aa", "bb")
    log.rewind(1)
    append(log, 0.0, "bb")
    assert log.first == 0
    append(log, 0.0, "c")
    assert log.first == 1


def test_batches_go_when_they_are_too_old() -> None:
    log = RecoveryLog(1_000, 10.0)
    append(log, 0.0, "a")
    append(log, 10.0, "b")
    assert log.first == 0
    append(log, 10.5, "c")
    assert log.first == 1


def test_after_a_confirmation_nothing_before_it_can_be_recovered() -> None:
    log = RecoveryLog(1_000, 10.0)
    append(log, 0.0, "a", "b")
    log.clear()
    assert (log.first, log.sent) == (2, 2)
    assert log.rewind(1) is None
    assert log.rewind(2) == []
    append(log, 0.0, "c")
    assert log.rewind(2) == lines("c")


@given(
    st.lists(
        st.one_of(
            st.lists(st.integers(1, 9), min_size=1, max_size=6),
            st.integers(0, 40),
            st.just("clear"),
        ),
        max_size=30,
    )
)
def test_any_mix_of_sending_rewinding_and_confirming_agrees_with_a_plain_list(
    steps: list[list[int] | int | str],
) -> None:
    log = RecoveryLog(60, 1_000.0)
    sent: list[bytes] = []
    for step in steps:
        if isinstance(step, list):
            batch = [b"x" * size + b"\r\n" for size in step]
            sent += batch
            log.append(Batch(0.0, batch))
        elif isinstance(step, int):
            kept = log.first <= step <= len(sent)
            assert log.rewind(step) == (sent[step:] if kept else None)
            if kept:
                del sent[step:]
        else:
            log.clear()
            assert log.first == len(sent)
        assert log.sent == len(sent)
        assert sum(map(len, sent[log.first :])) <= 60


@given(
    own=st.lists(st.integers(1, 9), max_size=8),
    before=st.lists(st.integers(1, 9), max_size=8),
    shared=st.lists(st.one_of(st.integers(1, 30), st.just("look")), max_size=20),
)
def test_a_log_that_goes_on_in_another_is_as_if_it_had_been_kept_all_the_time(
    own: list[int], before: list[int], shared: list[int | str]
) -> None:
    log, other, plain = RecoveryLog(60, 1_000.0), RecoveryLog(60, 1_000.0), RecoveryLog(60, 1_000.0)
    for size in own:
        append(log, 0.0, "x" * size)
        append(plain, 0.0, "x" * size)
    for size in before:
        append(other, 0.0, "y" * size)
    mark = other.sent
    for entry in [*shared, "look"]:
        if isinstance(entry, int):
            append(other, 0.0, "z" * entry)
            append(plain, 0.0, "z" * entry)
        else:
            log.extend(other, mark)
            mark = other.sent
            assert (log.first, log.sent, log.reached) == (plain.first, plain.sent, plain.reached)
    assert log.rewind(log.first) == plain.rewind(plain.first)
