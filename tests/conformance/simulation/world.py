"""What a history is made of: the store and the model side by side, and what everybody remembers."""

from __future__ import annotations

from collections import Counter
from typing import Any

from conformance.model import Model
from headrace.errors import ConfigurationError, DependencyCycle, NoWorkers, SessionGone, StaleRequest
from headrace.records import Snapshot, State
from headrace.store.contract import Store
from headrace.store.facets import Transactional
from headrace.values.clock import ManualClock

from .actors import Request, Worker
from .audit import Audit, check
from .choosing import Chooser
from .marks import MARKS, MARKS_OF_COMPLETION, MARKS_TOGETHER
from .scene import KEEP_DONE, KEEP_FAILED, TOGETHER
from .words import Refused, comparable, in_words


class World:
    """One history."""

    def __init__(self, store: Store, clock: ManualClock, chooser: Chooser, marks: Counter[str]) -> None:
        self.store, self.clock, self.choose, self.marks = store, clock, chooser, marks
        self.model = Model(clock=clock, keep_done=KEEP_DONE, keep_failed=KEEP_FAILED)
        self.audit = Audit(store, self.model)
        self.together = store.facets >= TOGETHER
        self.transactional = isinstance(store, Transactional)
        self.words: list[str] = []
        self.story = chooser.story
        self.workers: list[Worker] = []
        self.sessions_made = self.jobs_made = 0
        self.late: list[Request] = []
        """On the way: will arrive, some time."""
        self.sent: list[Request] = []
        self.unanswered_puts: list[Request] = []
        self.ids: list[str] = []
        self.cancel_asked: set[str] = set()
        self.tokens: dict[tuple[str, int], Any] = {}
        self.settled: set[tuple[str, int, Any]] = set()
        self.completed: set[tuple[str, int, Any]] = set()
        self.updates = 0
        """How often somebody has changed the data of a job: from the first time on, runs say what they have changed."""
        self.latest = clock.now()
        """The latest the wall clock ever showed."""

    @property
    def jobs(self) -> dict[str, Snapshot]:
        """What the store has."""
        return self.audit.before

    def sometimes(self, mark: str) -> None:
        assert mark in MARKS | MARKS_TOGETHER | MARKS_OF_COMPLETION, mark
        self.marks[mark] += 1

    def say(self, words: str) -> None:
        self.words.append(words)

    def ask(self, request: Request) -> tuple[Any, Any]:
        """Run it on both; the answers must be equal, and so must be the world afterwards."""
        self.say(request.words)
        answers = []
        for side, store in enumerate((self.store, self.model)):
            try:
                answers.append(store.run(request.build(side, store)))
            except (SessionGone, StaleRequest, NoWorkers, DependencyCycle, ConfigurationError) as refusal:
                answers.append(Refused(type(refusal).__name__))
        self.words[-1] += f"  ->  {in_words(answers[0])}"
        again = request.times_run > 0
        mine, models = (comparable(answer, again) for answer in answers)
        check(mine == models, f"I19: another answer to {request.name} than the model's", mine, models)
        known = self.jobs
        self.audit.look(request, answers[0])
        self._mark_dependents(known)
        request.times_run += 1
        return answers[0], answers[1]

    def _mark_dependents(self, known: dict[str, Snapshot]) -> None:
        for job_id, job in self.jobs.items():
            if job.after and job_id in known and known[job_id].state is State.BLOCKED:
                if job.state is State.FAILED:
                    self.sometimes("a dependent failed with its parent")
                elif not job.lane and job.state in (State.READY, State.SCHEDULED, State.RUNNING):
                    self.sometimes("a dependent was released")
            if job.after and job.state is State.BLOCKED and job_id in known and known[job_id].state is State.FAILED:
                self.sometimes("a dependent came back with its parent")

    def some_ids(self) -> tuple[str, ...]:
        """Mostly of jobs that have not ended."""
        unfinished = [job.id for job in self.jobs.values() if not job.state.final]
        pool = unfinished[:6] if unfinished and self.choose.pick(4) < 3 else [*self.ids, "nobody"]
        return tuple(self.choose.one(pool) for _ in range(1 + self.choose.pick(2)))
