"""What a session asks of Bedrock: settle and take, report, give back at the end.

FinishJob has no owner, so a run that has outlived its job's retryAfter must not report: the job may be another
worker's by now. Its time is kept by the session, on a clock that never jumps.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from headrace.dialects.bedrock import find, mapping
from headrace.dialects.bedrock.client import commands
from headrace.dialects.bedrock.client.client import Client
from headrace.dialects.bedrock.client.commands import Call
from headrace.dialects.bedrock.client.replies import BedrockError, DoesNotExist, IllegalAction
from headrace.dialects.bedrock.mapping import Found, FoundJobs, Tasks
from headrace.dialects.bedrock.sessions import Hold, Session
from headrace.dialects.bedrock.times import write_moment
from headrace.dialects.bedrock.wire import DEFAULT_PRIORITY, MOST_TRIES
from headrace.dialects.lease_book import LeaseBook
from headrace.errors import MaybeApplied, StoreUnavailable
from headrace.options import Overrides
from headrace.records import (
    Charge,
    ExchangeReply,
    Extras,
    Kind,
    Lease,
    Outcome,
    Ref,
    Renewal,
    Report,
    State,
    Take,
    Token,
    Verdict,
)  # fmt: skip
from headrace.store.contract import Reported
from headrace.traffic import is_test
from headrace.values.clock import Clock

log = logging.getLogger("headrace.bedrock")

BETWEEN = 60_000
"""Milliseconds by which a job is late whose worker died between the two requests that a counted retry takes."""

ONLY_CHILDREN = (
    "WaitFor: a Bedrock job waits for its own children only. Enqueue them in the same run, with after=[current().id] "
    "and if_failed='wait'."
)

_decode_jobs = msgspec.json.Decoder(FoundJobs).decode
_encode = msgspec.json.Encoder().encode
_tokens = itertools.count(1)


def get_found(names: str, count: int, *, wait: int | None = None) -> Call[list[Found]]:
    """GetJobs, with the data of the jobs as it came. `wait`: for so many milliseconds.

    A worker's queues are all of test traffic, or none. A request for mocked jobs gets real ones, too: test traffic has
    names of its own.
    """
    waiting: dict[str, Any] = {} if wait is None else {"Connection": "wait", "Timeout": wait, "patience": wait}
    waiting |= {"name": names, "numResults": count, "getMockedJobs": is_test(names) or None}
    return Call("GetJobs", lambda reply: _decode_jobs(reply.body).jobs, idempotent=False, **waiting)


class Exchanges:
    """The requests that the sessions of this process make."""

    def __init__(self, client: Client, clock: Clock, tasks: Callable[[], Tasks], book: LeaseBook[Session]) -> None:
        self._client = client
        self._clock = clock
        self._tasks = tasks
        self._book = book

    def exchange(self, session: Session, number: int, outcomes: Sequence[Outcome], take: Take | None) -> ExchangeReply:
        """Settle, then take. Repeated after a failure, it goes on where it was."""
        replied = session.replied(number)
        if replied is not None:
            return replied
        if not session.sends(number):
            session.verdicts = {}
        self._settle(session, outcomes)
        try:
            leases = self._take(session, take)
        finally:
            session.write_down()
        verdicts = [session.verdicts[place] for place in range(len(outcomes))]
        reply = ExchangeReply(verdicts=verdicts, leases=leases, now=self._clock.now(), next_due=None)
        session.reply(number, reply)
        return reply

    def _settle(self, session: Session, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            hold = session.held.get(outcome.ref)
            if hold is not None and hold.token == outcome.token:
                hold.told = True
        session.write_down()
        released: dict[Ref, int] = {}
        for place, outcome in enumerate(outcomes):
            if place in session.verdicts:
                continue
            (verdict,) = session.judge([outcome])
            if verdict is not None:
                session.verdicts[place] = self._judge_repeat(outcome, verdict)
            elif session.is_over(hold := session.held[outcome.ref]):
                session.verdicts[place] = Verdict.STALE
                session.lose(outcome.ref)
            elif outcome.ref in released:
                session.verdicts[place] = Verdict.ALREADY
            elif outcome.kind is Kind.RELEASED:
                released[outcome.ref] = place
            else:
                session.verdicts[place] = self._report_end(hold, outcome)
                session.settle(outcome.ref)
        self._give_back([session.held[ref].found.job_id for ref in released])
        for ref, place in released.items():
            session.settle(ref)
            session.verdicts[place] = Verdict.OK

    def _judge_repeat(self, outcome: Outcome, verdict: Verdict) -> Verdict:
        """Of a job that is not in hand: the verdict, unless another worker has got it since."""
        if verdict is Verdict.STALE:
            return verdict
        try:
            job = self._client.query_job(int(outcome.ref))
        except DoesNotExist:
            return Verdict.ALREADY if outcome.kind is Kind.DONE else Verdict.STALE
        state = mapping.read_state(job["state"], str(job["nextRun"]), write_moment(self._clock.now()))
        return Verdict.STALE if state is State.RUNNING else Verdict.ALREADY

    def _report_end(self, hold: Hold, outcome: Outcome) -> Verdict:
        try:
            for call in self._end(hold, outcome)[hold.reported :]:
                self._client.run(call)
                hold.reported += 1
        except (DoesNotExist, IllegalAction):
            return Verdict.ALREADY if hold.unsure else Verdict.STALE
        except (MaybeApplied, StoreUnavailable):
            hold.unsure = True
            raise
        return Verdict.OK

    def _end(self, hold: Hold, outcome: Outcome) -> list[Call[None]]:
        job_id = hold.found.job_id
        if outcome.kind is Kind.DONE:
            return [commands.finish_job(job_id)]
        if outcome.kind in (Kind.FAILED, Kind.BROKEN):
            return [commands.fail_job(job_id)]
        if outcome.kind is Kind.WAITING:
            return [self._wait(hold, outcome)]
        said = hold.said if outcome.data is None else outcome.data
        now = self._clock.now()
        at = now + outcome.delay if outcome.at is None else outcome.at
        # A moment on our clock, as RetryJob's own delay counts in whole seconds. No delay needs no clock.
        soon = outcome.at is None and not outcome.delay
        delay, moment = (0, None) if soon else (None, write_moment(at))
        if outcome.kind is Kind.MOVED:
            queue, task = mapping.read_name(str(hold.found.name), self._tasks())
            name = mapping.wire_name(outcome.queue or queue, outcome.task or task)
            mocked = mapping.MOCKED if is_test(queue) else None
            data = mapping.merge_data(outcome.body or self._kept(hold, said), said, mocked)
            return [commands.retry_job(job_id, delay=delay, next_run=moment, name=name, data=data, ignore_repeat=True)]
        counts = outcome.charge is Charge.ATTEMPT or outcome.kind is Kind.CRASHED
        tries = hold.tries + 1 if counts else hold.tries
        data = mapping.merge_data(self._kept(hold, said), said, tries=tries)
        if not tries or data is None:
            return [commands.retry_job(job_id, delay=delay, next_run=moment, data=data, ignore_repeat=True)]
        # RetryJob forgets the tries: they are put back, or a task's retries would never come to an end. Until then the
        # job must not be due; should this process die in between, it is a little late.
        return [
            commands.retry_job(job_id, next_run=write_moment(max(at, now) + BETWEEN), ignore_repeat=True),
            commands.update_job(job_id, data, next_run=moment or str(hold.found.created)),
        ]

    def _wait(self, hold: Hold, outcome: Outcome) -> Call[None]:
        """FinishJob makes a job wait for its children, which are not handed out before; without any it would end it."""
        job_id = hold.found.job_id
        if not find.children(self._client, job_id) >= set(outcome.after):
            log.error("job %s failed: %s", job_id, ONLY_CHILDREN)
            return commands.fail_job(job_id)
        said = hold.said if outcome.data is None else outcome.data
        return commands.finish_job(job_id, mapping.merge_data(self._kept(hold, said), said))

    def _kept(self, hold: Hold, said: bytes | None) -> bytes:
        """The part of a job's data that stays when its run has said what the rest is."""
        if said is None:
            return hold.data
        tasks = self._tasks()
        return mapping.arguments_only(hold.data, tasks.get(mapping.read_name(str(hold.found.name), tasks)[1]))

    def _give_back(self, ids: Sequence[int]) -> None:
        if ids:
            self._client.requeue_jobs(ids, decrement_failures=True)

    def _take(self, session: Session, take: Take | None) -> list[Lease]:
        if take is None:
            session.room = 0
            ids, session.arrived = [found.job_id for found in session.arrived], []
            session.write_down()
            self._give_back(ids)
            return []
        session.names = self._names(session, take.queues)
        wanted = take.slots + take.spare
        jobs, session.arrived = session.arrived[:wanted], session.arrived[wanted:]
        in_order = session.names
        if not take.round_robin:
            in_order = [names for queue in take.queues for names in self._names(session, (queue,))]
        try:
            for names in in_order:
                if len(jobs) < wanted:
                    jobs += self._get(names, wanted - len(jobs))
        except BaseException:
            session.arrived += jobs  # they are ours already: the next request gets them
            raise
        session.room = take.slots - min(len(jobs), take.slots)
        return [self._lease(session, found, spare=place >= take.slots) for place, found in enumerate(jobs)]

    def _names(self, session: Session, queues: Sequence[str]) -> list[str]:
        tasks = sorted({*self._tasks(), *(() if session.info is None else session.info.tasks)})
        names = [mapping.wire_name(queue, task) for queue in queues for task in tasks]
        return mapping.name_lists(name for name in names if "," not in name)

    def _get(self, names: str, count: int) -> list[Found]:
        try:
            return self._client.run(get_found(names, count))
        except DoesNotExist:
            return []

    def _lease(self, session: Session, found: Found, *, spare: bool) -> Lease:
        tasks = self._tasks()
        queue, name = mapping.read_name(str(found.name), tasks)
        task = tasks.get(name)
        body, data, tries = mapping.split_data(bytes(found.data), task)
        left = mapping.time_left(found, self._clock.now())
        limit = mapping.time_limit(left, task)
        token = next(_tokens)
        session.hold(found.job_id, Hold(found, token, tries, session.until(left)))
        return Lease(
            ref=found.job_id,
            token=token,
            id=str(found.job_id),
            task=name,
            queue=queue,
            body=body,
            options=None if limit is None else _encode(Overrides(timeout=limit)),
            data=data,
            attempts=tries,
            extras=Extras(
                attempt_limit=MOST_TRIES,
                after=tuple(str(one.job_id) for one in found.children)
                or ((str(found.parent_id),) * bool(found.parent_id)),
                resumed=bool(found.children),
                tick=mapping.milliseconds_of(found.next_run) if found.repeat else None,
            ),
            priority=found.priority - DEFAULT_PRIORITY,
            created=mapping.milliseconds_of(found.created) or 0,
            due=mapping.milliseconds_of(found.next_run) or 0,
            spare=spare,
        )

    def report(self, session: Session, number: int, reports: Sequence[Report]) -> list[Reported]:
        """Data of running jobs. Progress and log lines have no place in Bedrock."""
        return [Reported(self._report(session, report)) for report in reports]

    def _report(self, session: Session, report: Report) -> bool:
        hold = session.current(report.ref, report.token)
        if hold is None or report.data is None:
            return hold is not None
        # The hand-out itself has counted a try: it stays counted, should this process die.
        tries = hold.tries + 1 if hold.found.retry_after else hold.tries
        data = mapping.merge_data(self._kept(hold, report.data), report.data, tries=tries)
        if data is None:
            return False
        try:
            self._client.update_job(hold.found.job_id, data)
        except BedrockError:
            return False
        hold.said = report.data
        return True

    def renew(self, session: Session, held: Sequence[tuple[Ref, Token, str]]) -> Renewal:
        """Nothing can be renewed: a lease lasts as long as its job's retryAfter. Says which ones are over."""
        lost = [job_id for ref, token, job_id in held if session.current(ref, token) is None]
        return Renewal(now=self._clock.now(), lost=lost)

    def close(self, session_id: str, crashed: Sequence[Ref]) -> list[str]:
        """Give back what a session holds, or has inherited; with the try counted where a function was entered."""
        session = self._book.close(session_id)
        if session is None:
            return []
        if session.custody is not None:  # before Bedrock knows of it: see Session.fences
            session.custody.keep({})
        held = [*map(int, session.held), *(found.job_id for found in session.arrived), *session.inherited]
        dead = [job_id for job_id in held if job_id in crashed]
        if dead:
            self._client.requeue_jobs(dead)
        left = [job_id for job_id in held if job_id not in dead]
        self._give_back(left)
        return [str(job_id) for job_id in (*dead, *left)]
