"""Statements have the plans that they are made for, whatever the server knows of the tables when it makes them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from headrace.records import Filter, State
from headrace.store.sql import find
from store.plans import BY_INDEX, FILL, FILL_JOBS, QUEUES, SHAPES, SORTED, WHOLE_INDEXES

from . import servers
from .scenes import Session, connect, jobs

if servers.INSTALLED:
    from headrace.store.postgres import database
    from headrace.store.postgres.database import Database, PostgresTransaction, _call
    from headrace.store.postgres.statements import READING, WRITING, translate
    from headrace.store.postgres.store import PostgresStore
    from headrace.store.postgres.wire import rows_of

if TYPE_CHECKING:
    import psycopg

    from headrace.store.sql.transaction import Transaction

WHOLE = {
    **WHOLE_INDEXES,
    "arrivals": "reads the first rows",
    "completions_forget": "goes through runs that callers have completed, which sweeps forget",
    "failures_fold": "goes through what sweeps have not folded",
    "failures_of_groups": "adds up what sweeps have not folded",
    "stat_fold": "goes through what sweeps have not folded",
    "stat_kept": "adds up what sweeps have not folded",
    "unfolded": "reads the first rows of some tables",
    "audit_trim": "reads the first entry of its index",
    "audit_age": "reads the first entry of its index, and the entries next to it",
    "next_tick": "reads the first entry of its index",
    "stat_failed": "may count the failed ones, which are bounded, if its plan is of a new table",
    "sweep_again": "changes the one row of a table",
}
SORTS = {**SORTED, "tags_most": "adds up what sweeps have not folded"}
NOT_HERE = {"line": "is for SQLite"}
OF_ITS_OWN = re.compile(r"(Function|Subquery|WorkTable|CTE) Scan|Bitmap Index Scan")
"""Scans of what a statement is given, or has made itself."""


@pytest.fixture(scope="module", params=SHAPES)
def store(request: pytest.FixtureRequest) -> Iterator[PostgresStore]:
    """In a schema of its own: others are emptied after each test."""
    store = PostgresStore(servers.with_schema(servers._url(), f"plans_{SHAPES.index(request.param)}"))
    store.run(store.counts())
    with connect(store) as connection:
        query = "SELECT relname FROM pg_stat_user_tables WHERE schemaname = $1"
        named = connection.execute(query, (store.database.schema,)).fetchall()
        for (table,) in named:
            connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)".encode())
        if request.param != "new":
            connection.execute(translate(FILL).encode())
        if request.param == "analyzed":
            for (table,) in named:
                connection.execute(f"VACUUM ANALYZE {table}".encode())
    yield store
    store.close()


@pytest.fixture
def connection(store: PostgresStore) -> Iterator[psycopg.Connection[Any]]:
    """With the settings of the store's transactions."""
    with connect(store) as connection:
        for name, value in store.database._settings(5_000).items():
            connection.execute("SELECT set_config($1, $2, false)", (name, value))
        yield connection


def plan(connection: psycopg.Connection[Any], text: str) -> list[str]:
    """The lines of the plan that a statement has for any values."""
    most = max((int(number) for number in re.findall(r"\$(\d+)", text)), default=0)
    connection.execute(f"PREPARE it AS {text}".encode())
    values = f"({', '.join(['NULL'] * most)})" if most else ""
    lines = connection.execute(f"EXPLAIN (COSTS OFF) EXECUTE it{values}".encode()).fetchall()
    connection.execute("DEALLOCATE it")
    return [line.strip().removeprefix("->  ") for (line,) in lines]


def whole(lines: list[str]) -> list[str]:
    """The steps that read all of a table or of an index."""
    return [
        step
        for step, below in zip(lines, [*lines[1:], ""], strict=True)
        if " Scan " in step and not OF_ITS_OWN.match(step) and not below.startswith("Index Cond")
    ]


def sorts(lines: list[str]) -> list[str]:
    """The steps that sort all that they get. (An incremental sort is of what an index has not told apart.)"""
    return [step for step in lines if step == "Sort"]


def test_every_statement_finds_its_rows_by_an_index(connection: psycopg.Connection[Any]) -> None:
    found = {name: plan(connection, text) for name, text in WRITING.items() if name not in NOT_HERE}
    assert {name: steps for name, lines in found.items() if name not in WHOLE and (steps := whole(lines))} == {}
    jobs = {name for name, lines in found.items() if any(" on job" in step for step in whole(lines))}
    assert jobs <= set(WHOLE_INDEXES) | {"stat_failed"}
    assert {name: lines for name, lines in found.items() if name not in SORTS and sorts(lines)} == {}


