"""A Qless installation as a store: the ordinary app, worker and command line among Qless' own clients and workers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from headrace.dialects.on_redis import Stepwise
from headrace.records import (
    ExchangeReply,
    IfFailed,
    Lease,
    NewJob,
    Outcome,
    Put,
    Ref,
    Renewal,
    Report,
    SessionInfo,
    SessionSnapshot,
    Take,
    Token,
    Verdict,
    decode_session_info,
)
from headrace.store import limits
from headrace.store.contract import Facet, Operation, Reported, Waiter
from headrace.store.redis.operation import Steps
from headrace.values.clock import Clock
from headrace.values.glob import is_glob, matcher

from . import mapping, texts, waiter
from .edit import Editing
from .find import Finding
from .queues import Queues
from .schedules import Schedules

_VERDICTS = tuple(Verdict)
_ALIVE_SECONDS = 120
"""A worker that has not been heard of for so long is not counted as alive. (Idle Qless workers poll once a minute.)"""


class QlessStore(Finding, Editing, Queues, Schedules):
    """Jobs of a Qless installation: `qless+redis://host:6379/0` (or `+rediss`, `+unix`, `+redis+sentinel`).

    A task's jobs have its name as their klass and the object of its arguments as their data. `?priority=lower-first`
    turns priorities round. `clock` is for tests: the server's clock is the one that counts.
    """

    facets = frozenset(
        {
            Facet.DELAY, Facet.PRIORITY, Facet.DATA, Facet.HISTORY, Facet.REVIVE, Facet.MOVE, Facet.RELATIONS,
            Facet.TAGS, Facet.QUEUES, Facet.EDIT, Facet.OUTSIDE, Facet.WHY, Facet.STATISTICS, Facet.SETTINGS,
            Facet.SCHEDULES,
        }
    )  # fmt: skip
    REFUSES: ClassVar = {
        "expires": "Workers of other programs on Qless know of no expiry, and would start a job after it.",
        "unique": 'Qless has no unique jobs: a put with the id of a job that exists moves that job (put: "if the job '
        'exists already this is a move"). Choose ids of your own with the Qless API, jid=....',
        "require_worker": "Qless' workers do not say which queues they listen to, so none can be required there.",
        "lane": mapping.NO_LANES,
        "if_failed": "In Qless a job that depends on one that has failed goes on waiting, because only a completion "
        "unlocks it. Write if_failed='wait'.",
        "run_after": "Qless counts a delay from the put, not from the moment when the jobs before are done. Say "
        "run_after= as a time (a datetime, or words like '7pm tomorrow').",
        "requeue": "Qless runs a job again, or in another queue, by a put of its jid with its klass and data. Use the "
        "Qless API: queue.put(klass, data, jid=...).",
        "update": "Qless' workers store a job's data with each heartbeat and with its end: what others write meanwhile "
        "would be lost. Change a job that waits with headrace edit.",
        "failure_times": "Qless lists the failed jobs of a group and when each failed. It keeps no times of a group: "
        "read them from its jobs.",
        "tick": "Qless makes the jobs of its recurring jobs by itself, whenever a worker asks for some.",
    }

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        super().__init__(url, clock=clock)
        self._in_hand: dict[tuple[Ref, Token], mapping.Saying] = {}
        """What was handed out here, by hand-outs: a run's words are stored together with its arguments."""

    # -- clients --

    def carries(self, option: str, job: NewJob) -> bool:
        if option == "if_failed":
            return job.if_failed is IfFailed.WAIT
        return option == "run_after" and not (job.after and job.delay)

    def put(self, jobs: Sequence[NewJob]) -> Operation[list[Put]]:
        self.refuse_options(jobs)
        described = [mapping.new_job(job, self.tasks, self._lower_first) for job in jobs]
        limits.check_batch(jobs)
        return self._script("Clients.put", [described], lambda _, __: [Put(job.id, True) for job in jobs])

    def cancel(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return self._yes_or_no("Clients.cancel", ids)

    def delete(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return self._yes_or_no("Clients.delete", ids)

    def revive(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return self._yes_or_no("Clients.revive", ids)

    def job_waiter(self, job_id: str) -> Waiter:
        return waiter.for_job(self.driver, job_id)

    # -- workers --

    def open(self, session: SessionInfo) -> Operation[int]:
        arguments = [session.id, worker_name(session.id), msgspec.json.encode(session).decode()]
        return self._script("Sessions.open", arguments, lambda now, _: mapping.milliseconds(now))

    def _exchange(
        self, session: str, number: int, outcomes: Sequence[Outcome], take: Take | None, *_: object
    ) -> Operation[ExchangeReply]:
        return Steps(lambda: self._settle_and_take(session, number, outcomes, take))

    def _settle_and_take(
        self, session: str, number: int, outcomes: Sequence[Outcome], take: Take | None
    ) -> Stepwise[ExchangeReply]:
        if take is not None and any(map(is_glob, take.queues)):
            # Qless knows all its queues: those that are meant are named.
            known = yield self._script("Clients.queues", [], lambda _, names: sorted(names or []))
            named: dict[str, None] = {}
            for wanted in take.queues:
                named |= dict.fromkeys(filter(matcher(wanted), known) if is_glob(wanted) else [wanted])
            take = replace(take, queues=tuple(named))
        told = [mapping.outcome(settled, self._in_hand.get((settled.ref, settled.token))) for settled in outcomes]
        asked = None if take is None else {
            "queues": take.queues, "slots": take.slots, "count": take.slots + take.spare,
            "round_robin": take.round_robin,
        }  # fmt: skip
        arguments = [session, number, told, asked]
        now, answer = yield self._script("Exchange.exchange", arguments, lambda *reply: reply, exact=True)
        for settled in outcomes:
            self._in_hand.pop((settled.ref, settled.token), None)
        jobs, due, slots = answer["jobs"] or [], answer.get("due"), 0 if take is None else take.slots
        leases: list[Lease] = []
        unreadable: list[Any] = []
        for job in jobs:
            try:
                lease = mapping.lease(job, spare=len(leases) >= slots, lower_first=self._lower_first)
            except mapping.UNREADABLE as error:
                unreadable.append([texts.to_the_wire(job["jid"]), job["token"], mapping.why_unreadable(error)])
            else:
                leases.append(lease)
                self._in_hand[lease.ref, lease.token] = mapping.Saying(lease.body, lease.data)
        if unreadable:
            # Nobody could run them, and nobody would settle them: they fail, and the others go on.
            yield self._script("Exchange.quarantine", [session, unreadable], lambda _, __: None)
        return ExchangeReply(
            [_VERDICTS[code] for code in answer["verdicts"] or []],
            leases,
            mapping.milliseconds(now),
            mapping.milliseconds(due) if due else None,
            ends=mapping.milliseconds(min(job["expires"] for job in jobs)) if jobs else None,
        )

    def report(
        self, session: str, number: int, reports: Sequence[Report], *, steady: int = 0
    ) -> Operation[list[Reported]]:
        told = [mapping.report(said, self._in_hand.get((said.ref, said.token)), steady) for said in reports]
        return self._script("Exchange.report", [session, number, told], lambda _, answers: list(map(Reported, answers)))

    def _renew(self, session: str, held: Sequence[tuple[Ref, Token, str]], *_: object) -> Operation[Renewal]:
        def read(now: float, answer: Any) -> Renewal:
            lost = [job_id for code, (_, _, job_id) in zip(answer["codes"] or [], held, strict=True) if code]
            ends = answer.get("ends")
            return Renewal(mapping.milliseconds(now), lost, [], ends=mapping.milliseconds(ends) if ends else None)

        return self._script("Exchange.renew", [session, [[ref, token] for ref, token, _ in held]], read)

    def close_session(self, session: str, *, crashed: Sequence[Ref] | None = ()) -> Operation[list[str]]:
        return self._script("Exchange.close", [session, crashed], lambda _, jids: list(jids or []))

    def sessions(self) -> Operation[list[SessionSnapshot]]:
        """All workers that the installation knows, Qless' own included."""

        def read(now: float, workers: Any) -> list[SessionSnapshot]:
            return [
                SessionSnapshot(
                    info=_info(worker["name"], worker.get("info")),
                    opened=mapping.milliseconds(worker["seen"]),
                    seen=mapping.milliseconds(worker["seen"]),
                    running=worker["jobs"] + worker["stalled"],
                    alive=now - worker["seen"] < _ALIVE_SECONDS,
                )
                for worker in workers or []
            ]

        return self._script("Clients.workers", [], read)

    def waiter(self, session: str, queues: Sequence[str]) -> Waiter:
        return waiter.for_worker(self.driver, worker_name(session), queues)


def worker_name(session: str) -> str:
    """The name under which a session is known to Qless: unique to it, because the name is what fences it."""
    return f"headrace-{session}"


def _info(name: str, told: str | None) -> SessionInfo:
    """A worker as it is known; of those of other programs nothing is known but the name."""
    if told is None:
        return SessionInfo(id=name, name=name)
    return replace(decode_session_info(told), name=name)
