"""A session's turns: settle and take in one step, renew, give back at the end.

The wire has no owner, no attempts and no delays. Who holds what is known to this process only; a retry that is to wait
rests here, in progress and kept alive, and goes to the back of the line when its time has come.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from headrace.dialects.hworker import requests
from headrace.dialects.hworker.catalogue import Catalogue
from headrace.dialects.hworker.driver import now
from headrace.dialects.hworker.keeping import keep
from headrace.dialects.hworker.options import Options
from headrace.dialects.hworker.requests import Record, Work, batches
from headrace.dialects.hworker.sessions import Resting, Session, Sessions
from headrace.dialects.hworker.wire import BrokenEntry, read
from headrace.records import ExchangeReply, Kind, Lease, Outcome, Ref, Renewal, Take, Token, Verdict
from headrace.worker.custody import Crashes

log = logging.getLogger("headrace.hworker")

WHAT = {
    Kind.DONE: requests.SUCCESS,
    Kind.AGAIN: requests.RETRY,
    Kind.FAILED: requests.FAILURE,
    Kind.BROKEN: requests.IS_BROKEN,
    Kind.RELEASED: requests.GIVE_BACK,
    Kind.MOVED: requests.FAILURE,
}
"""What each kind of outcome is on the wire. A crash is missing: the job stays where a monitor will find it."""


class Turns:
    """What the sessions of this process ask of the server."""

    def __init__(self, options: Options, catalogue: Catalogue, sessions: Sessions) -> None:
        self._options = options
        self._catalogue = catalogue
        self._sessions = sessions
        self._server_now = 0
        self._asked = 0.0
        self._crashes = Crashes()

    # -- exchange --

    def exchange(
        self, session_id: str, number: int, outcomes: Sequence[Outcome], take: Take | None
    ) -> Work[ExchangeReply]:
        session = self._sessions.find(session_id)
        if session.repeats(number) and session.turn is not None:
            return session.turn
        queues = self._queues(take)
        verdicts = _judge(session, outcomes)
        again = session.asked == number
        session.asked = number
        yield from self._keep_resting(session)
        resting = session.due(self._estimate())
        to_rest = {i for i, outcome in enumerate(outcomes) if verdicts[i] is None and self._rests(outcome)}
        sent = [
            (i, (session.held[outcome.ref], WHAT[outcome.kind]))
            for i, outcome in enumerate(outcomes)
            if verdicts[i] is None and outcome.kind in WHAT and i not in to_rest
        ]
        done = yield requests.exchange(
            [*(settle for _, settle in sent), *((job.record, requests.RETRY) for job in resting)],
            0 if take is None else take.slots + self._spare(take),
            list(queues),
            self._options.failed_size,
            round_robin=take is not None and take.round_robin,
        )
        self._server_now, self._asked = done.now // 1000, time.monotonic()
        for (i, _), settled in zip(sent, done.settled[: len(sent)], strict=True):
            # What an earlier attempt may have settled, whose answer got lost, is not held against us.
            verdicts[i] = Verdict.OK if settled else Verdict.ALREADY if again or done.unsure else Verdict.STALE
        session.resting = [job for job in session.resting if job not in resting]
        if to_rest and not session.resting:
            session.keep_at = self._keep_at()
        for i in to_rest:
            session.resting.append(self._resting(outcomes[i], session.held[outcomes[i].ref]))
        answers = _settle(session, outcomes, verdicts)
        leases, broken = self._leases(session, done.taken, queues, take)
        session.write_down()
        if take is not None:
            session.has_room = len(done.taken) < take.slots or bool(broken)
        next_due = self._come_back(session)
        session.number, session.turn = number, ExchangeReply(answers, leases, self._server_now, next_due)
        if broken:  # should this fail, a monitor will bring them again
            yield requests.exchange([(record, requests.IS_BROKEN) for record in broken], 0, (), 0)
        return session.turn

    def _queues(self, take: Take | None) -> dict[str, str]:
        """Names to take from, in order, and how the worker calls them: only those whose task is known here."""
        queues: dict[str, str] = {}
        for queue in () if take is None else take.queues:
            name = self._catalogue.name_of(queue)
            if self._catalogue.task_of(name) is not None:
                queues.setdefault(name, queue)
        return queues

    def _spare(self, take: Take) -> int:
        prefetch = self._options.prefetch
        return take.spare if prefetch is None else min(take.spare, (prefetch - 1) * max(take.slots, 1))

    def _rests(self, outcome: Outcome) -> bool:
        return outcome.kind is Kind.AGAIN and (outcome.delay > 0 or (outcome.at or 0) > self._estimate())

    def _resting(self, outcome: Outcome, record: Record) -> Resting:
        due = outcome.at if outcome.at is not None else self._server_now + outcome.delay
        if not self._options.keep_alive:  # a monitor would find it
            due = min(due, self._server_now + round(self._options.timeout * 500))
        return Resting(due, record, outcome.id, outcome.ref)

    def _leases(
        self, session: Session, taken: Sequence[Record], queues: dict[str, str], take: Take | None
    ) -> tuple[list[Lease], list[Record]]:
        leases: list[Lease] = []
        broken = []
        tasks = {name: self._catalogue.task_of(name) or "" for name in queues}
        for record in taken:
            task = tasks[record.name]
            try:
                wire_id, payload = read(record.raw)
                body = self._catalogue.body(task, payload)
            except BrokenEntry as error:
                log.error("queue %s: broken entry %r: %s", record.name, record.raw[:200], error)
                broken.append(record)
                continue
            ref = self._sessions.new_ref()
            leases.append(
                Lease(
                    ref=ref,
                    token=record.value.decode(),
                    id=session.hold(ref, record, wire_id),
                    task=task,
                    queue=queues[record.name],
                    body=body,
                    created=self._server_now,
                    due=self._server_now,
                    spare=take is not None and len(leases) >= take.slots,
                )
            )
        return leases, broken

    def _estimate(self) -> int:
        """The server's time in milliseconds, from its last answer."""
        return self._server_now + int((time.monotonic() - self._asked) * 1000) if self._server_now else 0

    # -- renew --

    def renew(self, session_id: str, held: Sequence[tuple[Ref, Token, str]]) -> Work[Renewal]:
        session = self._sessions.find(session_id)
        if not held:
            # Of another process, or nothing in hand: all that is asked is whether the server can be reached.
            moment = yield now()
            return Renewal(moment)
        yield from self._keep_resting(session)
        records = [session.held.get(ref) for ref, _, _ in held]
        ours = [record for record in records if record is not None]
        # The pump also asks when it has heard news: then looking is enough.
        refresh = time.monotonic() - session.refreshed >= self._options.timeout / 10
        kept = yield from self._keep(ours, refresh=refresh)
        if refresh:
            session.refreshed = time.monotonic()
        new = dict(zip(ours, kept, strict=True))
        tokens: dict[str, Token] = {}
        lost = []
        for (ref, token, job_id), old in zip(held, records, strict=True):
            record = None if old is None or old.value.decode() != token else new[old]
            if record is None:
                lost.append(job_id)
                session.lose([ref] if old is not None and new[old] is None else [])
            elif ref in session.held:
                session.held[ref] = record
                if record.value.decode() != token:
                    tokens[job_id] = record.value.decode()
        session.write_down()
        return Renewal(self._estimate(), lost, (), tokens)

    def _keep(self, records: Sequence[Record], *, refresh: bool = True) -> Work[list[Record | None]]:
        return (yield from keep(records, self._options.timeout, refresh=refresh and self._options.keep_alive))

    def _keep_resting(self, session: Session) -> Work[None]:
        """What rests has no lease that the pump could renew."""
        if not session.resting or self._estimate() < session.keep_at:
            return
        session.keep_at = self._keep_at()
        kept = yield from self._keep([job.record for job in session.resting])
        session.resting = [
            job._replace(record=record) for job, record in zip(session.resting, kept, strict=True) if record is not None
        ]
        session.write_down()

    def _keep_at(self) -> int:
        """When what is alive now must say so again, on the server's clock."""
        return self._estimate() + round(self._options.timeout * 1000 / 3)

    def _come_back(self, session: Session) -> int | None:
        """When the pump should ask again: something is due, or must be kept alive until it is."""
        if not session.resting:
            return None
        return min(session.keep_at, *(job.due for job in session.resting))

    # -- the end --

    def close(self, session_id: str, crashed: Sequence[Ref]) -> Work[list[str]]:
        """Give back what this process still holds, or has inherited."""
        session = self._sessions.peek(session_id)
        self._sessions.close(session_id)
        if session is None:
            return []
        for ref in crashed:
            if ref in session.held and not self._crashes.goes_back(session.ids[ref]):
                log.error("job %s has killed its process again: it is left to a monitor", session.ids[ref])
                del session.held[ref]
        # The one taken first is to run first again: it is pushed last.
        records = {record: session.ids[ref] for ref, record in reversed(session.held.items())}
        given_back = []
        for batch in batches(list(records)):
            removed = yield requests.give_back(batch)
            given_back += [records[record] for record, was_ours in zip(batch, removed, strict=True) if was_ours]
        if session.resting:
            retries = [(job.record, requests.RETRY) for job in session.resting]
            yield requests.exchange(retries, 0, (), self._options.failed_size)
        if session.custody is not None:
            session.custody.keep({})
        return given_back[::-1]