@pytest.mark.parametrize(
    ("name", "index", "condition"),
    [
        ("ended_note", "Index Only Scan Backward using edge_parent on edge", "(parent = $1)"),
        ("edges_down", "Index Scan using edge_parent on edge", "(parent = ended.parent) AND (seq > ended.seen)"),
        ("waiting", "edge_child on edge", "(child = "),
        ("waiting_besides", "edge_child on edge", "(child = "),
        ("waits_for", "edge_child on edge", "(child = $1)"),
        ("culprit_first", "edge_child on edge", "(child = $1)"),
        ("above", "edge_child on edge", "(child = "),
        ("parents_some", "relation_pkey on relation", "(job = ANY ($1))"),
        ("relations_some", "relation_pkey on relation", "(job = ANY ($1))"),
        ("followers_of", "follower_pkey on follower", "(parent = $1)"),
        ("jobs_by_id", "job_id_key on job", "(id = "),
        ("jobs_by_seq", "job_pkey on job", "(seq = ANY ($1))"),
        ("held_some", "job_pkey on job", "(seq = ANY ($1))"),
        ("unspare", "job_pkey on job", "(seq = ANY ($1))"),
        ("done", "job_pkey on job", "(seq = "),
        ("job_set", "job_pkey on job", "(seq = "),
        ("held", "job_held on job", "(session = $1)"),
        ("stopping", "job_held on job", "(session = "),
        ("ready_line", "job_ready on job", "(queue = $"),
        ("oldest", "job_ready on job", "(queue = ready_1.queue)"),
        ("oldest", "job_ready on job", "((queue = high.queue) AND (priority = (high.priority)::bigint))"),
        ("oldest", "job_ready on job", "((queue = low.queue) AND (priority = (low.priority)::bigint))"),
        ("oldest", "job_scheduled_queue on job", "((queue = scheduled.queue) AND ("),
        ("promote", "job_scheduled on job", "((due)::bigint <= $1)"),
        ("promote_queue", "job_scheduled_queue on job", "(queue = $"),
        ("expired_jobs", "job_finished on job", "(state = $1)"),
        ("laned_heads", "laned_place on laned head", "(lane = each.value)"),
        ("lanes_some", "lane_queue_key_key on lane", "(queue = "),
        ("lane_starts", "lane_start_pkey on lane_start", "(lane = "),
        ("last_lines", "history_job on history", "(job = "),
        ("schedule_due", "schedule_next on schedule", "(next <= $1)"),
        ("session_get", "session_id_key on session", "(id = $1)"),
        ("tags_of", "tag_pkey on tag", "(job = ANY ($1))"),
        ("walk", "Backward using job_pkey on job", "(seq < $1)"),
        ("walk_tag", "Backward using tag_jobs on tag", "((tag = $3) AND (job < $1))"),
        ("walk_tracked", "Backward using tracked_pkey on tracked", "(job < $1)"),
        ("walk_schedule", "recurring_schedule on recurring", "((schedule = $3) AND ((- job) > $1))"),
        ("walk_worker", "job_held on job", "(session = ANY ("),
        ("walk_failed", "Backward using job_failed on job", "(seq < $1)"),
        ("walk_group", "job_failure on job", "((failure = $3) AND ((- seq) > $1))"),
    ],
)
def test_the_important_ones(connection: psycopg.Connection[Any], name: str, index: str, condition: str) -> None:
    lines = plan(connection, WRITING[name])
    assert any(index in step and condition in below for step, below in pairwise(lines)), lines


def test_the_oldest_ready_jobs_are_found_without_reading_the_others(
    connection: psycopg.Connection[Any], request: pytest.FixtureRequest
) -> None:
    """Not all steps of a recursive query are in its plan: the server counts the pages that it reads."""
    if "new" in request.node.name:
        pytest.skip("a new table has no jobs to look through")
    lines = connection.execute(f"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) {WRITING['oldest']}".encode()).fetchall()
    read = next(line for (line,) in lines if "Buffers:" in line)  # of the whole statement
    assert sum(int(number) for number in re.findall(r"(?:hit|read)=(\d+)", read)) < 40 * QUEUES, lines


def looks(store: PostgresStore, wanted: Filter) -> list[str]:
    """The texts of what a look asks for beyond named statements."""
    seen: list[str] = []
    original = PostgresTransaction.find

    def note(tx: PostgresTransaction, clauses: str, values: tuple[Any, ...]) -> list[Any]:
        seen.append(f"{READING['snapshot']} {database._in_its_words(clauses)}")
        return original(tx, clauses, values)

    with patch.object(PostgresTransaction, "find", note):
        store.run(store.find(wanted))
    return seen


