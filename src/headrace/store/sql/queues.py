"""Queues: pausing them, limiting them, and names that stand for many."""

from __future__ import annotations

from headrace.store.facets import QueueControl
from headrace.store.settings import CONCURRENCY
from headrace.store.sql import events
from headrace.store.sql.transaction import EVERYONE, Transaction


def _control(queue: str, limit: int | None, by: str | None, at: int | None) -> QueueControl:
    return QueueControl(queue=queue, limit=limit, paused_by=by, paused_at=at)


def controls(tx: Transaction) -> list[QueueControl]:
    return [_control(*row) for row in tx.rows("controls")]


def control(tx: Transaction, queue: str) -> QueueControl | None:
    """What has been said about a queue."""
    return tx.maybe_row(_control, "control_get", (queue,))


def _say(tx: Transaction, queue: str, limit: int | None, by: str | None, at: int | None) -> None:
    if limit is None and at is None:
        tx.execute("control_delete", (queue,))
    else:
        tx.execute("control_set", (queue, limit, by, at))
    tx.news(queue, EVERYONE)


def pause(tx: Transaction, queue: str, by: str) -> bool:
    said = control(tx, queue)
    if said is not None and said.paused_at is not None:
        return False
    _say(tx, queue, said.limit if said else None, by, tx.now)
    return True


def resume(tx: Transaction, queue: str) -> bool:
    said = control(tx, queue)
    if said is None or said.paused_at is None:
        return False
    _say(tx, queue, said.limit, None, None)
    return True


def limit(tx: Transaction, queue: str, running: int | None) -> None:
    said = control(tx, queue)
    _say(tx, queue, running, said.paused_by if said else None, said.paused_at if said else None)
    events.has_set(tx, f"{CONCURRENCY}:{queue}", running)


def room_made(tx: Transaction) -> None:
    """Some jobs have stopped running: workers of queues with a limit may have waited for that."""
    for said in controls(tx):
        if said.limit is not None:
            tx.news(said.queue, EVERYONE)


def free(tx: Transaction, said: QueueControl | None, wanted: int) -> int:
    """How many jobs of a queue may be handed out, up to a number."""
    if said is None:
        return wanted
    if said.paused_at is not None:
        return 0
    if said.limit is None:
        return wanted
    running: int = tx.value("queue_running", (said.queue, said.limit))
    return min(wanted, max(0, said.limit - running))


LOOKED_AT = 64


def with_work(tx: Transaction) -> dict[str, int]:
    """Some queues whose jobs could be taken now, and for each a worker that should look."""
    ready = [queue for (queue,) in tx.rows("ready_queues", ("", LOOKED_AT))]
    due = [queue for (queue,) in tx.rows("due_queue", (tx.now,))]
    return {queue: 1 for queue in (*ready, *due) if free(tx, control(tx, queue), 1)}