def _judge(session: Session, outcomes: Sequence[Outcome]) -> list[Verdict | None]:
    """What can be said without asking; None where the server must be asked."""
    verdicts: list[Verdict | None] = []
    named: set[Ref] = set()
    for outcome in outcomes:
        record = session.held.get(outcome.ref)
        if record is None:
            verdicts.append(Verdict.ALREADY if session.has_settled(outcome.ref, outcome.token) else Verdict.STALE)
        elif record.value.decode() != outcome.token:
            verdicts.append(Verdict.STALE)
        else:
            verdicts.append(Verdict.ALREADY if outcome.ref in named else None)
            named.add(outcome.ref)
    return verdicts


def _settle(session: Session, outcomes: Sequence[Outcome], verdicts: Sequence[Verdict | None]) -> list[Verdict]:
    """The server has answered: what was settled, or belongs to others, is no longer in hand."""
    answers = []
    for outcome, verdict in zip(outcomes, verdicts, strict=True):
        # No verdict, and nothing sent: it rests, or it crashed and is left to the monitors.
        answer = Verdict.OK if verdict is None else verdict
        answers.append(answer)
        record = session.held.get(outcome.ref)
        if record is None or record.value.decode() != outcome.token:
            continue
        if answer is Verdict.STALE:
            session.lose([outcome.ref])
        else:
            session.settle(outcome.ref)
        if outcome.kind is Kind.MOVED:
            log.error(
                "job %s failed: it cannot move to %s, as a job does not say what it is", outcome.id, outcome.queue
            )
    return answers
