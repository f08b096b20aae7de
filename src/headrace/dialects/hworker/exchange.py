"""What a session asks of the server: settle and take in one step, renew, give back at the end.

The wire has no owner, no attempts and no delays. A retry that has to wait rests in this process, in progress and kept
alive, and goes to the back of the line when its time has come.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Sequence

from headrace.dialects.hworker import requests
from headrace.dialects.hworker.catalogue import Catalogue
from headrace.dialects.hworker.options import Options
from headrace.dialects.hworker.requests import Record, give_back, keep, settle
from headrace.dialects.hworker.sessions import Hold, Session
from headrace.dialects.hworker.wire import BrokenEntry, read
from headrace.dialects.lease_book import LeaseBook
from headrace.dialects.on_redis import Stepwise
from headrace.records import ExchangeReply, Kind, Lease, Outcome, Ref, Renewal, Report, Take, Token, Verdict
from headrace.store.contract import Reported

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


class Exchanges:
    """What the sessions of this process ask of the server."""

    def __init__(self, options: Options, catalogue: Catalogue, book: LeaseBook[Session]) -> None:
        self._options = options
        self._catalogue = catalogue
        self._book = book
        self._refs = itertools.count(1)
        self._server_now = 0
        self._asked = 0.0

    def exchange(
        self, session: Session, number: int, outcomes: Sequence[Outcome], take: Take | None
    ) -> Stepwise[ExchangeReply]:
        replied = session.replied(number)
        if replied is not None:
            return replied
        queues = self._catalogue.served(() if take is None else take.queues)
        verdicts = session.judge(outcomes)
        again = session.sends(number)
        yield from self._keep_resting(session)
        at = self._estimate()
        rested = {ref: hold for ref, hold in session.resting.items() if hold.due <= at}
        to_rest = {i for i, outcome in enumerate(outcomes) if verdicts[i] is None and self._rests(outcome)}
        sent = [
            (i, (session.held[outcome.ref].record, WHAT[outcome.kind]))
            for i, outcome in enumerate(outcomes)
            if verdicts[i] is None and outcome.kind in WHAT and i not in to_rest
        ]
        done = yield requests.exchange(
            [*(outcome for _, outcome in sent), *((hold.record, requests.RETRY) for hold in rested.values())],
            0 if take is None else take.slots + self._spare(take),
            list(queues),
            self._options.failed_size,
            round_robin=take is not None and take.round_robin,
        )
        session.seen = self._server_now = done.now // 1000
        self._asked = time.monotonic()
        for (i, _), settled in zip(sent, done.ours[: len(sent)], strict=True):
            # What an earlier attempt may have settled, whose answer got lost, is not held against us.
            verdicts[i] = Verdict.OK if settled else Verdict.ALREADY if again or done.unsure else Verdict.STALE
        session.resting = {ref: hold for ref, hold in session.resting.items() if ref not in rested}
        if to_rest and not session.resting:
            session.keep_at = self._keep_at()
        for i in to_rest:
            ref = outcomes[i].ref
            session.resting[ref] = session.held[ref]._replace(due=self._due(outcomes[i]))
        answers = _settle(session, outcomes, verdicts)
        leases, broken = self._leases(session, done.taken, queues, take)
        session.write_down()
        if take is not None:
            session.has_room = len(done.taken) < take.slots or bool(broken)
        reply = ExchangeReply(answers, leases, self._server_now, self._come_back(session))
        session.reply(number, reply)
        if broken:  # should this fail, a monitor will bring them again
            yield settle(broken, requests.IS_BROKEN)
        return reply

    def _spare(self, take: Take) -> int:
        prefetch = self._options.prefetch
        return take.spare if prefetch is None else min(take.spare, (prefetch - 1) * max(take.slots, 1))

    def _rests(self, outcome: Outcome) -> bool:
        return outcome.kind is Kind.AGAIN and (outcome.delay > 0 or (outcome.at or 0) > self._estimate())

    def _due(self, outcome: Outcome) -> int:
        due = outcome.at if outcome.at is not None else self._server_now + outcome.delay
        if not self._options.keep_alive:  # a monitor would find it
            due = min(due, self._server_now + round(self._options.timeout * 500))
        return due

    def _leases(
        self, session: Session, taken: Sequence[Record], queues: dict[str, tuple[str, str]], take: Take | None
    ) -> tuple[list[Lease], list[Record]]:
        leases: list[Lease] = []
        broken = []
        in_use = {hold.id for hold in session.held.values()}
        for record in taken:
            queue, task = queues[record.name]
            try:
                wire_id, payload = read(record.raw)
                body = self._catalogue.body(task, payload)
            except BrokenEntry as error:
                log.error("queue %s: broken entry %r: %s", record.name, record.raw[:200], error)
                broken.append(record)
                continue
            ref = next(self._refs)
            hold = Hold.of(record, wire_id, ref, in_use)
            session.hold(ref, hold)
            leases.append(
                Lease(
                    ref=ref,
                    token=hold.token,
                    id=hold.id,
                    task=task,
                    queue=queue,
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

    def report(self, session: Session, number: int, reports: Sequence[Report]) -> list[Reported]:
        """Lines go to the log; data and progress have no place on the wire."""
        for report in reports:
            for _, line in report.log:
                log.info("job %s: %s", report.id, line)
        return [Reported(report.ref in session.held) for report in reports]

    def renew(self, session: Session, held: Sequence[tuple[Ref, Token, str]]) -> Stepwise[Renewal]:
        if not held:
            # Of another process, or nothing in hand: all that is asked is whether the server can be reached.
            session.seen = yield requests.now()
            return Renewal(session.seen)
        yield from self._keep_resting(session)
        ours = {ref: session.held[ref] for ref, _, _ in held if ref in session.held}
        # The pump also asks when it has heard news: then looking is enough.
        refresh = time.monotonic() - session.refreshed >= self._options.timeout / 10
        kept = yield from keep([hold.record for hold in ours.values()], self._options, refresh=refresh)
        if refresh:
            session.refreshed = time.monotonic()
        records = dict(zip(ours, kept, strict=True))
        tokens: dict[str, Token] = {}
        lost = []
        for ref, token, job_id in held:
            record = records.get(ref)
            if record is None or ours[ref].token != token:
                lost.append(job_id)
                if record is None:
                    session.lose(ref)
            elif ref in session.held:
                session.held[ref] = renewed = ours[ref]._replace(record=record)
                if renewed.token != token:
                    tokens[job_id] = renewed.token
        session.write_down()
        session.seen = self._estimate()
        return Renewal(session.seen, lost, (), tokens)

    def _keep_resting(self, session: Session) -> Stepwise[None]:
        """What rests has no lease that the pump could renew."""
        if not session.resting or self._estimate() < session.keep_at:
            return
        session.keep_at = self._keep_at()
        kept = yield from keep([hold.record for hold in session.resting.values()], self._options)
        session.resting = {
            ref: hold._replace(record=record)
            for (ref, hold), record in zip(session.resting.items(), kept, strict=True)
            if record is not None
        }
        session.write_down()

    def _keep_at(self) -> int:
        """When what is alive now must say so again, on the server's clock."""
        return self._estimate() + round(self._options.timeout * 1000 / 3)

    def _come_back(self, session: Session) -> int | None:
        """When the pump should ask again: something is due, or must be kept alive until it is."""
        if not session.resting:
            return None
        return min(session.keep_at, *(hold.due for hold in session.resting.values()))

    def close(self, session_id: str, crashed: Sequence[Ref]) -> Stepwise[list[str]]:
        session = self._book.close(session_id)
        if session is None:
            return []
        held = self._book.without_culprits(session.held, crashed, lambda hold: hold.id)
        # The one taken first is to run first again: it is pushed last.
        holds = list(held.values())[::-1]
        given_back = yield from give_back([hold.record for hold in holds])
        if session.resting:
            yield settle([hold.record for hold in session.resting.values()], requests.RETRY)
        if session.custody is not None:
            session.custody.keep({})
        return [hold.id for hold, was_ours in zip(holds, given_back, strict=True) if was_ours][::-1]


def _settle(session: Session, outcomes: Sequence[Outcome], verdicts: Sequence[Verdict | None]) -> list[Verdict]:
    """The server has answered: what was settled, or belongs to others, is no longer in hand."""
    answers = []
    for outcome, verdict in zip(outcomes, verdicts, strict=True):
        # No verdict, and nothing sent: it rests, or it crashed and is left to the monitors.
        answer = Verdict.OK if verdict is None else verdict
        answers.append(answer)
        hold = session.held.get(outcome.ref)
        if hold is None or hold.token != outcome.token:
            continue
        if answer is Verdict.STALE:
            session.lose(outcome.ref)
        else:
            session.settle(outcome.ref)
        if outcome.kind is Kind.MOVED:
            log.error(
                "job %s failed: it cannot move to %s, as a job does not say what it is", outcome.id, outcome.queue
            )
    return answers
