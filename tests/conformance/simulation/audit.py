"""What is looked at after each step of a random history: the invariants, numbered as in the design."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from conformance.model import Model
from conformance.model.records import WAITING
from headrace.records import Filter, Kind, NewJob, Snapshot, State
from headrace.store.contract import Facet, Store
from headrace.store.limits import start_within

from .actors import Request
from .words import Refused, comparable, difference

if TYPE_CHECKING:
    from .world import World

EVERYTHING = Filter(limit=10_000)

MAY_BECOME: dict[State, set[State]] = {
    State.SCHEDULED: {State.READY, State.RUNNING, State.FAILED, State.CANCELLED},
    State.READY: {State.RUNNING, State.FAILED, State.CANCELLED},
    State.RUNNING: {State.SCHEDULED, State.READY, State.DONE, State.FAILED, State.CANCELLED},
    State.FAILED: {State.CANCELLED, State.READY},
    State.CANCELLED: {State.READY},
    State.DONE: set(),
}
TIED_MAY_BECOME: dict[State, set[State]] = {
    State.SCHEDULED: {State.READY, State.RUNNING, State.CANCELLED, State.BLOCKED, State.FAILED},
    State.READY: {State.RUNNING, State.CANCELLED, State.BLOCKED, State.SCHEDULED, State.FAILED},
    State.RUNNING: set(State) - {State.RUNNING},
    State.BLOCKED: {State.READY, State.SCHEDULED, State.RUNNING, State.CANCELLED, State.FAILED},
    State.FAILED: {State.CANCELLED, State.READY, State.BLOCKED, State.SCHEDULED},
    State.CANCELLED: {State.READY, State.BLOCKED, State.SCHEDULED},
    State.DONE: set(),
}
"""What jobs may become that come after others or are in a lane, or that somebody changes."""
ALWAYS_THE_SAME = frozenset({"fair", "one", "order", "slow", "two", "strict", "slow order"})
"""Keys of lanes that are always put to the same use."""


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
        self.together = Facet.LANES in store.facets
        self.starts: dict[tuple[str, str], list[int]] = {}
        """Of each lane, on the store's clock, since that was last set back."""
        self.now = 0
        self.barred: set[str] = set()
        """The jobs that the model kept back after the last step, because their task was blocked."""
        self.cursors = [side.run(side.listen()) for side in (store, model)] if Facet.EVENTS in store.facets else []

    def look(self, request: Request, answer: Any) -> None:
        """Compare all that can be seen, and check what must always be true."""
        rule = f"after {request.name}"
        found = self.store.run(self.store.find(EVERYTHING)).jobs
        expected = self.model.run(self.model.find(EVERYTHING)).jobs
        if list(map(blurred, found)) != list(map(blurred, expected)):
            differences = [pair for pair in zip(found, expected, strict=False) if pair[0] != pair[1]]
            lengths = f"{len(found)} jobs, the model has {len(expected)}"
            check(False, f"I19: another state {rule} than the model's", lengths, *map(difference, differences))
        after = {job.id: job for job in found}

        counts = self.store.run(self.store.counts())
        counted = Counter((job.queue, job.state) for job in found)
        shown = {(entry.queue, state): n for entry in counts for state, n in entry.by_state.items()}
        check(shown == counted, f"I17: the counts are wrong {rule}", shown, dict(counted))
        check([entry.queue for entry in counts] == sorted({job.queue for job in found}), "I17: queues")

        oldest = [self.store.run(self.store.oldest()), self.model._oldest()]
        check(oldest[0].due == oldest[1].due, f"I19: other oldest jobs {rule} than the model's", *oldest)

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
        if self.together:
            self._ties(rule, after)
            self._queues(rule, after)
            self._lanes(request, rule, after)
            self.barred = {job.id for job in self.model.jobs.values() if job.barred}
        self.before = after
        self.events(rule)

    def events(self, rule: str) -> None:
        """I19: those who listen are told the same, job by job, in order. (To be asked at least every minute.)"""
        if not self.cursors:
            return
        batches = [
            side.run(side.events(cursor)) for side, cursor in zip((self.store, self.model), self.cursors, strict=True)
        ]
        self.cursors = [batch.cursor for batch in batches]
        mine, models = (sorted(batch.events, key=lambda event: event.job) for batch in batches)
        check(mine == models, f"I19: other events {rule} than the model's", *mine, "and not", *models)

    def _ties(self, rule: str, after: dict[str, Snapshot]) -> None:
        """I20: whoever is blocked has a reason, and can tell it."""
        blocked = [job.id for job in after.values() if job.state is State.BLOCKED]
        for job_id in blocked[:1] + blocked[1:][-1:]:
            why, models = (side.run(side.circumstances(job_id)) for side in (self.store, self.model))
            check(why.unmet or why.ahead is not None or why.block, f"I20: blocked for no reason {rule}", why)
            check(why == models, f"I19: other circumstances {rule} than the model's", why, models)

    def _began(self, after: dict[str, Snapshot]) -> list[Snapshot]:
        """What was handed out in this step."""
        running = [job for job in after.values() if job.state is State.RUNNING]
        return [job for job in running if job.id not in self.before or self.before[job.id].token != job.token]

    def _queues(self, rule: str, after: dict[str, Snapshot]) -> None:
        """I21: nothing is handed out from a queue that is paused, or has reached its limit; nor of a blocked task."""
        controls, models = (side.run(side.controls()) for side in (self.store, self.model))
        check(controls == models, f"I19: queues are controlled otherwise {rule} than in the model", controls, models)
        began = Counter(job.queue for job in self._began(after))
        running = Counter(job.queue for job in after.values() if job.state is State.RUNNING)
        blocks, models = (side.run(side.blocks()) for side in (self.store, self.model))
        check(blocks == models, f"I19: other tasks are blocked {rule} than in the model", blocks, models)
        handed_out = {job.task for job in self._began(after)}
        check(
            handed_out.isdisjoint(block.task for block in blocks), f"I21: handed out of a blocked task {rule}", blocks
        )
        for control in controls:
            if began[control.queue]:
                check(control.paused_at is None, f"I21: handed out from a paused queue {rule}", control)
                check(
                    control.limit is None or running[control.queue] <= control.limit,
                    f"I21: more run than a queue's limit {rule}",
                    control,
                )

    def _lanes(self, request: Request, rule: str, after: dict[str, Snapshot]) -> None:
        """I22: limits, rates and sequences hold at every moment."""
        now = self.model.clock.now()
        if now < self.now:  # who was allowed to start by then is not asked again
            self.starts.clear()
        self.now = now
        for job in self._given_back_unstarted(request, after):
            starts = self.starts.get((job.queue, job.lane.key if job.lane else ""), [])
            if job.started in starts:
                starts.remove(job.started)
        for job in self._began(after):
            if job.lane:
                self.starts.setdefault((job.queue, job.lane.key), []).append(now)
        for key, jobs in members(after).items():
            lane = jobs[0].lane
            if lane is None or lane.key not in ALWAYS_THE_SAME:
                continue
            running = [job for job in jobs if job.state is State.RUNNING]
            check(lane.limit is None or len(running) <= lane.limit, f"I22: more run than a lane's limit {rule}", *jobs)
            if lane.sequence:
                self._sequence(key, rule, jobs, after)
        for (_, lane_key), starts in self.starts.items():
            rate, per = {"slow": (2, 3_000), "strict": (1, 1_000), "slow order": (1, 2_000)}.get(lane_key, (0, 0))
            starts.sort()
            for earlier, later in zip(starts, starts[rate:] if rate else (), strict=False):
                apart = per + 2 * start_within(per, 0, 0)  # each may start so much later than it was handed out
                check(later - earlier >= apart, f"I22: more starts than a lane's rate {rule}", lane_key, starts)

    def _given_back_unstarted(self, request: Request, after: dict[str, Snapshot]) -> list[Snapshot]:
        """As they were while they were held."""
        settled = request.about[0] if request.name == "exchange" else ()
        given_back = [held for held, fields in settled if fields["kind"] is Kind.RELEASED and "began" not in fields]
        found = [(self.before[held.id], held) for held in given_back if held.id in self.before]
        return [
            job
            for job, held in found
            if (job.state, job.token) == (State.RUNNING, held.leases[0].token)
            and (after[job.id].state, after[job.id].token) != (job.state, job.token)
        ]

    def _sequence(self, key: tuple[str, str], rule: str, jobs: list[Snapshot], after: dict[str, Snapshot]) -> None:
        barred = {job.id for job in self.model.jobs.values() if job.barred}
        turn = [job for job in jobs if job.state is not State.BLOCKED or job.id in barred]
        check(len(turn) == 1, f"I22: not one job has the turn in a sequence {rule}", *jobs)
        before = members(self.before).get(key, [])
        came_again = {job.id for job in jobs if job.id in self.before} - {job.id for job in before}
        had_turn = [job.id for job in before if job.state is not State.BLOCKED or job.id in self.barred]
        if not came_again and turn[0].id not in had_turn:
            check(turn[0].id == jobs[-1].id, f"I22: a sequence out of order {rule}", *jobs)
        if had_turn and any(job.id == had_turn[0] for job in jobs) and self.lives[had_turn[0]] == 1:
            check(turn[0].id == had_turn[0], f"I22: the turn in a sequence was taken away {rule}", *jobs)

    def _transitions(self, request: Request, answer: Any, after: dict[str, Snapshot]) -> None:
        rule = f"by {request.name}"
        for job_id in self.before.keys() - after.keys():
            old = self.before[job_id]
            excused = (
                (request.name == "delete" and job_id in request.about)
                or (request.name == "sweep" and old.state.final)
                or (request.name == "put" and any(recycling(old, new) for new in request.about))
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
                # Replaced by a job of the batch, and put anew behind it.
                excused = any(recycling(old, job) for job in request.about) and new.token == 0
                excused |= old.state.final and new == msgspec.structs.replace(old, unique_key=None)
                if not excused:  # a parent was replaced, or a lane put to another use
                    excused = (bool(old.after) or old.lane is not None) and new == msgspec.structs.replace(
                        old, state=new.state, due=new.due, finished=new.finished, error=new.error, group=new.group
                    )
                    check(excused, "I2: a put changed a job that was there", old, new)
                    continue
                self.lives[job_id] += 1
                continue
            check(new.token >= old.token, f"I4: the token went back {rule}", new)
            if new.state is not old.state:
                tied = bool(old.after or new.after or new.lane) or request.name in ("edit", "depend")
                tied |= job_id in self.barred or self.model.jobs[job_id].barred
                allowed = (TIED_MAY_BECOME if tied else MAY_BECOME)[old.state]
                check(new.state in allowed, f"I16: {old.state} became {new.state} {rule}", new)

    def histories(self, ids: list[str]) -> None:
        """I16: the history of each job is the model's, line by line. I3: jobs are found by whatever is asked for."""
        for job in self.before.values():
            told, models = (side.run(side.history(job.id)) for side in (self.store, self.model))
            check(told == models, "I16: another history than the model's", job.id, *told, "and not", *models)
        for state in State:
            found = [job.id for job in self.store.run(self.store.find(Filter(states=(state,), limit=1_000))).jobs]
            check(found == [i for i, job in self.before.items() if job.state is state], f"I3: find {state}", found)
        for wanted in (Filter(tag="x"), Filter(tracked=True), Filter(worker="w1"), Filter(task_like="t[2-9]")):
            found, expected = (side.run(side.find(wanted)).jobs for side in (self.store, self.model))
            check([*map(blurred, found)] == [*map(blurred, expected)], f"I3: find {wanted}", found, expected)
        self.statistics()
        missing = self.store.run(self.store.get([*ids, "nobody"]))
        check([job for job in missing if job] == [self.before[i] for i in ids if i in self.before], "I3: get")

    def statistics(self) -> None:
        """I17: whatever was done, retried or failed is counted, on its day, whether its job is kept or not."""
        days = {row[:2] for row in self.model.waited + self.model.ran} | {key[1:] for key in self.model.counted}
        for queue, day in days:
            found, expected = (side.run(side.stats(queue, day)) for side in (self.store, self.model))
            check(found == expected, f"I17: the statistics of {queue} are wrong", found, expected)
        groups = [*self.model.failing, "nobody's"]
        times, expected = (side.run(side.failure_times(groups)) for side in (self.store, self.model))
        check(times == expected, "I17: the times of failures are wrong", *times, "and not", *expected)


def blurred(job: Snapshot) -> Snapshot:
    """Whom a job failed with is up to the store if several parents end at the same moment."""
    return msgspec.structs.replace(job, error=b"(a parent)") if job.group == "dependency" and job.error else job


def members(jobs: dict[str, Snapshot]) -> dict[tuple[str, str], list[Snapshot]]:
    """The unfinished jobs of each lane, newest first."""
    found: dict[tuple[str, str], list[Snapshot]] = {}
    for job in jobs.values():
        if job.lane and not job.state.final:
            found.setdefault((job.queue, job.lane.key), []).append(job)
    return found


def recycling(old: Snapshot, new: NewJob) -> bool:
    """Whether a put may remove this job."""
    return new.replace and old.id != new.id and old.unique_key == new.unique_key and old.state in WAITING
