"""What a worker process counts, in memory that outlasts it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from headrace.records import Charge, ExchangeReply, Kind, Lease, Outcome, Verdict
from headrace.worker import meter
from headrace.worker.meter import BOUNDS, OTHER, OUTCOMES, QUEUES, ROWS, TASKS, Board, Counted, Meter, Pair

pytestmark = pytest.mark.process


@pytest.fixture
def counting() -> Iterator[Meter]:
    with closing(Meter.shared()) as made:
        yield made


def lease(ref: int, queue: str = "mail", task: str = "send", due: int = 0) -> Lease:
    return Lease(ref, 1, str(ref), task, queue, b"", due=due)


def ended(ref: int, kind: Kind = Kind.DONE, began: int | None = 0, took: int = 0, **fields: object) -> Outcome:
    end = None if began is None else began + took
    return Outcome(ref=ref, token=1, id=str(ref), kind=kind, began=began, ended=end, **fields)  # type: ignore[arg-type]


def reply(*leases: Lease, verdicts: tuple[Verdict, ...] = (), now: int = 0) -> ExchangeReply:
    return ExchangeReply(verdicts, leases, now, None)


def found(meter: Meter) -> dict[Pair, Counted]:
    return {pair: Counted(numbers) for pair, numbers in meter.rows() if any(numbers)}


def settle(counting: Meter, *outcomes: Outcome, verdict: Verdict = Verdict.OK) -> None:
    counting.exchanged(outcomes, reply(verdicts=(verdict,) * len(outcomes)), 0)


def test_a_meter_that_has_counted_nothing_has_no_rows(counting: Meter) -> None:
    assert found(counting) == {}


def test_waits_count_from_the_due_time_by_the_clock_of_the_store(counting: Meter) -> None:
    """The store's clock is 1,000,000 ms ahead of the worker's."""
    counting.exchanged((), reply(lease(1, due=1_000_700), lease(2, due=1_002_000), now=1_001_000), 1_000)
    outcomes = ended(1, began=1_100, took=26), ended(2, began=1_100)
    counting.exchanged(outcomes, reply(verdicts=(Verdict.OK, Verdict.OK), now=1_001_200), 1_200)
    (counted,) = found(counting).values()
    assert (counted.waited.sum, counted.ran.sum) == (400, 26)
    assert [n for n, number in enumerate(counted.waited.buckets) if number] == [0, BOUNDS.index(500)]
    assert [n for n, number in enumerate(counted.ran.buckets) if number] == [0, BOUNDS.index(50)]


@pytest.mark.parametrize(("milliseconds", "bucket"), [(5, 0), (6, 1), (3_600_000, 15), (3_600_001, 16)])
def test_a_bucket_includes_its_upper_end(counting: Meter, milliseconds: int, bucket: int) -> None:
    counting.exchanged((), reply(lease(1)), 0)
    settle(counting, ended(1, took=milliseconds))
    (counted,) = found(counting).values()
    assert counted.ran.buckets.index(1) == bucket


@pytest.mark.parametrize(
    ("outcome", "name", "runs"),
    [
        (ended(1), "done", 1),
        (ended(1, Kind.AGAIN, charge=Charge.ATTEMPT), "retried", 1),
        (ended(1, Kind.AGAIN), "deferred", 1),
        (ended(1, Kind.AGAIN, None, charge=Charge.DEFERRAL), "deferred", 0),
        (ended(1, Kind.FAILED, group="ValueError"), "failed", 1),
        (ended(1, Kind.FAILED, group="cancelled"), "cancelled", 1),
        (ended(1, Kind.BROKEN, None), "broken", 0),
        (ended(1, Kind.RELEASED), "released", 0),
        (ended(1, Kind.CRASHED), "crashed", 1),
        (ended(1, Kind.MOVED), "moved", 1),
        (ended(1, Kind.WAITING), "waiting", 1),
    ],
    ids=[
        "done",
        "retried",
        "snoozed",
        "unknown",
        "failed",
        "cancelled",
        "broken",
        "released",
        "crashed",
        "moved",
        "waiting",
    ],
)
def test_each_outcome_has_a_name(counting: Meter, outcome: Outcome, name: str, runs: int) -> None:
    counting.exchanged((), reply(lease(1)), 0)
    settle(counting, outcome)
    counted = found(counting)["mail", "send"]
    assert {name for name, number in counted.outcomes.items() if number} == {name}
    assert sum(counted.ran.buckets) == sum(counted.waited.buckets) == runs


def test_an_outcome_that_is_sent_again_counts_once_and_a_lost_one_as_lost(counting: Meter) -> None:
    counting.exchanged((), reply(lease(1), lease(2)), 0)
    settle(counting, ended(1), verdict=Verdict.LATER)
    settle(counting, ended(1), verdict=Verdict.CHANGED)
    assert found(counting) == {}
    settle(counting, ended(1), verdict=Verdict.ALREADY)
    settle(counting, ended(2), verdict=Verdict.STALE)
    counted = found(counting)["mail", "send"]
    assert (sum(counted.outcomes.values()), counted.leases_lost) == (1, 1)


def test_names_are_bounded(counting: Meter) -> None:
    number = 0

    def run(queue: str, task: str) -> None:
        nonlocal number
        number += 1
        counting.exchanged((), reply(lease(number, queue, task)), 0)
        settle(counting, ended(number))

    run("first", "task")
    for i in range(QUEUES + 10):
        run(f"q{i}", "task")
    for i in range(TASKS + 10):
        run("first", f"t{i}")
    run("first", "x" * 201)
    run("first", "task")
    counted = found(counting)
    assert len(counted) <= ROWS
    assert len({queue for queue, _ in counted}) == QUEUES + 1
    assert counted["first", "task"].outcomes["done"] == 2
    assert counted[OTHER, "task"].outcomes["done"] == 11
    assert sum(numbers.outcomes["done"] for numbers in counted.values()) == number


@pytest.mark.parametrize("name", ["", '"', "\\", "a\nb", "{x='y'}", "é", "\U0001d4b3", "\ud800", "\0"])
def test_hostile_names_come_back_as_they_are_or_with_a_question_mark(counting: Meter, name: str) -> None:
    counting.exchanged((), reply(lease(1, name, name)), 0)
    settle(counting, ended(1))
    shown = name.encode(errors="replace").decode()
    assert set(found(counting)) == {(shown, shown)}


def test_a_reader_sees_the_sums_of_one_moment_even_of_a_process_that_is_killed(counting: Meter) -> None:
    """A process counts the same in two rows at once, as fast as it can."""
    board = Board()
    board.add(counting)
    pid = os.fork()
    if pid == 0:
        writer = Meter(counting.descriptor)
        while True:
            writer.exchanged((), reply(lease(1, task="a"), lease(2, task="b")), 0)
            settle(writer, ended(1, took=7), ended(2, took=7))
    try:
        before, reads = 0, 0
        end = time.monotonic() + 60
        while before <= 1_000 or reads < 500:
            assert time.monotonic() < end
            reads += 1
            counted = board.counted()
            sums = {
                (c.outcomes["done"], sum(c.ran.buckets), sum(c.waited.buckets), c.ran.sum / 7) for c in counted.values()
            }
            assert len(sums) <= 1, sums
            assert all(len(set(numbers)) == 1 for numbers in sums), sums
            now = next(iter(sums))[0] if sums else 0
            assert now >= before
            before = now
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    last = {pair: counted.outcomes for pair, counted in board.counted().items()}
    assert len({tuple(outcomes.items()) for outcomes in last.values()}) == 1
    copy = os.dup(counting.descriptor)
    board.retire(counting)
    counting.descriptor = copy  # for the fixture to close
    assert {pair: counted.outcomes for pair, counted in board.counted().items()} == last


def test_what_processes_have_counted_adds_up_whether_they_live_or_not() -> None:
    board = Board()
    for number, lives in enumerate((True, False, False), 1):
        made = Meter.shared()
        board.add(made)
        made.exchanged((), reply(lease(1)), 0)
        settle(made, ended(1, took=3))
        assert board.counted()["mail", "send"].outcomes["done"] == number
        if not lives:
            board.retire(made)
            assert board.counted()["mail", "send"].outcomes["done"] == number
    board.crashed("mail", "send")
    assert board.counted()["mail", "send"].outcomes["crashed"] == 1


def test_the_names_of_all_processes_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "ROWS", 5)
    board = Board()
    for i in range(10):
        board.crashed("q", f"t{i}")
    before = {pair: counted.outcomes["crashed"] for pair, counted in board.counted().items()}
    assert before == {(OTHER, OTHER): 6, **{("q", f"t{i}"): 1 for i in range(4)}}


def test_the_table_has_a_place_for_every_kind_of_outcome() -> None:
    assert {meter._COLUMNS[kind] for kind in Kind} | {"retried", "cancelled"} == set(OUTCOMES)
