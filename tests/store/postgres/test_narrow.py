"""Ordinary requests change single jobs, and wait for no other job: not even while the rules' lock is taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from headrace.records import Expiry, Filter, Kind, Lane, Lease, Outcome, Report, State
from headrace.store.postgres.statements import RULES

from .scenes import Aside, Session, all_at_once, connect, jobs, outcome, wait_until, waiting

if TYPE_CHECKING:
    from headrace.store.postgres.store import PostgresStore

LARGE = b'"%s"' % (b"x" * 5_000)


@pytest.fixture
def stranger(store: PostgresStore) -> Iterator[Any]:
    with closing(connect(store)) as connection:
        yield connection


@pytest.fixture
def locked(store: PostgresStore, stranger: Any) -> Iterator[Any]:
    """Takes the rules' lock when it is called, until the test ends."""

    def lock() -> None:
        stranger.execute("BEGIN")
        stranger.execute(store.database.lock(RULES))

    yield lock
    stranger.execute("ROLLBACK")


@dataclass
class Scene:
    store: PostgresStore
    session: Session

    def run(self, operation: Any) -> Any:
        return self.store.run(operation)

    def put(self, **options: Any) -> Any:
        return self.run(self.store.put(jobs(**options)))

    def settle(self, **said: Any) -> Any:
        """Settle the job that it holds, and take the next one."""
        lease = held[self.session.id]
        given = Outcome(**{"ref": lease.ref, "token": lease.token, "id": lease.id, "kind": Kind.DONE, **said})
        (next_one,) = self.session.exchange([given], slots=1)
        return next_one

    def report(self, **said: Any) -> Any:
        lease = held[self.session.id]
        entry = Report(ref=lease.ref, token=lease.token, id=lease.id, **said)
        return self.run(self.store.report(self.session.id, 1_000, [entry]))


held: dict[str, Any] = {}


def key_of(lease: Lease) -> tuple[int, int, str]:
    return lease.ref, lease.token, lease.id


ORDINARY: dict[str, Callable[[Scene], Any]] = {
    "tags": lambda scene: scene.put(tags=("red", "blue")),
    "expires": lambda scene: scene.put(expires=Expiry(after=1_000)),
    "a unique key": lambda scene: scene.put(unique_key="k"),
    "a chosen id": lambda scene: scene.put(id="chosen", nonce="n"),
    "data": lambda scene: scene.put(data=b"{}"),
    "large arguments": lambda scene: scene.put(body=LARGE),
    "many at once": lambda scene: scene.put(count=50, tags=("red",), data=b"{}"),
    "done": lambda scene: scene.settle(),
    "retried": lambda scene: scene.settle(kind=Kind.AGAIN, delay=1_000, error=b"{}", began=0, ended=0),
    "failed": lambda scene: scene.settle(kind=Kind.FAILED, group="g", error=b"{}"),
    "released": lambda scene: scene.settle(kind=Kind.RELEASED),
    "moved": lambda scene: scene.settle(kind=Kind.MOVED, queue="next"),
    "a large result": lambda scene: scene.settle(result=LARGE),
    "progress": lambda scene: scene.report(progress=(1.0, 2.0), log=((0, "line"),)),
    "new data": lambda scene: scene.report(data=b"{}"),
    "renewed": lambda scene: scene.run(scene.store.renew(scene.session.id, [key_of(held[scene.session.id])], memory=1)),
    "opened": lambda scene: Session(scene.store),
    "tagged": lambda scene: scene.run(scene.store.tag([held[scene.session.id].id], ["red"])),
    "updated": lambda scene: scene.run(scene.store.update(held[scene.session.id].id, None, b"{}")),
    "logged": lambda scene: scene.run(scene.store.log([held[scene.session.id].id], "line")),
    "cancelled": lambda scene: scene.run(scene.store.cancel([held[scene.session.id].id])),
}


@pytest.mark.parametrize("listened", [False, True], ids=["", "with a subscriber"])
@pytest.mark.parametrize("name", ORDINARY)
def test_what_is_ordinary_does_not_wait_for_the_rules(
    store: PostgresStore, locked: Callable[[], None], name: str, listened: bool
) -> None:
    store.run(store.put(jobs(2)))
    scene = Scene(store, Session(store))
    if listened:
        store.run(store.listen())
    (held[scene.session.id],) = scene.session.take()
    locked()
    Aside(lambda: ORDINARY[name](scene)).answer()


def test_a_lane_waits_for_the_rules(store: PostgresStore, stranger: Any, locked: Callable[[], None]) -> None:
    locked()
    putting = Aside(lambda: store.run(store.put(jobs(lane=Lane("a", limit=1)))))
    wait_until(lambda: waiting(stranger) == 1)
    stranger.execute("COMMIT")
    putting.answer()


def test_a_renewal_waits_for_no_row_of_a_job(store: PostgresStore, stranger: Any) -> None:
    store.run(store.put(jobs()))
    session = Session(store)
    (lease,) = session.take()
    stranger.execute("BEGIN")
    stranger.execute("SELECT 1 FROM job FOR UPDATE")
    renewed = store.run(store.renew(session.id, [key_of(lease)], started=[lease.ref], memory=1))
    assert (renewed.lost, renewed.strays) == ([], [])
    stranger.execute("ROLLBACK")


