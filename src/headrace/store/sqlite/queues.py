"""Queues: pausing them, limiting them, and names that stand for many."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from headrace.store.facets import QueueControl
from headrace.store.sqlite.statements import SQL
from headrace.store.sqlite.step import EVERYONE, Transaction
from headrace.values.glob import is_glob, literal_part, matcher


def controls(tx: Transaction) -> list[QueueControl]:
    return [
        QueueControl(queue=queue, limit=limit, paused_by=by, paused_at=at)
        for queue, limit, by, at in tx.rows(SQL["controls"])
    ]


def control(tx: Transaction, queue: str) -> QueueControl | None:
    """What has been said about a queue."""
    for name, limit, by, at in tx.rows(SQL["control_get"], (queue,)):
        return QueueControl(queue=name, limit=limit, paused_by=by, paused_at=at)
    return None


def _say(tx: Transaction, queue: str, limit: int | None, by: str | None, at: int | None) -> None:
    if limit is None and at is None:
        tx.execute(SQL["control_delete"], (queue,))
    else:
        tx.execute(SQL["control_set"], (queue, limit, by, at))
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


def room_made(tx: Transaction) -> None:
    """Some jobs run no more: in a queue with a limit, somebody may have waited for that."""
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
    running: int = tx.rows(SQL["queue_running"], (said.queue, said.limit))[0][0]
    return min(wanted, max(0, said.limit - running))


FEW = 8
"""So many queues are asked one by one whether they have work. Of more, those that have work are looked up."""
_PAGE = 512


class Names:
    """The queues that a worker serves, sorted once, before its transactions."""

    def __init__(self, queues: Sequence[str]) -> None:
        self.given = tuple(dict.fromkeys(queues))
        self.patterns = [(place, name) for place, name in enumerate(self.given) if is_glob(name)]
        self.plain = self.given if not self.patterns else tuple(name for name in self.given if not is_glob(name))
        self.few = not self.patterns and len(self.given) <= FEW
        self._places = {} if self.few else {name: place for place, name in enumerate(self.given) if not is_glob(name)}
        self._sorted = sorted(self._places)

    def with_work(self, tx: Transaction, most: int | None = None) -> Iterable[str]:
        """In the order of a take, the queues that may have work, with those that fit in the place of a pattern.

        `most`: the first so many are enough.
        """
        if self.few:
            return self.given
        if not self._sorted and len(self.patterns) == 1:
            return islice(_fitting(tx, self.patterns[0][1]), most)
        places: dict[str, int] = {name: self._places[name] for name in self._ready(tx)}
        for place, pattern in self.patterns:
            for name in islice(_fitting(tx, pattern), most):
                places[name] = min(place, places.get(name, place))
        return sorted(places, key=lambda name: (places[name], name))[:most]

    def _ready(self, tx: Transaction) -> Iterator[str]:
        """Those of the plain names that have ready jobs.

        From name to queue and from queue to name: in as many steps as there are names, or queues with ready jobs,
        whichever are fewer.
        """
        names, at, page = self._sorted, 0, 1
        while at < len(names):
            found = [queue for (queue,) in tx.rows(SQL["ready_queues"], (names[at], page))]
            hits = [queue for queue in found if queue in self._places]
            yield from hits
            if len(found) < page:
                return
            at = bisect_right(names, found[-1])
            page = min(2 * page, _PAGE) if len(hits) == len(found) else 1


LOOKED_AT = 64


def with_work(tx: Transaction) -> dict[str, int]:
    """Some queues whose jobs could be taken now, and for each a worker that should look."""
    ready = [queue for (queue,) in tx.rows(SQL["ready_queues"], ("", LOOKED_AT))]
    due = [queue for (queue,) in tx.rows(SQL["due_queue"], (tx.now,))]
    return {queue: 1 for queue in (*ready, *due) if free(tx, control(tx, queue), 1)}


def _fitting(tx: Transaction, pattern: str) -> Iterator[str]:
    """The queues with ready jobs that fit: from index entry to index entry, however many jobs they have."""
    prefix, fit = literal_part(pattern), matcher(pattern)
    at, page = prefix, 8
    while True:
        found = tx.rows(SQL["ready_queues"], (at, page))
        for (queue,) in found:
            if not queue.startswith(prefix):
                return
            if fit(queue):
                yield queue
        if len(found) < page:
            return
        at, page = f"{found[-1][0]}\0", min(2 * page, _PAGE)
