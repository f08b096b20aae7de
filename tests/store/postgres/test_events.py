"""Numbers of events are in the order of commits, and none is missed by a subscriber that comes in between."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from headrace.records import Filter
from headrace.store.postgres.statements import PUTS

from .scenes import Aside, connect, jobs, wait_until, waiting

if TYPE_CHECKING:
    from headrace.store.postgres.store import PostgresStore


def read(store: PostgresStore, cursor: str) -> tuple[list[str], str, bool]:
    batch = store.run(store.events(cursor))
    return [event.job for event in batch.events], batch.cursor, batch.missed


def test_a_put_that_is_not_committed_is_waited_for_by_a_new_subscriber(store: PostgresStore) -> None:
    """What commits after `listen` has answered is told: so that answer waits for plain puts under way."""
    with closing(connect(store)) as stranger:
        stranger.execute("BEGIN")
        stranger.execute(store.database.lock(PUTS, shared=True))  # as a put that saw no subscriber
        listening = Aside(lambda: store.run(store.listen()))
        wait_until(lambda: waiting(stranger) == 1)
        assert not listening.done
        stranger.execute("COMMIT")
        cursor = listening.answer()
    (job,) = jobs()
    store.run(store.put([job]))
    assert read(store, cursor)[0] == [job.id]


def test_the_order_of_numbers_is_that_of_commits(store: PostgresStore) -> None:
    """Two writers begin, and the one that waits for the counter is numbered after the one that has it."""
    cursor = store.run(store.listen())
    (first,), (late,), (early,) = jobs(), jobs(), jobs()
    store.run(store.put([first]))
    with closing(connect(store)) as stranger:
        stranger.execute("BEGIN")
        stranger.execute("UPDATE event_counter SET newest = newest + 1")
        putting = Aside(lambda: store.run(store.put([late])))  # has begun
        wait_until(lambda: waiting(stranger) == 1)
        stranger.execute(
            "INSERT INTO event (seq, at, what, job, task, queue, worker, detail, tracked) "
            "SELECT newest, 0, 'created', $1, 'task', 'default', '', '', 0 FROM event_counter",
            (early.id,),
        )
        assert read(store, cursor)[0] == [first.id], "neither is committed"
        stranger.execute("COMMIT")
        putting.answer()
    found, after, missed = read(store, cursor)
    assert (found, missed) == ([first.id, early.id, late.id], False)
    assert read(store, after) == ([], after, False)


def test_a_transaction_that_is_rolled_back_leaves_no_gap(store: PostgresStore) -> None:
    cursor = store.run(store.listen())

    def work(tx: Any) -> None:
        tx.change_many("event_put", [(0, "created", "never", "task", "default", "", "", 0)])
        raise LookupError

    with pytest.raises(LookupError):
        store.database.write(work)
    (job,) = jobs()
    store.run(store.put([job]))
    found, _, missed = read(store, cursor)
    assert (found, missed) == ([job.id], False)


def test_what_commits_late_is_skipped_neither_by_pages_nor_by_subscribers(store: PostgresStore) -> None:
    """Jobs with the lower numbers are committed after the others have been read."""
    (late,), (early,), (tagged,), (other,) = jobs(), jobs(), jobs(tags=("red",)), jobs()
    with closing(connect(store)) as caller:
        caller.execute("BEGIN")
        store.run(store.put_within(caller, [late]))
        store.run(store.put([early]))
        assert [job.id for job in store.run(store.find(Filter())).jobs] == [early.id]
        cursor = store.run(store.listen())
        store.run(store.put_within(caller, [tagged]))
        store.run(store.put([other]))
        found, cursor, _ = read(store, cursor)
        assert found == [other.id]
        caller.execute("COMMIT")
    everything = {job.id for job in store.run(store.find(Filter())).jobs}
    assert everything == {late.id, early.id, tagged.id, other.id}
    assert read(store, cursor)[0] == [tagged.id]