def test_puts_that_wait_to_commit_do_not_keep_a_waiter_from_going_to_sleep(store: PostgresStore, stranger: Any) -> None:
    """The lock of puts comes last: one that is held up in between holds up no others."""
    stranger.execute("BEGIN")
    stranger.execute("SELECT lock_keys(ARRAY['k'])")
    putting = Aside(lambda: store.run(store.put(jobs(unique_key="k"))))
    wait_until(lambda: waiting(stranger) == 1)
    session = Session(store)
    waiter = store.waiter(session.id, ("default",))
    waiter.arm()
    waiter.close()
    stranger.execute("COMMIT")
    putting.answer()


@pytest.mark.parametrize("name", ["pause", "block"])
def test_a_pause_that_has_returned_holds_for_takes_under_way(store: PostgresStore, name: str) -> None:
    """A take that began before has seen no control: it is taken back, and done anew."""
    store.run(store.put(jobs(2)))
    session = Session(store)
    (lease,) = session.take()

    def work(tx: Any) -> None:
        rows = tx.rows("line", (1, 1, tx.now, 0, "default", 5))
        if not store.run(store.controls()) and not store.run(store.blocks()):
            store.run(store.pause("default") if name == "pause" else store.block("task"))
        tx.execute("take", (1, 1, tx.now, 0, tx.array([row[2] for row in rows])))

    before = store.database.repeated
    with pytest.raises(Exception, match="came meanwhile"):
        store.database.write(work, narrow=True)
    assert store.database.repeated > before
    assert session.exchange([outcome(lease, Kind.FAILED)], slots=5) == []


def test_a_key_that_another_job_has_got_meanwhile_is_seen(store: PostgresStore, stranger: Any) -> None:
    """Where the key was free when it was looked up, but is not when it is taken, the put is done anew."""
    (holder,) = jobs(unique_key="k")
    store.run(store.put([holder]))
    stranger.execute("DELETE FROM unique_key")
    stranger.execute("BEGIN")
    stranger.execute("INSERT INTO unique_key (key, job) SELECT 'k', seq FROM job WHERE id = $1", (holder.id,))
    putting = Aside(lambda: store.run(store.put(jobs(unique_key="k"))))
    wait_until(lambda: waiting(stranger) == 1)
    stranger.execute("COMMIT")
    ((put,),) = (putting.answer(),)
    assert (put.id, put.created) == (holder.id, False)


def test_jobs_in_lanes_are_left_to_the_rules(store: PostgresStore) -> None:
    """A lane that a queue got since a take began is not passed by."""
    session = Session(store)
    store.run(store.put(jobs(2)))
    (lease,) = session.take()

    def work(tx: Any) -> list[int]:
        store.run(store.put(jobs(lane=Lane("a", limit=1), priority=9)))
        return [row[2] for row in tx.rows("line", (1, 1, tx.now, 0, "default", 5))]

    assert len(store.database.write(work, narrow=True)) == 1, "the plain one"
    assert len(session.exchange([outcome(lease, Kind.FAILED)], slots=5)) == 2


# -- counts ------------------------------------------------------------------------------------------


def test_counts_are_right_before_and_after_they_are_folded(store: PostgresStore) -> None:
    store.run(store.put(jobs(3, tags=("red", "blue")) + jobs(2, tags=("red",))))
    session = Session(store)
    leases = session.take(4)
    session.exchange([outcome(lease, Kind.FAILED) for lease in leases[:2]])
    session.exchange([outcome(lease, Kind.AGAIN) for lease in leases[2:]])
    gone = store.run(store.find(Filter(states=(State.FAILED,)))).jobs[0]
    store.run(store.delete([gone.id]))
    day = gone.created // 86_400_000

    def seen() -> tuple[Any, ...]:
        statistics = store.run(store.stats("default", day))
        times = store.run(store.failure_times([""]))
        return store.run(store.tags()), statistics.failures, statistics.retries, times

    before = seen()
    blue = 3 - ("blue" in gone.tags)
    assert before[0] == [("red", 4), ("blue", blue)]
    assert before[1:3] == (2, 0)
    assert sum(before[3][0].hours.values()) == 2
    store.run(store.sweep())
    assert seen() == before
    with closing(connect(store)) as stranger:
        for table in ("tag_delta", "stat_delta", "failing_delta"):
            assert stranger.execute(f"SELECT count(*) FROM {table}").fetchall() == [(0,)], table


def test_puts_with_the_same_tags_do_not_wait_for_each_other(store: PostgresStore, stranger: Any) -> None:
    """One that is not committed has touched (red, blue); others go by, in either order."""
    stranger.execute("BEGIN")
    stranger.execute("INSERT INTO tag (job, tag) VALUES (1, 'red'), (1, 'blue')")
    all_at_once(
        [
            lambda: store.run(store.put(jobs(tags=("blue", "red")))),
            lambda: store.run(store.put(jobs(tags=("red", "blue")))),
        ]
    )
    stranger.execute("ROLLBACK")
    assert store.run(store.tags()) == [("blue", 2), ("red", 2)]


def test_counts_of_tags_are_folded_where_there_is_no_worker(
    store: PostgresStore, stranger: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.store.postgres.store.FOLDS", 1.0)
    store.run(store.put(jobs(tags=("red",))))
    assert stranger.execute("SELECT * FROM tag_delta").fetchall() == []
    assert store.run(store.tags()) == [("red", 1)]