@pytest.mark.parametrize(
    "wanted",
    [
        Filter(),
        Filter(states=(State.READY,)),
        Filter(states=(State.FAILED, State.DONE), queue="q", task="t", group="g"),
        Filter(tag="common", states=(State.RUNNING,), worker="s1"),
        Filter(tag="common", schedule="schedule1", tracked=True),
        Filter(tracked=True, queue="q", group="g"),
    ],
    ids=str,
)
def test_a_look_reads_the_jobs_that_it_has_met_and_no_others(
    store: PostgresStore, connection: psycopg.Connection[Any], wanted: Filter
) -> None:
    for text in looks(store, wanted):
        lines = plan(connection, text)
        assert ("Index Scan Backward using job_pkey on job", "Index Cond: (seq = ANY ($1))") in pairwise(lines), lines
        assert not whole(lines), lines


@pytest.mark.parametrize("wanted", BY_INDEX, ids=str)
def test_a_look_in_vain_is_cut_short(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, wanted: Filter
) -> None:
    if "new" in request.node.name:
        pytest.skip("a new table has no jobs to look through")
    monkeypatch.setattr(find, "LOOKED_AT", 1_000)
    wanted, number = replace(wanted, task="none"), 0
    while True:
        page = store.run(store.find(wanted))
        assert page.jobs == []
        number += 1
        if page.cursor is None:
            break
        wanted = replace(wanted, after=page.cursor)
    assert number > 1


def counted(store: PostgresStore, work: Callable[[Transaction], Any]) -> list[str]:
    """The statements that some work runs in a transaction that reads."""
    seen: list[str] = []
    original = PostgresTransaction._run

    def note(tx: PostgresTransaction, *statements: Any, **options: Any) -> Any:
        seen.extend(text for text, _ in statements)
        return original(tx, *statements, **options)

    with patch.object(PostgresTransaction, "_run", note):
        store.database.read(work)
    return seen


def test_many_jobs_are_read_with_as_many_statements_as_few(make: Callable[..., PostgresStore]) -> None:
    store = make()
    cost = []
    for number in (2, 500):
        options = {"tags": ("a", "b"), "body": b"x" * 2_000}
        some = [job for i in range(number) for job in jobs(**options, unique_key=f"{number} {i}")]
        store.run(store.put(some))
        ids, wanted = [job.id for job in some], Filter(limit=number)
        read = counted(store, lambda tx, ids=ids: find.get(tx, ids))
        found = counted(store, lambda tx, wanted=wanted: find.find(tx, wanted))
        cost.append((len(read), len(found)))
    assert cost[0] == cost[1]


ROWS_READ = "SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_user_tables WHERE relid = $1::regclass"


@pytest.mark.parametrize("shape", SHAPES)
def test_plain_exchanges_read_the_jobs_that_they_are_about(make: Callable[..., PostgresStore], shape: str) -> None:
    """What a function runs can't be explained from outside: the server counts the rows."""
    read: list[int] = []

    def count(database: Database, *calls: tuple[str, tuple[Any, ...]]) -> list[Any]:
        """In one transaction, with how many rows were read before and after."""
        ask = ROWS_READ, (f"{database.quoted}.job",)
        texts = [(_call(database.quoted, name, len(values)), values) for name, values in calls]
        asked = [("BEGIN", ()), ask, *texts, ask, ("COMMIT", ())]
        _, before, *answers, after, _ = database.borrow(lambda wire: wire.run(asked))
        ((first,),), ((last,),) = rows_of(before), rows_of(after)
        read.append(last - first)
        return answers

    # A schema of its own: one that other tests have used may have been analyzed, and holds what they left behind.
    number, store = 20, make(f"{servers.fresh_url().rpartition('=')[0]}=rows_read")
    session = Session(store, queues=("plain",))
    session.take()
    with connect(store) as connection:
        if shape != "new":
            connection.execute(translate(FILL_JOBS).encode())
        if shape == "analyzed":
            connection.execute("VACUUM ANALYZE job")

    def count_one(database: Database, name: str, values: tuple[Any, ...]) -> Any:
        return count(database, (name, values))[0]

    with patch.object(Database, "functions", count), patch.object(Database, "function", count_one):
        store.run(store.put(jobs(number, queue="plain")))
        leases = session.take(number)
        session.settle(*leases)
    with connect(store) as connection:
        connection.execute("DROP SCHEMA rows_read CASCADE")
    assert len(leases) == number
    assert len(read) == 3
    assert max(read) <= 3 * number
