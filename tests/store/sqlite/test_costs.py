"""What operations cost: how they find their rows, how often they commit."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from headrace.records import Definition, Filter, Kind, Outcome, Report, ScheduleRecord, State, Take
from headrace.store.contract import Operation
from headrace.store.limits import EDGES_IN_A_STEP
from headrace.store.sql import find
from headrace.store.sql.transaction import Step
from headrace.store.sqlite.database import SqliteTransaction
from headrace.store.sqlite.opening import LOG_PAGES, LOG_PAGES_OF_BATCHES, LOG_PAGES_OF_LARGE_BATCHES
from headrace.store.sqlite.statements import SQL
from headrace.store.sqlite.store import SqliteStore
from store.plans import BY_INDEX, FILL, SHAPES, SORTED, WHOLE_INDEXES
from volume import volume

from .helpers import Session, jobs


@pytest.fixture(scope="module", params=SHAPES)
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteStore]:
    """A store with many jobs of all kinds, unless it is new."""
    with closing(SqliteStore(f"sqlite:///{tmp_path_factory.mktemp('plans')}/jobs.db")) as store:

        def fill(connection: Any) -> None:
            if request.param != "new":
                connection.execute(FILL)
            if request.param == "analyzed":
                connection.execute("ANALYZE")

        store._db.write(fill)
        yield store


def plan(store: SqliteStore, name: str) -> list[str]:
    numbers = [int(number) for number in re.findall(r"\?(\d+)", SQL[name])]
    values = (1,) * max(numbers, default=0)
    return store._db.read(
        lambda connection: [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {SQL[name]}", values)]
    )


@pytest.mark.parametrize("name", sorted(set(SQL) - {"tables", "schema", "damaged"}))
def test_every_statement_finds_its_rows_by_an_index(filled: SqliteStore, name: str) -> None:
    steps = plan(filled, name)
    if name not in WHOLE_INDEXES:
        given = "VIRTUAL TABLE", "CONSTANT ROW", "SCAN first"  # a list that it is given, or the first of a line
        assert not [step for step in steps if step.startswith("SCAN") and not any(part in step for part in given)]
    if name not in SORTED:
        assert not [step for step in steps if "TEMP B-TREE" in step]


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("line", "INDEX job_ready (queue=?)"),
        ("take", "SEARCH job USING INTEGER PRIMARY KEY (rowid=?)"),
        ("promote", "COVERING INDEX job_scheduled (due<?)"),
        ("promote_queue", "INDEX job_scheduled_queue (queue=? AND <expr>=? AND due<?)"),
        ("lanes_due", "INDEX job_scheduled_queue (queue=? AND <expr>=? AND due<?)"),
        ("scheduled_queues", "INDEX job_scheduled_queue (queue>?)"),
        ("next_due", "COVERING INDEX job_scheduled"),
        ("next_tick", "COVERING INDEX schedule_next"),
        ("schedule_due", "INDEX schedule_next"),
        ("schedule_page", "(name>?)"),
        ("recurrences", "INTEGER PRIMARY KEY (rowid=?)"),
        ("ready_queues", "COVERING INDEX job_ready (queue>?)"),
        ("ready_line", "INDEX job_ready (queue=?)"),
        ("oldest", "COVERING INDEX job_ready (queue>?)"),
        ("oldest", "COVERING INDEX job_ready (queue=? AND priority<?)"),
        ("oldest", "COVERING INDEX job_ready (queue=? AND priority>?)"),
        ("oldest", "COVERING INDEX job_ready (queue=? AND priority=?)"),
        ("oldest", "INDEX job_scheduled_queue (queue>?)"),
        ("oldest", "INDEX job_scheduled_queue (queue=? AND <expr>=?)"),
        ("queue_running", "COVERING INDEX job_held (session=? AND queue=?)"),
        ("edges_down", "INDEX edge_parent (parent=? AND seq>? AND seq<?)"),
        ("ended_note", "COVERING INDEX edge_parent (parent=?)"),
        ("walk", "INTEGER PRIMARY KEY (rowid<?)"),
        ("walk_tag", "COVERING INDEX tag_jobs (tag=? AND job<?)"),
        ("walk_tracked", "INTEGER PRIMARY KEY (rowid<?)"),
        ("walk_schedule", "INDEX recurring_schedule (schedule=? AND <expr>>?)"),
        ("walk_worker", "INDEX job_held (session=?)"),
        ("walk_failed", "COVERING INDEX job_failed (seq>? AND seq<?)"),
        ("walk_group", "INDEX job_failure (failure=? AND <expr>>?)"),
        ("waiting", "COVERING INDEX edge_child (child=?)"),
        ("waiting_besides", "COVERING INDEX edge_child (child=?)"),
        ("above", "COVERING INDEX edge_child (child=?)"),
        ("laned_heads", "COVERING INDEX laned_place (lane=? AND place=?)"),
        ("lanes_some", "(queue=? AND key=?)"),
        ("lane_starts", "PRIMARY KEY (lane=? AND number>? AND number<?)"),
        ("jobs_by_id", "(id=?)"),
        ("jobs_by_seq", "INTEGER PRIMARY KEY (rowid=?)"),
        ("held_some", "INTEGER PRIMARY KEY (rowid=?)"),
        ("unspare", "INTEGER PRIMARY KEY (rowid=?)"),
        ("last_lines", "INDEX history_job (job=?)"),
        ("laned_ahead", "COVERING INDEX laned_place (lane=? AND place=? AND (rank,due)<(?,?))"),
        ("laned_due", "COVERING INDEX laned_due (due<?)"),
        ("lanes_idle", "INDEX lane_idle (forget_at<?)"),
        ("expired_jobs", "INDEX job_finished (state=? AND (finished,queue)>(?,?) AND finished<?)"),
        ("followers_of", "PRIMARY KEY (parent=?)"),
        ("held", "INDEX job_held (session=?)"),
        ("stat_derived", "INDEX job_finished (state=? AND finished>?)"),
        ("ended_lately", "COVERING INDEX job_finished (state=? AND finished>?)"),
        ("gone_lately", "PRIMARY KEY (slot>?)"),
        ("gone_add", "INTEGER PRIMARY KEY (rowid=?)"),
        ("stat_failed", "COVERING INDEX job_finished (state=? AND finished>? AND finished<?)"),
        ("stat_kept", "PRIMARY KEY (day=? AND queue=?)"),
        ("done", "INTEGER PRIMARY KEY (rowid=?)"),
        ("done_together", "SEARCH job USING INTEGER PRIMARY KEY (rowid=?)"),
        ("job_set", "INTEGER PRIMARY KEY (rowid=?)"),
        ("session_get", "(id=?)"),
    ],
)
def test_the_important_ones(filled: SqliteStore, name: str, index: str) -> None:
    assert any(index in step for step in plan(filled, name)), plan(filled, name)


def test_the_last_line_of_a_history_takes_as_many_steps_however_long_that_is(store: SqliteStore) -> None:
    line = (7, 0, "retried", "", "w", None)
    steps = []
    for number in (5, 5_000):
        store.run(Step(lambda tx, number=number: tx.change_many("remember", [line] * number)))
        steps.append(store._db.read(lambda connection: vm_steps(connection, SQL["last_lines"], ("[7]",))))
    assert steps[0] == steps[1] < 200


def vm_steps(connection: Any, statement: str, values: tuple[Any, ...]) -> int:
    """How many instructions of its virtual machine SQLite runs for a statement."""
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 1
        return False

    connection.set_progress_handler(count, 1)
    assert list(connection.execute(statement, values)) == [(7, "retried")]
    connection.set_progress_handler(None)
    return steps


@pytest.mark.parametrize(
    "wanted",
    [
        Filter(),
        Filter(states=(State.READY,)),
        Filter(states=(State.FAILED, State.DONE), queue="q", task="t", group="g"),
        Filter(tag="common", states=(State.RUNNING,), worker="s1"),
        Filter(tag="common", schedule="schedule1", tracked=True),
        Filter(task_like="t*", tracked=False),
    ],
    ids=str,
)
def test_a_look_reads_the_jobs_that_it_has_met_and_no_others(filled: SqliteStore, wanted: Filter) -> None:
    steps: list[str] = []

    def explain(connection: Any) -> None:
        def note(cursor: Any, statement: str, values: Any) -> bool:
            if statement.startswith(SQL["snapshot"]):
                explained = connection.execute(f"EXPLAIN QUERY PLAN {statement}", values)
                steps.extend(row[3] for row in explained)
            return True

        connection.exec_trace = note
        find.find(SqliteTransaction(filled._guards).begin(connection, 0, 0), wanted)
        connection.exec_trace = None

    filled._db.read(explain)
    assert {step for step in steps if " job " in f"{step} "} <= {"SEARCH job USING INTEGER PRIMARY KEY (rowid=?)"}
    assert not [step for step in steps if "TEMP B-TREE" in step]


@pytest.mark.parametrize("wanted", BY_INDEX, ids=str)
def test_a_look_in_vain_is_cut_short(
    filled: SqliteStore, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, wanted: Filter
) -> None:
    if "new" in request.node.name:
        pytest.skip("a new table has no jobs to look through")
    monkeypatch.setattr(find, "LOOKED_AT", 1_000)
    wanted, number = replace(wanted, task="none"), 0
    while True:
        page = filled.run(filled.find(wanted))
        assert page.jobs == []
        number += 1
        if page.cursor is None:
            break
        wanted = replace(wanted, after=page.cursor)
    assert number > 1


def test_commits(path: Path, store: SqliteStore) -> None:
    """One write transaction per operation that changes something, none for those that only look."""
    session = Session(store, "s")
    commits = 0

    def count(_: Any = None) -> bool:
        nonlocal commits
        commits += 1
        return False

    store._db.read(lambda connection: connection.set_commit_hook(count))

    def cost(operation: Operation[Any] | Callable[[], Any]) -> int:
        nonlocal commits
        commits = 0
        if callable(operation):
            operation()
        else:
            store.run(operation)
        return commits

    def leases() -> None:
        held.extend(session.take(50, spare=50))

    held: list[Any] = []
    assert cost(store.put(jobs(1))) == 1
    assert cost(store.put(jobs(1000))) == 1
    assert cost(store.put(jobs(10, unique_key="k"))) == 1
    assert cost(leases) == 1
    assert len(held) == 100
    reports = [Report(ref=lease.ref, token=lease.token, id=lease.id, log=[(0, "line")]) for lease in held[:10]]
    assert cost(store.report("s", 50, reports)) == 1
    assert cost(store.renew("s", [(lease.ref, lease.token, lease.id) for lease in held])) == 1
    assert cost(store.get([held[0].id])) == 0
    assert cost(store.find(Filter())) == 0
    assert cost(store.counts()) == 0
    assert cost(store.history(held[0].id)) == 0
    assert cost(store.sessions()) == 0
    assert cost(store.sweep()) == 0
    assert cost(store.cancel([held[0].id])) == 1
    assert cost(store.delete([held[1].id])) == 1
    assert cost(store.close_session("s")) == 1
    idle = Session(store, "idle")
    assert cost(store.renew("idle")) == 0, "an idle worker writes nothing"
    assert idle.id == "idle"


def test_puts_of_single_jobs_copy_the_log_a_quarter_as_often_as_batches(path: Path, store: SqliteStore) -> None:
    size = path.stat().st_size
    for job in jobs(1_500):  # each writes about two pages
        store.run(store.put([job]))
    assert LOG_PAGES_OF_BATCHES < Path(f"{path}-wal").stat().st_size // 2_072 < LOG_PAGES
    assert path.stat().st_size == size
    store.run(store.put(jobs(2)))
    assert path.stat().st_size > size


def test_the_view_of_schedules_is_for_people(store: SqliteStore) -> None:
    definition = Definition(rule="every hour UTC", task="report", body=b"{}", queue="slow", declared_by="shop:app")
    record = ScheduleRecord(name="hourly", definition=definition, next=1_700_000_000_000)
    store.run(store.put_schedule(record, None))
    rows = store._db.read(lambda connection: connection.execute("SELECT * FROM schedules").fetchall())
    assert rows == [
        ("hourly", "every hour UTC", "report", "slow", "2023-11-14 22:13:20.000", None, 0, 0, "shop:app")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("ended", "settled"),
    [
        ([0] * 10, ["done_together"]),
        ([0, 0, 0, 1, 1, 1, 2, 3, 4, 5], ["done"]),
        ([0] * 7 + [1] * 3, ["done_together", "done"]),
    ],
    ids=["in the same millisecond", "in several", "both"],
)
def test_a_plain_exchange_reads_once_more_for_all_that_is_not_plain(
    store: SqliteStore, ended: list[int], settled: list[str]
) -> None:
    """Many that ended in the same millisecond are settled as a list, few one by one: that costs less."""
    session = Session(store, "s")
    store.run(store.put(jobs(20)))
    held = session.take(10)
    begun: list[str] = []

    def note(_: Any, statement: str, __: Any) -> bool:
        begun.append(statement)
        return True

    def trace(connection: Any, tracer: Any) -> None:
        connection.exec_trace = tracer

    store._db.read(lambda connection: trace(connection, note))
    outcomes = [
        Outcome(ref=x.ref, token=x.token, id=x.id, kind=Kind.DONE, ended=at) for x, at in zip(held, ended, strict=True)
    ]
    session.exchange(outcomes, Take(("default",), 10))
    store._db.read(lambda connection: trace(connection, None))
    names = {text: name for name, text in SQL.items()}
    ran = dict.fromkeys(names[text] for text in begun if text in names)
    assert list(ran) == ["session_get", *settled, "special", "line", "take", "session_answer"]


def test_no_step_releases_more_than_some_of_many_dependents(store: SqliteStore) -> None:
    children = volume(5_000)
    session = Session(store, "s")
    (parent,) = jobs(1)
    store.run(store.put([parent]))
    for start in range(0, children, 5_000):
        store.run(store.put(jobs(min(5_000, children - start), after=(parent.id,))))
    (lease,) = session.take(1)

    def changes() -> int:
        return store._db.read(lambda connection: int(connection.total_changes()))

    before, steps = changes(), 0
    turn = session.settle(lease)
    while True:
        now, steps = changes(), steps + 1
        assert now - before <= 3 * EDGES_IN_A_STEP + 10  # an edge, a job, what it waited for; the exchange itself
        if turn.next_due is None:
            break
        before, turn = now, session.exchange()
    assert steps == children // EDGES_IN_A_STEP
    (counts,) = store.run(store.counts())
    assert counts.by_state == {State.READY: children, State.DONE: 1}


@pytest.mark.parametrize(
    ("number", "size", "most"), [(3_000, 2_000, LOG_PAGES_OF_LARGE_BATCHES), (9_000, 100, LOG_PAGES_OF_BATCHES)]
)
def test_large_bodies_have_the_log_copied_twice_as_often(
    path: Path, store: SqliteStore, number: int, size: int, most: int
) -> None:
    """All of their pages are copied while others wait: the log has no more of them than one step adds."""
    store.run(store.put(jobs(number, body=b"x" * size)))
    assert most < Path(f"{path}-wal").stat().st_size // 2_072 < most + 700
