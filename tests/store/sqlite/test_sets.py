"""A rule loads all that a batch touches, decides, and writes: it takes as many statements for 100 jobs as for 10."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from headrace.records import Expiry, IfFailed, Kind, Lane, NewJob, Outcome, Report, Take
from headrace.store.facets import Edit
from headrace.store.sql import batches
from headrace.store.sqlite.store import SqliteStore

from .conftest import OpenStore
from .counting import counted
from .helpers import Session

_numbers = count()
SIZES = 10, 100


def batch(size: int, **options: Callable[[int], Any]) -> list[NewJob]:
    """Jobs with options that depend on their numbers."""
    first = next(_numbers)
    return [
        NewJob(id=f"{first} {i}", task="t", **{"body": b"{}", **{name: value(i) for name, value in options.items()}})
        for i in range(size)
    ]


KINDS: dict[str, dict[str, Callable[[int], Any]]] = {
    "lanes": {"lane": lambda i: Lane(f"lane {i}", limit=1)},
    "one lane": {"lane": lambda i: Lane("lane", limit=1)},
    "a rate": {"lane": lambda i: Lane("rate", rate=1_000, per=60_000)},
    "a sequence": {"lane": lambda i: Lane("sequence", sequence=True)},
    "unique keys": {"unique_key": lambda i: f"{next(_numbers)}"},
    "tags": {"tags": lambda i: ("red", f"tag {i}")},
    "large bodies": {"body": lambda i: b"x" * 1_500},
    "parents": {"after": lambda i: ("parent", f"parent {i}")},
    "failed parents": {"after": lambda i: ("failed",)},
    "expiry": {"expires": lambda i: Expiry(after=60_000)},
    "all of it": {
        "lane": lambda i: Lane(f"mixed {i % 2}", limit=1),
        "unique_key": lambda i: f"{next(_numbers)}" if i % 2 else None,
        "tags": lambda i: ("red",) if i % 3 else (),
        "after": lambda i: (f"parent {i}",) if i % 4 == 3 else (),
        "if_failed": lambda i: IfFailed.WAIT if i % 8 == 7 else IfFailed.FAIL,
    },
}


class Scene:
    """A store, a worker, and how many statements the acts of a test have taken."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.session = Session(store)
        self.taken: dict[str, list[str]] = {}
        store.run(store.put([NewJob(id="parent", task="t", body=b"", queue="other")]))
        store.run(store.put([NewJob(id=f"parent {i}", task="t", body=b"", queue="other") for i in range(max(SIZES))]))
        store.run(store.put([NewJob(id="failed", task="t", body=b"", queue="failing")]))
        (lease,) = self.session.exchange(take=Take(("failing",), 1)).leases
        self.session.exchange([outcome(lease, Kind.FAILED)])

    def act(self, name: str, work: Callable[[], Any]) -> Any:
        with counted(self.store) as seen:
            answer = work()
        self.taken[name] = seen.statements
        return answer

    def take(self, most: int) -> list[Any]:
        return list(self.session.exchange(take=Take(("default",), most)).leases)


def outcome(lease: Any, kind: Kind, **fields: Any) -> Outcome:
    return Outcome(ref=lease.ref, token=lease.token, id=lease.id, kind=kind, **fields)


def assert_same(few: Scene, many: Scene) -> None:
    for act, statements in few.taken.items():
        more = Counter(many.taken[act]) - Counter(statements)
        assert not more, f"{act}: {dict(more)} more for {SIZES[1]} jobs than for {SIZES[0]}"


def life(scene: Scene, size: int, options: dict[str, Callable[[int], Any]]) -> None:
    store = scene.store
    jobs = batch(size, **options)
    ids = [job.id for job in jobs]
    scene.act("put", lambda: store.run(store.put(jobs)))
    scene.act("edit the priority", lambda: store.run(store.edit(ids, Edit(priority=1))))
    scene.act("edit the arguments", lambda: store.run(store.edit(ids, Edit(body=b"{}", data=b"1"))))
    leases = scene.act("take", lambda: scene.take(size))
    held = [(lease.ref, lease.token, lease.id) for lease in leases]
    reports = [Report(ref=r, token=t, id=i, progress=(1, 2), log=((0, "x"),)) for r, t, i in held]
    number = next(scene.session._numbers)
    scene.act("report", lambda: store.run(store.report(scene.session.id, number, reports)))
    scene.act("log", lambda: store.run(store.log(ids, "x")))
    for job_id in ids:
        store.run(store.update(job_id, b"1", b"2"))
    scene.act("renew", lambda: store.run(store.renew(scene.session.id, held, started=[ref for ref, _, _ in held])))
    changes = [Report(ref=r, token=t, id=i, data=b"3", base=b"2") for r, t, i in held]
    number = next(scene.session._numbers)
    scene.act("report changes", lambda: store.run(store.report(scene.session.id, number, changes)))
    again = [outcome(lease, Kind.AGAIN, data=b"4", base=b"3", began=1, ended=2) for lease in leases]
    scene.act("retry", lambda: scene.session.exchange(again))
    leases = scene.take(size)
    scene.act("fail", lambda: scene.session.exchange([outcome(lease, Kind.FAILED, began=1) for lease in leases]))
    scene.act("revive", lambda: store.run(store.revive(ids)))
    scene.act("block", lambda: store.run(store.block("t")))
    scene.act("take of a blocked task", lambda: scene.take(size))
    scene.act("unblock", lambda: store.run(store.unblock("t")))
    leases = scene.take(size)
    scene.act("take back", lambda: store.run(store.take_back([lease.id for lease in leases])))
    leases = scene.take(size)
    scene.act("settle", lambda: scene.session.exchange([outcome(lease, Kind.DONE, result=b"1") for lease in leases]))
    scene.act("cancel", lambda: store.run(store.cancel(ids)))
    scene.act("tag", lambda: store.run(store.tag(ids, ["blue"], ["red"])))
    scene.act("log of ended jobs", lambda: store.run(store.log(ids, "x")))
    scene.act("track", lambda: store.run(store.track(ids)))
    scene.act("delete", lambda: store.run(store.delete(ids)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_takes_as_many_statements_as_a_smaller_one(
    open_store: OpenStore, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "AT_ONCE", 100_000)
    few, many = (Scene(open_store(file=tmp_path / name)) for name in ("few.db", "many.db"))
    for scene, size in zip((few, many), SIZES, strict=True):
        life(scene, size, KINDS[kind])
    assert_same(few, many)
