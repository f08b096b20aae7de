"""What is looked at after each step of a random history: the invariants, numbered as in the design."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.job import Filter, NewJob, Snapshot, State
from headrace.store.contract import Store

from .actors import Request
from .model import WAITING, Model
from .words import Refused, comparable, difference

if TYPE_CHECKING:
    from .simulation import World

EVERYTHING = Filter(limit=10_000)

MAY_BECOME = {
    State.SCHEDULED: {State.READY, State.RUNNING, State.CANCELLED},
    State.READY: {State.RUNNING, State.CANCELLED},
    State.RUNNING: {State.SCHEDULED, State.READY, State.DONE, State.FAILED, State.CANCELLED},
    State.FAILED: {State.CANCELLED, State.READY},
    State.CANCELLED: {State.READY},
    State.DONE: set(),
}


class Violation(AssertionError):
    """The store did something that it must not do."""

    world: World

    @property
    def rule(self) -> str:
        return str(self).splitlines()[0]


def check(condition: object, rule: str, *details: object) -> None:
    if not condition:
        raise Violation("\n    ".join([rule, *map(str, details)]))


class Audit:
    """Compares a store with the model, and with what it was before."""

    def __init__(self, store: Store, model: Model) -> None:
        self.store, self.model = store, model
        self.before: dict[str, Snapshot] = {}
        """The store's jobs, as they were after the last step."""
        self.bodies: dict[str, set[bytes]] = {}
        """What may be found in the jobs that have or had an id."""
        self.lives: Counter[str] = Counter()
        """How often an id was given to a job that is new."""

    def look(self, request: Request, answer: Any) -> None:
        """Compare all that can be seen, and check what must always be true."""
        rule = f"after {request.name}"
        found = self.store.run(self.store.find(EVERYTHING)).jobs
        expected = self.model.run(self.model.find(EVERYTHING)).jobs
        if found != expected:
            differences = [pair for pair in zip(found, expected, strict=False) if pair[0] != pair[1]]
            lengths = f"{len(found)} jobs, the model has {len(expected)}"
            check(False, f"I19: another state {rule} than the model's", lengths, *map(difference, differences))
        after = {job.id: job for job in found}

        counts = self.store.run(self.store.counts())
        counted = Counter((job.queue, job.state) for job in found)
        shown = {(entry.queue, state): n for entry in counts for state, n in entry.by_state.items()}
        check(shown == counted, f"I17: the counts are wrong {rule}", shown, dict(counted))
        check([entry.queue for entry in counts] == sorted({job.queue for job in found}), "I17: queues")

        sessions = [comparable(self.store.run(self.store.sessions())), comparable(self.model._sessions())]
        check(sessions[0] == sessions[1], f"I19: other sessions {rule} than the model's", *sessions)
        running = Counter(job.worker for job in found if job.state is State.RUNNING)
        for session in sessions[0]:
            check(session[2] == running[session[0].name], f"I17: jobs of {session[0].name} {rule}", session)

        for name in ("tags", "failures"):
            ranked, expected = (getattr(side, name)() for side in (self.store, self.model))
            check(self.store.run(ranked) == self.model.run(expected), f"I17: {name} are wrong {rule}")

        keys = Counter(job.unique_key for job in found if job.unique_key and not job.state.final)
        check(not keys or max(keys.values()) == 1, f"I11: two unfinished jobs have one key {rule}", keys)
        for job in found:
            check(job.crashes <= job.max_crashes, f"I8: more crashes than allowed {rule}", job)
            check(job.body in self.bodies[job.id], f"I18: not the body that was put {rule}", job)
            check(job.state.final == (job.finished is not None), f"I16: finished and not final {rule}", job)
        self._transitions(request, answer, after)
        self.before = after

    def _transitions(self, request: Request, answer: Any, after: dict[str, Snapshot]) -> None:
        rule = f"by {request.name}"
        for job_id in self.before.keys() - after.keys():
            old = self.before[job_id]
            excused = (
                (request.name == "delete" and job_id in request.about)
                or (request.name == "sweep" and old.state.final)
                or (request.name == "put" and any(makes_way(old, new) for new in request.about))
            )
            check(excused, f"I2: a job was lost {rule}", old)
        for job_id in after.keys() - self.before.keys():
            named = request.name == "put" and any(new.id == job_id for new in request.about)
            check(named, f"I2: a job came from nowhere {rule}", after[job_id])
            self.lives[job_id] += 1
        if isinstance(answer, Refused):
            check(after == self.before, f"I5: a refused {request.name} changed something", answer)
        for job_id in self.before.keys() & after.keys():
            old, new = self.before[job_id], after[job_id]
            if request.name == "put" and new != old:
                excused = any(makes_way(old, job) for job in request.about) and new.token == 0
                excused |= old.state.final and new == msgspec.structs.replace(old, unique_key=None)
                check(excused, "I2: a put changed a job that was there", old, new)
                self.lives[job_id] += 1
                continue
            check(new.token >= old.token, f"I4: the token went back {rule}", new)
            if new.state is not old.state:
                check(new.state in MAY_BECOME[old.state], f"I16: {old.state} became {new.state} {rule}", new)

    def histories(self, ids: list[str]) -> None:
        """I16: a history begins with `created`, tells the end, and has every line of the log."""
        for job in self.before.values():
            told = [event.what for event in self.store.run(self.store.history(job.id))]
            models = [event.what for event in self.model.run(self.model.history(job.id))]
            happened = [what for what in told if what != "log"]
            check(told[0] == "created" and told.count("created") == 1, "I16: history without beginning", told)
            check(told.count("log") == models.count("log"), "I16: not every log line is told", told, models)
            if job.state.final:
                check(happened[-1] == job.state.value, "I16: the end is not told", job.state, told)
        for state in State:
            found = [job.id for job in self.store.run(self.store.find(Filter(states=(state,), limit=1_000))).jobs]
            check(found == [i for i, job in self.before.items() if job.state is state], f"I3: find {state}", found)
        for wanted in (Filter(tag="x"), Filter(tracked=True), Filter(worker="w1"), Filter(task_like="t[2-9]")):
            found, expected = (side.run(side.find(wanted)).jobs for side in (self.store, self.model))
            check(found == expected, f"I3: find {wanted}", found, expected)
        missing = self.store.run(self.store.get([*ids, "nobody"]))
        check([job for job in missing if job] == [self.before[i] for i in ids if i in self.before], "I3: get")


def makes_way(old: Snapshot, new: NewJob) -> bool:
    """Whether a put may remove this job."""
    same_id = old.id == new.id and old.state.final
    return new.unique_key is not None and (
        same_id or (new.replace and old.unique_key == new.unique_key and old.state in WAITING)
    )
