"""Plain jobs take one round trip, and no lock of the rules."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from headrace.errors import ConfigurationError, SessionGone
from headrace.records import Kind, Lane, Outcome, State, Verdict
from headrace.store.postgres.statements import RULES
from headrace.store.postgres.wire import Statement, Wire

from .scenes import Aside, Session, connect, jobs, wait_until, waiting

if TYPE_CHECKING:
    from headrace.store.postgres.store import PostgresStore


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The round trips: the statements of each, one per line."""
    found: list[str] = []
    run = Wire.run

    def counted(self: Wire, statements: Sequence[Statement], **options: Any) -> Any:
        found.append("\n".join(text for text, _ in statements))
        return run(self, statements, **options)

    monkeypatch.setattr(Wire, "run", counted)
    return found


def rows_read(store: PostgresStore, stranger: psycopg.Connection[Any], table: str) -> int:
    """How many rows of a table the store's connection has read so far."""
    store.database.borrow(lambda wire: wire.query("SELECT pg_stat_force_next_flush()"))
    read = "SELECT (idx_tup_fetch + seq_tup_read)::bigint FROM pg_stat_user_tables WHERE relid = $1::regclass"
    ((rows,),) = stranger.execute(read, (table,)).fetchall()
    return int(rows)


def test_a_put_is_one_round_trip(store: PostgresStore, sent: list[str]) -> None:
    store.run(store.put(jobs()))
    store.run(store.put(jobs(1_000)))
    assert ["put_one" in sent[0], "put_plain" in sent[1], len(sent)] == [True, True, 2]


@pytest.mark.parametrize("size", [1, 100])
def test_settle_and_take_is_one_round_trip(store: PostgresStore, sent: list[str], size: int) -> None:
    store.run(store.put(jobs(2 * size)))
    session = Session(store)
    leases = session.take(size)
    sent.clear()
    assert len(session.settle(*leases, slots=size)) == size
    assert len(sent) == 1


def test_plain_jobs_do_not_wait_for_the_rules(store: PostgresStore) -> None:
    session = Session(store)
    with closing(connect(store)) as stranger:
        stranger.execute("BEGIN")
        stranger.execute(store.database.lock(RULES))
        store.run(store.put(jobs(3)))
        store.run(store.put(jobs(1, delay=3_600_000)))
        leases = session.take(2)
        assert len(session.settle(*leases, slots=5)) == 1
        stranger.execute("ROLLBACK")


@pytest.mark.parametrize("kind", [Kind.DONE, Kind.FAILED], ids=["plain", "by the rules"])
def test_a_session_that_is_closed_meanwhile_settles_and_takes_nothing(store: PostgresStore, kind: Kind) -> None:
    """It was open when the exchange read it, and is closed when the exchange gets its row."""
    store.run(store.put(jobs(3)))
    session = Session(store)
    (lease,) = session.take()
    with closing(connect(store)) as stranger:
        stranger.execute("BEGIN")
        stranger.execute("UPDATE session SET closed = 1 WHERE id = $1", (session.id,))
        exchanging = Aside(lambda: session.settle(lease, kind=kind, slots=2))
        wait_until(lambda: waiting(stranger) == 1)
        stranger.execute("COMMIT")
        with pytest.raises(SessionGone):
            exchanging.answer()
    (found,) = store.run(store.get([lease.id]))
    assert found is not None
    assert (found.state, found.token) == (State.RUNNING, 1)
    assert len(Session(store).take(5)) == 2


def test_a_take_reads_few_of_many_jobs_in_a_table_that_was_never_analyzed(store: PostgresStore) -> None:
    """The planner then expects few jobs in the queue, and finds it cheaper to read and sort them all."""
    store.run(store.put(jobs(300)))
    session = Session(store)
    with closing(connect(store)) as stranger:
        stranger.execute("UPDATE pg_class SET relpages = 1, reltuples = 1e5 WHERE oid = 'job'::regclass")
        before = rows_read(store, stranger, "job")
        assert len(session.take(1)) == 1
        assert rows_read(store, stranger, "job") - before < 100


