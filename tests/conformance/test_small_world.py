"""All that can happen to two jobs and two workers, in every order, up to a number of acts.

Breadth first: every state reached is left by every act, on the store and on the model; answers and states must
be equal. States that look the same are left once only: nothing new can follow from the second.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import SessionGone, StaleRequest
from headrace.records import Charge, Kind, Lease, NewJob, Outcome, SessionInfo, Take
from headrace.store.contract import Store
from headrace.values.clock import ManualClock
from volume import volume

from .model import Model
from .simulation.words import Refused, comparable
from .stores import Entry

TIMEOUT = 1_000
Act = tuple[str, int]
TIME_OUT, SWEEP, CANCEL = ("time-out", 0), ("sweep", 0), ("cancel", 0)
ACTS: list[Act] = [
    *product(("take", "done", "again", "renew", "crash", "repeat", "late"), (0, 1)),
    TIME_OUT,
    SWEEP,
    CANCEL,
]


class SmallWorld:
    """Two jobs in a queue, two sessions, and what the workers remember."""

    def __init__(self, store: Store, name: str) -> None:
        self.store, self.queue = store, name
        self.ids = [f"{name} a", f"{name} b"]
        self.sessions = [f"{name} 0", f"{name} 1"]
        self.numbers = [0, 0]
        self.held: list[list[Lease]] = [[], []]
        self.sent: list[list[Callable[[], Any]]] = [[], []]
        store.run(store.put([NewJob(id=job_id, task="t", body=b"", queue=name, max_crashes=2) for job_id in self.ids]))
        for session in self.sessions:
            store.run(store.open(SessionInfo(id=session, name=session, timeout=TIMEOUT)))

    def act(self, act: Act) -> Any:
        """Do it; answers with what the store says."""
        operation = self.describe(act)
        if operation is None:
            return None
        try:
            answer = self.store.run(operation)
        except (SessionGone, StaleRequest) as refusal:
            return Refused(type(refusal).__name__)
        if act[0] == "take":
            held = self.held[act[1]]
            held[:] = [*answer.leases, *held][:2]
        return comparable(answer)

    def describe(self, act: Act) -> Any:
        if act == SWEEP:
            return self.store.sweep()
        if act == CANCEL:
            return self.store.cancel(self.ids[:1])
        what, worker = act
        session, sent, held = self.sessions[worker], self.sent[worker], self.held[worker]
        if what == "renew":
            return self.store.renew(session, [(lease.ref, lease.token, lease.id) for lease in held])
        if what == "crash":
            return self.store.close_session(session, crashed=None)
        if what in ("repeat", "late"):  # the last request again, or the one before it
            back = 1 if what == "repeat" else 2
            return sent[-back]() if len(sent) >= back else None
        self.numbers[worker] += 1
        number, outcomes = self.numbers[worker], []
        if what != "take" and held:
            lease = held[0]  # which stays: a worker may settle twice
            kind, charge = (Kind.DONE, Charge.NOTHING) if what == "done" else (Kind.AGAIN, Charge.ATTEMPT)
            outcomes = [Outcome(ref=lease.ref, token=lease.token, id=lease.id, kind=kind, charge=charge)]
        take = Take((self.queue,), 1) if what == "take" else None
        sent.append(lambda: self.store.exchange(session, number, outcomes, take))
        return sent[-1]()

    def visible(self) -> Any:
        return self.store.run(self.store.get(self.ids)), comparable(self.store.run(self.store.sessions()))

    def clean_up(self) -> None:
        self.store.run(self.store.delete(self.ids))
        for session in self.sessions:
            self.store.run(self.store.close_session(session))


def digest(world: SmallWorld, model: Model) -> str:
    """Tells states apart (the model's), but not by how long ago things were."""
    now, steady = model.clock.now(), model.clock.steady()
    jobs = [
        (job.state, job.token, job.attempts, job.crashes, job.cancelling, job.session, job.handed_out, job.due - now)
        for job in model.jobs.values()
    ]
    sessions = [
        (session.closed, session.number, session.answer, min(steady - session.seen, TIMEOUT))
        for session in model.known_sessions.values()
    ]
    held = [[(lease.id, lease.token) for lease in leases] for leases in world.held]
    return repr((jobs, sessions, held)).replace(world.queue, "")


def play(store: Store, clock: ManualClock, acts: tuple[Act, ...], name: str) -> str:
    """Do this on the store and on the model; they must agree. Answers with the digest of where it led."""
    model = Model(clock=clock)
    world, expected = SmallWorld(store, name), SmallWorld(model, name)
    for act in acts:
        if act == TIME_OUT:
            clock.advance(TIMEOUT)
        else:
            assert world.act(act) == expected.act(act), acts
    assert world.visible() == expected.visible(), acts
    world.clean_up()
    return digest(expected, model)


def test_every_order_of_events_in_a_small_world(entry: Entry, tmp_path: Path, clock: ManualClock) -> None:
    store = entry(tmp_path, clock)
    depth = max(2, entry.depth - (volume(10) < 10)) + (volume(1) >= 10)
    paths: list[tuple[Act, ...]] = [()]
    seen: set[str] = set()
    played = 0
    for _ in range(depth):
        following = []
        for path, act in product(paths, ACTS):
            played += 1
            where = play(store, clock, (*path, act), f"world {played}")
            if where not in seen:
                seen.add(where)
                following.append((*path, act))
        paths = following
    store.close()
    assert len(seen) > 4**depth, "the world has become too small"


def test_a_difference_would_be_noticed(clock: ManualClock) -> None:
    class NoReplyCache(Model):
        def _is_repeat(self, session: Any, number: int) -> bool:
            super()._is_repeat(session, number)
            return False

    with pytest.raises(AssertionError):
        play(NoReplyCache(clock=clock), clock, (("take", 0), ("repeat", 0)), "world")
