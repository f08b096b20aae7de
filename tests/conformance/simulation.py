"""Random histories: a store and the model live through the same accidents, and must agree after each step.

Producers, workers, admins and a sweeper take steps in an order that a `Chooser` decides, and so is everything
that goes wrong: replies get lost and requests are repeated, requests arrive late, workers crash, or freeze and come
back as zombies, the wall clock jumps. Every request goes to the store under test and to the model. Their answers
must be equal, so must be all that can be seen of them, and a few things must be true whatever the model says
(the invariants of `audit`, numbered as in the design). In the end nothing goes wrong any more, and every job must
come to an end and be purged without remains.

`choosing` decides, `histories` plays, shrinks and reports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from headrace.clock import ManualClock
from headrace.errors import ConfigurationError, DependencyCycle, NoWorkers, SessionGone, StaleRequest
from headrace.job import (
    Charge,
    IfFailed,
    Kind,
    Lane,
    NewJob,
    Report,
    SessionInfo,
    Snapshot,
    State,
    Take,
    Turn,
    Verdict,
)
from headrace.store.contract import Facet, Store
from headrace.store.facets import Edit

from .actors import Held, Request, Worker
from .audit import Audit, check
from .choosing import Chooser, Replay
from .model import Model
from .model.events import LISTENS
from .model.records import WAITING
from .words import Refused, comparable, in_words, job_in_words

KEEP_DONE, KEEP_FAILED = 40_000, 90_000
QUEUES = ("q", "r", "s")
KEYS = ("k", "l")
TAGS = (("x",), ("x", "y"), ("y",))
TIMEOUTS = (10_000, 15_000)
LARGE = bytes(3_000)
PATTERNS = (("*",), ("[qr]", "s"))
LANES = (
    Lane("fair"),
    Lane("one", limit=1),
    Lane("order", sequence=True),
    Lane("slow", rate=2, per=3_000),
    Lane("two", limit=2),
    Lane("strict", limit=1, rate=1, per=1_000),
    Lane("slow order", rate=1, per=2_000, sequence=True),
)
CHANGING = (Lane("loose", limit=1), Lane("loose", limit=3, rate=1), Lane("loose"), Lane("loose", sequence=True))
"""One lane, put to different uses."""

MARKS = frozenset({
    "a put was repeated after its reply was lost",
    "a put found its key taken",
    "a put replaced a waiting job",
    "a put with a finished job's key was created",
    "a put was refused for want of a worker",
    "an exchange was repeated after its reply was lost",
    "a repeated take gave leases again",
    "a request arrived late and was refused as stale",
    "a request arrived late for a session that was gone",
    "a report was recorded",
    "a report of a lost lease was refused",
    "a settle was refused as stale",
    "a settle had been recorded already",
    "a zombie was told that its session is gone",
    "a zombie came back in time",
    "a session expired and was swept",
    "a session was closed with known crashes",
    "a session was closed gracefully with leases",
    "a job failed because it crashed too often",
    "a job was moved",
    "a job was deferred",
    "a job was tagged",
    "a job was tracked",
    "a scheduled job was handed out",
    "a spare lease was handed out",
    "a running job was cancelled",
    "a cancelling job was done anyway",
    "a running job was deleted",
    "a failed or cancelled job was revived",
    "a revival was refused because of the key",
    "an ended job was purged",
    "renewing told of a cancellation",
    "renewing told of a loss",
    "the wall clock was set back with leases out",
})  # fmt: skip


TOGETHER = frozenset({Facet.RELATIONS, Facet.LANES, Facet.QUEUES, Facet.EDIT, Facet.WHY})
"""Facets of jobs that wait for each other, in one way or another: a store has all of them or none."""
MARKS_TOGETHER = frozenset({
    "a job waited for another",
    "a dependent was released",
    "a dependent failed with its parent",
    "a job waited for its children",
    "a cycle was refused",
    "a lane was refused",
    "dependencies were changed",
    "a job waited for its turn",
    "a rate put a start off",
    "a queue was paused with jobs in it",
    "a queue's limit held a job back",
    "a waiting job was edited",
    "a running job was timed out",
})  # fmt: skip


class World:
    """One history."""

    def __init__(self, store: Store, clock: ManualClock, chooser: Chooser, marks: Counter[str]) -> None:
        self.store, self.clock, self.choose, self.marks = store, clock, chooser, marks
        self.model = Model(clock=clock, keep_done=KEEP_DONE, keep_failed=KEEP_FAILED)
        self.audit = Audit(store, self.model)
        self.together = store.facets >= TOGETHER
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
        self.latest = clock.now()
        """The latest the wall clock ever showed."""

    @property
    def jobs(self) -> dict[str, Snapshot]:
        """What the store has."""
        return self.audit.before

    def sometimes(self, mark: str) -> None:
        assert mark in MARKS | MARKS_TOGETHER, mark
        self.marks[mark] += 1

    def say(self, words: str) -> None:
        self.words.append(words)

    # -- running a request on both, and comparing --

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

    # -- what workers do --

    def spawn(self) -> Worker:
        self.sessions_made += 1
        name = f"w{self.sessions_made}"
        info = SessionInfo(
            id=f"session {name}",
            name=name,
            queues=self.choose.one((QUEUES, QUEUES, QUEUES[:2], QUEUES[1:], *(PATTERNS if self.together else ()))),
            tasks=("t",),
            timeout=self.choose.one(TIMEOUTS),
        )
        worker = Worker(info)
        self.workers.append(worker)
        return worker

    def work(self) -> None:
        """A worker makes its next request, or repeats the one whose reply it has not seen."""
        able = [worker for worker in self.workers if not (worker.dead or worker.frozen)]
        able.sort(key=lambda worker: -len(worker.held))
        index = self.choose.pick(10)
        newcomer = not able or (index == 9 and len(able) < 4)
        worker = self.spawn() if newcomer else able[index % len(able)]
        if worker.pending is None:
            worker.pending = self._next_request(worker)
        elif worker.pending.name in ("exchange", "report"):
            self.sometimes("an exchange was repeated after its reply was lost")
        request = worker.pending
        fate = self.choose.weighted("reply", (8, 2, 1, 1))
        if fate == 2:
            self.say(f"{request.words}  ->  (on its way)")
            self.late.append(request)
            return
        again = request.times_run > 0
        answers = self.ask(request)
        self.sent.append(request)
        if fate == 1:
            self.words[-1] += " (reply lost)"
            return
        if fate == 3:
            answers = self.ask(request)
            again = True
        worker.pending = None
        self._hear(worker, request, answers, again)

    def _next_request(self, worker: Worker) -> Request:
        if not worker.opened:
            return Request("open", f"{worker.name} opens", lambda _, store: store.open(worker.info))
        kind = self.choose.weighted("request", (6, 1, 1))
        if kind == 1:
            return self._renewal(worker)
        if kind == 2 and worker.held + worker.old:
            return self._report(worker)
        return self._exchange(worker)

    def _exchange(self, worker: Worker) -> Request:
        choose, info = self.choose, worker.info
        worker.number += 1
        number, steady = worker.number, self.clock.steady()
        outcomes = [(held, self._fate_of(held)) for held in choose.some([h for h in worker.held if h.started])]
        if worker.old and choose.pick(3) == 2:
            held = worker.old[-1 - choose.pick(min(len(worker.old), 3))]
            outcomes.append((held, self._fate_of(held)))
        started = [held for held in worker.held if not held.started][: choose.pick(2)]
        take = None
        if not choose.rarely():
            rotate = choose.pick(len(info.queues))
            queues = info.queues[rotate:] + info.queues[:rotate]
            take = Take(queues, choose.one((1, 2, 3, 0)), choose.one((0, 1, 2)), choose.pick(2) == 1)
        words = f"{worker.name} exchanges #{number}"
        words += "".join(f", {held} {fields['kind'].name}" for held, fields in outcomes)
        if take:
            in_turn = " in turn" if take.round_robin else ""
            words += f", takes {take.slots}+{take.spare} from {','.join(take.queues)}{in_turn}"
        if started:
            words += f", started {', '.join(map(str, started))}"

        def build(side: int, store: Any) -> Any:
            return store.exchange(
                info.id,
                number,
                [held.outcome(side, **fields) for held, fields in outcomes],
                take,
                steady=steady,
                started=[held.leases[side].ref for held in started],
            )

        for held, fields in outcomes:
            if fields.get("body") is not None:
                self.audit.bodies[held.id].add(fields["body"])
        return Request("exchange", words, build, (outcomes, started))

    def _fate_of(self, held: Held) -> dict[str, Any]:
        """What became of a run."""
        choose = self.choose
        if held.leases[0].deferred_since is not None and choose.pick(2) == 0:
            return {"kind": Kind.AGAIN, "charge": Charge.DEFERRAL}  # the task is as unknown as it was
        kinds = [Kind.DONE, Kind.AGAIN, Kind.FAILED, Kind.CRASHED, Kind.MOVED, Kind.RELEASED, Kind.BROKEN]
        kinds += [Kind.WAITING] if self.together else []
        kind = kinds[choose.weighted("outcome", (3, 3, 2, 2, 2, 2, 1, 2)[: len(kinds)])]
        fields: dict[str, Any] = {"kind": kind}
        if kind is Kind.WAITING:
            fields["after"] = self._some_ids()
        if kind is not Kind.RELEASED and choose.pick(2) == 0:
            fields["began"], fields["ended"] = held.began, self.clock.steady()
        if choose.rarely():
            fields["data"] = choose.one((b"data", b""))
        if kind is Kind.DONE:
            fields["result"] = choose.one((None, b"result", LARGE))
            fields["charge"] = choose.one((Charge.ATTEMPT, Charge.NOTHING))
        if kind in (Kind.FAILED, Kind.BROKEN):
            fields["error"], fields["charge"] = b"error", Charge.ATTEMPT
        if kind is Kind.FAILED:
            fields["group"] = choose.one(("group", "other group"))
        if kind is Kind.CRASHED and choose.pick(2):
            fields["error"] = b"crash"
        if kind is Kind.AGAIN:
            fields["charge"] = choose.one((Charge.ATTEMPT, Charge.DEFERRAL, Charge.NOTHING))
            if choose.pick(2):
                fields["error"], fields["group"] = b"error", "again"
        if kind in (Kind.AGAIN, Kind.MOVED):
            if choose.pick(2):
                fields["delay"] = choose.one((1_000, 1, 20_000))
            elif choose.rarely():
                fields["at"] = self.clock.now() + choose.one((0, 5_000, -5_000))
        if kind is Kind.MOVED:
            fields["queue"] = choose.one(QUEUES)
            if choose.pick(2):
                self.jobs_made += 1
                body = b"moved %d" % self.jobs_made
                fields["task"], fields["body"] = "t2", choose.one((body, LARGE + body))
        return fields

    def _report(self, worker: Worker) -> Request:
        worker.number += 1
        number, steady, choose = worker.number, self.clock.steady(), self.choose
        about = [choose.one(worker.held + worker.old) for _ in range(1 + choose.pick(2))]
        said = [
            {
                "progress": choose.one((None, (1.0, 2.0), (2.0, 2.0))),
                "data": choose.one((None, b"reported")),
                "log": choose.one(((), ((steady, "line"), (steady, "another")))),
            }
            for _ in about
        ]

        def build(side: int, store: Any) -> Any:
            leases = [held.leases[side] for held in about]
            reports = [
                Report(ref=lease.ref, token=lease.token, id=lease.id, **fields)
                for lease, fields in zip(leases, said, strict=True)
            ]
            return store.report(worker.info.id, number, reports, steady=steady)

        words = f"{worker.name} reports #{number} on {', '.join(map(str, about))}"
        return Request("report", words, build)

    def _renewal(self, worker: Worker) -> Request:
        named = worker.held + worker.old[-2:]
        started = [held for held in worker.held if not held.started][: self.choose.pick(2)]

        def build(side: int, store: Any) -> Any:
            leases = [held.leases[side] for held in named]
            return store.renew(
                worker.info.id,
                [(lease.ref, lease.token, lease.id) for lease in leases],
                started=[held.leases[side].ref for held in started],
            )

        words = f"{worker.name} renews {', '.join(map(str, named))}"
        words += f", started {', '.join(map(str, started))}" if started else ""
        return Request("renew", words, build, started)

    def _hear(self, worker: Worker, request: Request, answers: tuple[Any, Any], again: bool) -> None:
        """The worker learns the answer."""
        answer = answers[0]
        if isinstance(answer, Refused):
            check(answer.why == "SessionGone", f"the newest {request.name} of a session was refused", answer)
            if worker.was_frozen:
                self.sometimes("a zombie was told that its session is gone")
            worker.dead = True
            reborn = self.spawn()  # the same process goes on under a new name, and remembers
            reborn.old = worker.held + worker.old
            return
        if worker.was_frozen:
            self.sometimes("a zombie came back in time")
            worker.was_frozen = False
        if request.name == "open":
            worker.opened = True
        elif request.name == "exchange":
            self._hear_turn(worker, request, answers, again)
        elif request.name == "report":
            for recorded in answer:
                self.sometimes("a report was recorded" if recorded else "a report of a lost lease was refused")
        elif request.name == "renew":
            for held in request.about:
                held.started = True
            if answer.lost:
                self.sometimes("renewing told of a loss")
                for held in [held for held in worker.held if held.id in answer.lost]:
                    worker.held.remove(held)
                    worker.old.append(held)
            if answer.cancelled:
                self.sometimes("renewing told of a cancellation")

    def _hear_turn(self, worker: Worker, request: Request, answers: tuple[Turn, Turn], again: bool) -> None:
        outcomes, started = request.about
        turn = answers[0]
        for held in started:
            held.started = True
        for (held, fields), verdict in zip(outcomes, turn.verdicts, strict=True):
            if verdict is Verdict.OK:
                check(held.run not in self.settled, "I6: settled twice", held)
                self.settled.add(held.run)
                self._mark_outcome(held, fields)
            elif verdict is Verdict.ALREADY:
                self.sometimes("a settle had been recorded already")
            else:
                self.sometimes("a settle was refused as stale")
            if held in worker.held:
                worker.held.remove(held)
                worker.old.append(held)
        if again and turn.leases:
            self.sometimes("a repeated take gave leases again")
        models = {lease.id: lease for lease in answers[1].leases}
        for lease in turn.leases:
            job = (lease.id, self.audit.lives[lease.id])
            check(lease.token > self.tokens.get(job, 0), "I4: a token was handed out twice", lease)
            in_lane = self.jobs[lease.id].lane is not None if lease.id in self.jobs else False
            check(lease.due <= self.latest or in_lane, "I7: handed out before it was due", lease)
            self.tokens[job] = lease.token
            if lease.spare:
                self.sometimes("a spare lease was handed out")
            if lease.due > lease.created:
                self.sometimes("a scheduled job was handed out")
            worker.held.append(
                Held((lease, models[lease.id]), self.clock.steady(), not lease.spare, (*job, lease.token))
            )

    def _mark_outcome(self, held: Held, fields: dict[str, Any]) -> None:
        job = self.jobs.get(held.id)
        if fields["kind"] is Kind.MOVED and job:
            self.sometimes("a job was moved")
        if fields["kind"] is Kind.WAITING and job and job.state is State.BLOCKED:
            self.sometimes("a job waited for its children")
        if fields.get("charge") is Charge.DEFERRAL:
            self.sometimes("a job was deferred")
        if fields["kind"] is Kind.DONE and held.id in self.cancel_asked:
            self.sometimes("a cancelling job was done anyway")

    # -- what happens to workers --

    def freeze(self) -> None:
        able = [worker for worker in self.workers if not (worker.dead or worker.frozen)]
        if able:
            worker = self.choose.one(able)
            worker.frozen = worker.was_frozen = True
            self.say(f"{worker.name} freezes")

    def thaw(self) -> None:
        frozen = [worker for worker in self.workers if worker.frozen and not worker.dead]
        if frozen:
            worker = self.choose.one(frozen)
            worker.frozen = False
            self.say(f"{worker.name} thaws")

    def end_session(self) -> None:
        """A worker leaves, or has crashed and whoever noticed closes its session."""
        able = [worker for worker in self.workers if not worker.dead and worker.opened]
        if not able:
            return
        worker = self.choose.one(able)
        worker.dead = True
        how = self.choose.pick(4)
        if how == 3:
            self.say(f"{worker.name} crashes, unnoticed")
            return
        entered = [held for held in worker.held if held.started and held not in worker.settling]
        crashed = {0: [], 1: self.choose.some(entered), 2: None}[how]

        def build(side: int, store: Any) -> Any:
            refs = None if crashed is None else [held.leases[side].ref for held in crashed]
            return store.close_session(worker.info.id, crashed=refs)

        guilty = "nobody knows" if crashed is None else ", ".join(map(str, crashed)) or "none"
        request = Request("close_session", f"{worker.name} is closed, crashed: {guilty}", build)
        given_back, _ = self.ask(request)
        self.sent.append(request)
        if given_back and how == 0:
            self.sometimes("a session was closed gracefully with leases")
        if crashed:
            self.sometimes("a session was closed with known crashes")

    # -- what others do --

    def put(self) -> None:
        if self.unanswered_puts and self.choose.pick(2) == 0:
            request = self.unanswered_puts.pop(0)
            self.sometimes("a put was repeated after its reply was lost")
        else:
            jobs = [self._new_job() for _ in range(self.choose.one((1, 2, 3, 4)))]
            words = f"put {', '.join(map(job_in_words, jobs))}"
            request = Request("put", words, lambda _, store: store.put(jobs), jobs)
        known = dict(self.jobs)
        answer, _ = self.ask(request)
        self.sent.append(request)
        if self.choose.weighted("reply to put", (6, 1)) == 1:
            self.words[-1] += " (reply lost)"
            self.unanswered_puts.append(request)
        self._mark_put(request.about, answer, known)

    def _mark_put(self, jobs: list[NewJob], answer: Any, known: dict[str, Snapshot]) -> None:
        if isinstance(answer, Refused):
            why = {
                "NoWorkers": "a put was refused for want of a worker",
                "DependencyCycle": "a cycle was refused",
                "ConfigurationError": "a lane was refused",
            }
            self.sometimes(why[answer.why])
            return
        for new, put in zip(jobs, answer, strict=True):
            job = self.jobs.get(new.id)
            if new.after and job and job.state is State.BLOCKED:
                self.sometimes("a job waited for another")
            elif new.lane and job and job.state is State.BLOCKED:
                self.sometimes("a job waited for its turn")
            if new.lane and job and job.state is State.SCHEDULED and new.delay is None and new.run_at is None:
                self.sometimes("a rate put a start off")
            holders = [job for job in known.values() if new.unique_key and job.unique_key == new.unique_key]
            if not put.created:
                self.sometimes("a put found its key taken")
            elif any(not job.state.final for job in holders):
                self.sometimes("a put replaced a waiting job")
            elif holders:
                self.sometimes("a put with a finished job's key was created")

    def _new_job(self) -> NewJob:
        choose = self.choose
        self.jobs_made += 1
        job_id = f"j{self.jobs_made}"
        if self.ids and choose.rarely():
            job_id = choose.one(self.ids)
        elif job_id not in self.audit.bodies:
            self.ids.append(job_id)
        body = b"body %d" % self.jobs_made
        if choose.rarely():
            body = LARGE + body
        self.audit.bodies.setdefault(job_id, set()).add(body)
        when = choose.weighted("due", (5, 2, 1))
        unique = choose.weighted("unique", (4, 1)) == 1
        return NewJob(
            **self._ties(job_id),
            id=job_id,
            task=choose.one(("t", "t", "t2")),
            body=body,
            queue=choose.one(QUEUES),
            priority=choose.one((0, 0, 0, 5, -1)),
            delay=choose.one((1_000, 1, 20_000)) if when == 1 else None,
            run_at=self.clock.now() + choose.one((0, 5_000, -5_000)) if when == 2 else None,
            max_crashes=choose.one((3, 1, 2)),
            unique_key=choose.one(KEYS) if unique else None,
            unique_for=choose.one((None, 5_000, 60_000)) if unique else None,
            replace=unique and choose.pick(3) == 2,
            require_worker=choose.rarely() and choose.pick(3) == 2,
            tags=choose.one(TAGS) if choose.rarely() else (),
        )

    def _ties(self, job_id: str) -> dict[str, Any]:
        """What ties a new job to others, if anything."""
        if not self.together:
            return {}
        choose = self.choose
        ties: dict[str, Any] = {}
        if choose.weighted("lane", (3, 1)) == 1:
            ties["lane"] = choose.one(CHANGING) if choose.rarely() else choose.one(LANES)
        in_order = "lane" in ties and ties["lane"].sequence
        if choose.weighted("after", (3, 1)) == 1 and (not in_order or choose.rarely()):
            others = [i for i in self._some_ids() if i != job_id or choose.rarely()]
            ties |= {"after": tuple(others), "if_failed": choose.one(tuple(IfFailed))}
        return ties

    def _some_ids(self) -> tuple[str, ...]:
        """Mostly of jobs that have not ended."""
        unfinished = [job.id for job in self.jobs.values() if not job.state.final]
        pool = unfinished[:6] if unfinished and self.choose.pick(4) < 3 else [*self.ids, "nobody"]
        return tuple(self.choose.one(pool) for _ in range(1 + self.choose.pick(2)))

    def tie(self) -> None:
        """Somebody changes jobs that wait, or takes away some that run."""
        if not (self.together and self.ids):
            return
        choose = self.choose
        waiting = [job.id for job in self.jobs.values() if job.state in WAITING]
        running = [job.id for job in self.jobs.values() if job.state is State.RUNNING]
        act = choose.one(("edit", "depend", "time_out"))
        likely = running if act == "time_out" else waiting
        ids = [choose.one(likely or self.ids), choose.one(self.ids)][: 1 + choose.pick(2)]
        known = dict(self.jobs)
        if act == "edit":
            change = self._change(ids)
            request = Request(act, f"edit {ids}: {change}", lambda _, store: store.edit(ids, change), ids)
        elif act == "time_out":
            request = Request(act, f"time out {ids}", lambda _, store: store.time_out(ids), ids)
        else:
            add = self._some_ids() if choose.pick(3) < 2 else ()
            remove = tuple(known[ids[0]].after[:1]) if ids[0] in known and choose.pick(2) else ()
            words = f"{ids[0]} depends on {add}, not on {remove}"
            request = Request(act, words, lambda _, store: store.depend(ids[0], add, remove), ids)
        answer, _ = self.ask(request)
        self.sent.append(request)
        if isinstance(answer, Refused):
            self.sometimes("a cycle was refused" if answer.why == "DependencyCycle" else "a lane was refused")
        elif act == "depend" and answer:
            self.sometimes("dependencies were changed")
        elif act == "edit" and any(answer):
            self.sometimes("a waiting job was edited")
        elif act == "time_out" and any(answer):
            self.sometimes("a running job was timed out")

    def _change(self, ids: list[str]) -> Edit:
        choose = self.choose
        when = choose.pick(4)
        body = None
        if choose.rarely():
            self.jobs_made += 1
            body = choose.one((b"", LARGE)) + b"edited %d" % self.jobs_made
            for job_id in ids:
                self.audit.bodies.setdefault(job_id, set()).add(body)
        return Edit(
            queue=choose.one((None, None, *QUEUES)),
            priority=choose.one((None, None, 5)),
            delay=choose.one((0, 1_000)) if when == 1 else None,
            run_at=self.clock.now() + choose.one((-5_000, 5_000)) if when == 2 else None,
            body=body,
            data=b"edited" if choose.rarely() else None,
        )

    def govern(self) -> None:
        """Somebody says something about a queue."""
        if not self.together:
            return
        queue, act = self.choose.one(QUEUES), self.choose.one(("limit", "pause", "resume", "limit", "resume"))
        limit = self.choose.one((1, None, 2))
        arguments = {"limit": (queue, limit), "pause": (queue, "me"), "resume": (queue,)}[act]
        words = f"{act} {', '.join(map(str, arguments))}"
        paused, _ = self.ask(Request(act, words, lambda _, store: getattr(store, act)(*arguments)))
        if act == "pause" and paused and any(job.queue == queue for job in self.jobs.values()):
            self.sometimes("a queue was paused with jobs in it")
        jobs = [job for job in self.jobs.values() if job.queue == queue]
        running = sum(job.state is State.RUNNING for job in jobs)
        if act == "limit" and limit and running >= limit and any(job.state is State.READY for job in jobs):
            self.sometimes("a queue's limit held a job back")

    def administer(self) -> None:
        if not self.ids:
            return
        act = self.choose.one(("cancel", "revive", "delete", "cancel", "tag", "track"))
        if act in ("tag", "track"):
            self._mark(act)
            return
        fit = (State.FAILED, State.CANCELLED) if act == "revive" else (State.RUNNING,)
        likely = [job.id for job in self.jobs.values() if job.state in fit]
        pool = likely[:4] if likely and (act == "revive" or self.choose.pick(3) < 2) else self.ids
        ids = [self.choose.one(pool)] + ([self.choose.one(self.ids)] if self.choose.rarely() else [])
        known = dict(self.jobs)
        request = Request(act, f"{act} {', '.join(ids)}", lambda _, store: getattr(store, act)(ids), ids)
        answer, _ = self.ask(request)
        self.sent.append(request)
        for job_id, yes in zip(ids, answer, strict=True):
            job = known.get(job_id)
            if job and job.state is State.RUNNING and act == "cancel":
                self.cancel_asked.add(job_id)
                self.sometimes("a running job was cancelled")
            if job and job.state is State.RUNNING and act == "delete" and yes:
                self.sometimes("a running job was deleted")
            if act == "revive" and yes:
                self.sometimes("a failed or cancelled job was revived")
            if act == "revive" and not yes and job and job.state in (State.FAILED, State.CANCELLED):
                self.sometimes("a revival was refused because of the key")

    def _mark(self, act: str) -> None:
        ids = [self.choose.one(self.ids), self.choose.one(self.ids)]
        if act == "tag":
            add, remove = self.choose.one(TAGS), self.choose.one(TAGS)
            request = Request(act, f"tag {ids} +{add} -{remove}", lambda _, store: store.tag(ids, add, remove), ids)
        else:
            on = self.choose.pick(3) < 2
            request = Request(act, f"track {ids} {on}", lambda _, store: store.track(ids, on), ids)
        known, _ = self.ask(request)
        self.sent.append(request)
        if any(known):
            self.sometimes("a job was tagged" if act == "tag" else "a job was tracked")

    def sweep(self) -> None:
        known = dict(self.jobs)
        swept, _ = self.ask(Request("sweep", "sweep", lambda _, store: store.sweep()))
        check(swept.jobs_purged == len(known.keys() - self.jobs.keys()), "I1: purged, but how many?", swept)
        if swept.sessions_closed:
            self.sometimes("a session expired and was swept")
        if swept.jobs_purged:
            self.sometimes("an ended job was purged")
        if any(job.group == "crashed" and job.state is State.FAILED for job in self.jobs.values()):
            self.sometimes("a job failed because it crashed too often")

    def deliver_late(self) -> None:
        """What was on its way arrives, or something arrives a second time. Nobody waits for the reply."""
        if self.late and self.choose.pick(2) == 0:
            request = self.late.pop(self.choose.pick(len(self.late)))
        elif self.sent:
            request = self.sent[-1 - self.choose.pick(min(len(self.sent), 12))]
        else:
            return
        answer, _ = self.ask(request)
        self.words[-1] += " (arrived late)"
        if answer == Refused("StaleRequest"):
            self.sometimes("a request arrived late and was refused as stale")
        if answer == Refused("SessionGone"):
            self.sometimes("a request arrived late for a session that was gone")

    def pass_time(self) -> None:
        """To an instant at which something changes, or one millisecond before or after it."""
        instants = sorted({wait for wait in self._instants() if wait > 0})
        if instants and self.choose.pick(4):
            self._advance(max(1, self.choose.one(instants[:6]) + self.choose.one((0, -1, 1))))
        else:
            self._advance(self.choose.one((1, 500, 5_000)))

    def _instants(self) -> Iterable[int]:
        now, steady = self.clock.now(), self.clock.steady()
        for job in self.model.jobs.values():
            if job.state is State.SCHEDULED:
                yield job.due - now
            if job.finished is not None:
                yield job.finished - now + (KEEP_DONE if job.state is State.DONE else KEEP_FAILED) + 1
            if job.unique_key and job.unique_until is not None:
                yield job.unique_until - now
        for session in self.model._open_sessions():
            if self.model._held(session):
                yield session.seen + session.info.timeout - steady

    def _advance(self, milliseconds: int) -> None:
        self.say(f"{milliseconds:,} ms pass")
        self.clock.advance(milliseconds)
        self.audit.events("after a while")
        self.latest = max(self.latest, self.clock.now())

    def jump(self) -> None:
        by = self.choose.one((-10_000, 10_000, -3_600_000, 3_600_000))
        self.say(f"the wall clock jumps by {by:,} ms")
        self.clock.jump(by)
        self.latest = max(self.latest, self.clock.now())
        if by < 0 and any(worker.held for worker in self.workers):
            self.sometimes("the wall clock was set back with leases out")

    # -- the play --

    ACTS = (
        ("work", 20),
        ("put", 6),
        ("pass_time", 3),
        ("deliver_late", 3),
        ("administer", 4),
        ("sweep", 2),
        ("end_session", 2),
        ("freeze", 1),
        ("thaw", 3),
        ("jump", 1),
        ("tie", 4),
        ("govern", 1),
    )

    def play(self) -> None:
        weights = [weight for _, weight in self.ACTS]
        while self.choose.step():
            name, _ = self.ACTS[self.choose.weighted("act", weights)]
            getattr(self, name)()
        self.choose = Replay([])  # from here on only the dullest choices: nothing goes wrong any more
        self.drain()

    def drain(self) -> None:
        """L1: what was put comes to an end. L2: and is purged, and nothing remains."""
        self.say("-- nothing goes wrong any more --")
        for request in self.late:
            self.ask(request)
        self.audit.histories(self.ids)
        if self.together:
            for queue in QUEUES:
                self.ask(Request("limit", f"no limit on {queue}", lambda _, store, q=queue: store.limit(q, None)))
                self.ask(Request("resume", f"resume {queue}", lambda _, store, q=queue: store.resume(q)))
        fresh = self.spawn()
        fresh = Worker(SessionInfo(id=fresh.info.id, name=fresh.name, queues=QUEUES, tasks=("t", "t2")))
        self.ask(Request("open", f"{fresh.name} opens", lambda _, store: store.open(fresh.info)))
        take = Take(QUEUES, 50)
        for _ in range(1_000):
            if all(job.state.final for job in self.jobs.values()):
                break
            self.sweep()
            fresh.number += 1
            done = [(held, {"kind": Kind.DONE}) for held in fresh.held]

            def build(side: int, store: Any, n: int = fresh.number, done: Any = done) -> Any:
                outcomes = [held.outcome(side, **fields) for held, fields in done]
                return store.exchange(fresh.info.id, n, outcomes, take)

            request = Request("exchange", f"{fresh.name} does everything", build, (done, []))
            self._hear_turn(fresh, request, self.ask(request), False)
            if not fresh.held:
                self._advance(max(1, min((wait for wait in self._instants() if wait > 0), default=1)))
        unfinished = [job for job in self.jobs.values() if not job.state.final]
        check(not unfinished, "L1: jobs that do not come to an end", *unfinished)
        self.audit.histories(self.ids)
        last = max((job.finished or 0 for job in self.jobs.values()), default=0)
        last = max([last, *(start for lane in self.model.lanes.values() for start in lane.starts)])
        self._advance(max(0, last - self.clock.now()) + KEEP_FAILED + 1)
        self.sweep()
        check(not self.jobs, "L2: jobs that are not purged", *self.jobs)
        self.audit.statistics()
        self.clock.advance(LISTENS)  # and nobody listens any more
        self.store.run(self.store.sweep())