def test_an_idle_exchange_writes_nothing(store: PostgresStore) -> None:
    session = Session(store)
    with closing(connect(store)) as stranger:
        row = "SELECT xmin::text, number FROM session"
        before = stranger.execute(row).fetchall()
        for _ in range(3):
            assert session.take() == []
        assert stranger.execute(row).fetchall() == before
    store.run(store.put(jobs()))
    assert len(session.take()) == 1


def test_a_lane_elsewhere_is_no_reason_for_the_rules(store: PostgresStore, sent: list[str]) -> None:
    store.run(store.put(jobs(1, queue="lanes", lane=Lane("a", limit=1))))
    store.run(store.put(jobs(2)))
    session = Session(store)
    sent.clear()
    assert len(session.take(2)) == 2
    assert len(sent) == 1


@pytest.mark.parametrize(("in_each", "most"), [(1, 2), (3, 3)])
def test_an_exchange_in_lanes_takes_as_many_round_trips_for_many_jobs_as_for_few(
    store: PostgresStore, sent: list[str], in_each: int, most: int
) -> None:
    """If so many are taken of each lane, more may follow than are read with the line: that is one more."""
    round_trips = []
    for size in (6, 30):
        queue = f"{size} jobs"
        for number in range(size // in_each):
            store.run(store.put(jobs(4 * in_each, queue=queue, lane=Lane(f"lane {number}", limit=size))))
        session = Session(store, queues=(queue,))
        leases = session.take(size)
        sent.clear()
        assert len(session.settle(*leases, slots=size)) == size
        round_trips.append(len(sent))
    assert round_trips == [most, most]


def test_a_settle_looks_up_the_lanes_of_its_jobs_and_no_others(store: PostgresStore) -> None:
    each = [job for number in range(1_000) for job in jobs(1, lane=Lane(f"lane {number:03}", limit=1))]
    store.run(store.put(each))
    session = Session(store)
    *_, last = session.take(60)
    with closing(connect(store)) as stranger:
        for table in "lane", "laned", "job":  # which autovacuum does; where it has seen few lanes it begins with these
            stranger.execute(f"ANALYZE {table}")
        before = rows_read(store, stranger, "lane")
        session.settle(last)
        assert rows_read(store, stranger, "lane") - before < 10


def test_an_exchange_wakes_no_one_unless_there_is_a_sleeper(store: PostgresStore, sent: list[str]) -> None:
    """A worker that is full is armed as well, as jobs of it may be to stop."""
    store.run(store.put(jobs(9, lane=Lane("a", limit=9))))
    session, other = Session(store), Session(store)
    with closing(store.waiter(session.id, ["default"])) as full, closing(store.waiter(other.id, ["default"])) as free:
        leases = session.take(2)
        full.arm()
        assert not full.wait(0.01)
        leases = session.settle(*leases, slots=2)
        assert not any("SELECT wake(" in statements for statements in sent)
        free.arm()
        session.settle(*leases, slots=2)
        assert free.wait(20)


def test_exchanges_in_lanes_are_left_to_the_rules_without_an_attempt(store: PostgresStore, sent: list[str]) -> None:
    store.run(store.put(jobs(9, lane=Lane("a", limit=1))))
    session = Session(store)
    leases = session.take(1)
    sent.clear()
    for _ in range(8):
        leases = session.settle(*leases, slots=1)
    assert len(leases) == 1
    assert sum("exchange_plain" in statements for statements in sent) == 1


@pytest.mark.parametrize("names", [{"task": "a\0b"}, {"queue": "a\0b"}, {"tags": ("a\0b",)}, {"unique_key": "a\0b"}])
def test_names_with_a_nul_are_refused(store: PostgresStore, names: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"PostgreSQL keeps no NUL characters: 'a\\x00b' has one"):
        store.put(jobs(1, **names))
    assert store.run(store.counts()) == []


def test_words_of_a_failure_may_have_a_nul(store: PostgresStore) -> None:
    store.run(store.put(jobs()))
    session = Session(store)
    (lease,) = session.take(1)
    failed = Outcome(ref=lease.ref, token=lease.token, id=lease.id, kind=Kind.FAILED, group="a\0b", note="c\0d")
    assert store.run(store.exchange(session.id, 2, [failed])).verdicts == [Verdict.OK]
    (job,) = store.run(store.get([lease.id]))
    assert job is not None
    assert job.group == "a\ufffdb"
