"""Settle, take, renew and give back: outcomes become scores, claimed entries become leases."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from headrace.dialects.on_redis import Stepwise
from headrace.records import (
    NO_EXTRAS,
    Charge,
    ExchangeReply,
    Extras,
    Kind,
    Lease,
    Outcome,
    Ref,
    Renewal,
    Report,
    Take,
    Token,
    Verdict,
)
from headrace.schedule import ScheduleError
from headrace.store.contract import Reported

from .payload import by_name, read_payload, shown, shown_id
from .schedules import recurs
from .sessions import Fence, Hold, Session, reference
from .times import next_time, read_cron
from .wire import Answer, Claim, Settlement

if TYPE_CHECKING:
    from .store import WorkKitStore

log = logging.getLogger("headrace.workkit")

PATIENCE = 1_000
"""Milliseconds for which an entry that a published listener has out for an instant is waited for."""
INSTANT = 0.005
"""Seconds after which to look for it again."""
MOST_CALLS = 50
"""How often to go on looking past jobs that can't be run here, in one exchange."""
COUNTED = 10_000
"""Jobs whose attempts or crashes this process remembers, as the wire can't."""
LATELY, MOST = 300_000, 1_000
"""For how many milliseconds a job that is left for others is remembered, and how many jobs are."""


class Lately:
    """Ids that were met in the last minutes."""

    def __init__(self, steady: Callable[[], int]) -> None:
        self._steady = steady
        self._met: dict[str, int] = {}

    def add(self, identity: str) -> bool:
        """False: it is among them already."""
        new = identity not in self.ids()
        if new:
            self._met[identity] = self._steady()
        return new

    def ids(self) -> tuple[str, ...]:
        horizon = self._steady() - LATELY
        while self._met and (len(self._met) > MOST or next(iter(self._met.values())) <= horizon):
            del self._met[next(iter(self._met))]
        return tuple(self._met)


class Exchanges:
    """Settles and takes for the sessions of this process."""

    def __init__(self, store: WorkKitStore) -> None:
        self._store = store
        self._counters: dict[str, tuple[int, int]] = {}
        """Attempts and crashes by job id, as far as this process knows: the wire has no room for them."""
        self.unusable = Lately(store.timekeeper.steady)
        """Ids that a script took for ours and that can't be run after all: passed over for a while, as a module that
        can't be imported now may be mended."""
        self._reported = Lately(store.timekeeper.steady)
        """Ids that operators were told of: jobs that are left for others are met at every look."""
        self._last_token = 0

    def exchange(
        self, session: Session, number: int, outcomes: Sequence[Outcome], take: Take | None
    ) -> Stepwise[ExchangeReply]:
        replied = session.replied(number)
        if replied is not None:
            return replied
        store = self._store
        yield from store.ask_time()
        again = session.sends(number)
        verdicts = {place: known for place, known in enumerate(session.judge(outcomes)) if known is not None}
        asked = {place: self._settlement(session, one) for place, one in enumerate(outcomes) if place not in verdicts}
        queue = store.queue_of(take.queues) if take is not None else None
        wanted = take.slots + take.spare if take is not None and queue is not None else 0
        leases = session.begun
        offset = 0
        for number_of_calls in itertools.count(1):
            reply = yield store.wire.exchange(
                [*asked.values(), *(_undo(fence) for fence in session.returns)],
                lease=store.settings.lease,
                wanted=wanted - len(leases),
                offset=offset,
                likenesses=store.handlers.likenesses,
                skip=self.unusable.ids(),
                last_token=self._last_token,
                again=again,
            )
            self._last_token = max(self._last_token, reply.token if reply.claims else 0)
            for place, answer in zip(asked, reply.answers, strict=False):
                verdicts[place] = self._settled(session, outcomes[place], answer)
            for identity, job in reply.passed:
                self._leave(identity, f"{shown(job)} is not known here" if job else "it is not a job that can be read")
            fresh, unusable = self._accept(session, reply.claims, reply.token, queue or "")
            leases += fresh
            # What turned out to be unusable goes back with the next call, which looks for something in its place.
            session.returns = [Fence(one.member, one.id, reply.token, one.due) for one in unusable]
            session.write_down()
            asked = {}
            if number_of_calls == MOST_CALLS:
                wanted = len(leases)
            if not unusable and (reply.resume is None or len(leases) >= wanted):
                break
            offset = 0 if unusable else reply.resume or 0
        for index, lease in enumerate(leases):
            lease.spare = take is not None and index >= take.slots
        session.has_room = take is not None and len(leases) < take.slots
        session.next_due = reply.next_due
        session.seen = reply.now
        answer = ExchangeReply([verdicts[place] for place in range(len(outcomes))], leases, reply.now, reply.next_due)
        if Verdict.LATER in answer.verdicts:
            time.sleep(INSTANT)  # the pump sends it again at once: an instant is what the other one needs
        session.reply(number, answer)
        return answer

    def report(self, session: Session, number: int, reports: Sequence[Report]) -> list[Reported]:
        """Progress, data and log lines have no place on the wire: nothing is recorded, and the run goes on."""
        if session.replied(number) is None:
            session.reply(number, None)
        return [Reported.LOST for _ in reports]

    def renew(self, session: Session, held: Sequence[tuple[Ref, Token, str]]) -> Stepwise[Renewal]:
        """Put the ends of leases off. Without leases: only whether the server answers, for a worker that is cut off."""
        if not held:
            return Renewal((yield self._store.wire.time()))
        yield from self._store.ask_time()
        later = self._later_token()
        mine = {hold.id: hold for ref, token, _ in held if (hold := session.held.get(ref)) and hold.token == token}
        session.later = later
        session.write_down()  # before it is asked: it may arrive, and this process hear of nothing more
        now, answers = yield self._store.wire.renew([(h.member, h.id, h.token, later) for h in mine.values()])
        lost = [name for _, _, name in held if name not in mine]
        cancelled: list[str] = []
        tokens: dict[str, Token] = {}
        for hold, answer in zip(mine.values(), answers, strict=True):
            if answer is Answer.OK:
                hold.token = tokens[hold.id] = later
            elif answer is Answer.GONE:
                cancelled.append(hold.id)
            elif answer is not Answer.LATER:
                lost.append(hold.id)
        session.later = None
        session.write_down()
        session.seen = now
        return Renewal(now, lost, cancelled, tokens)

    def close(self, session_id: str, crashed: Sequence[Ref]) -> Stepwise[list[str]]:
        session = self._store.book.find(session_id)
        given_back = [] if session is None else (yield from self._give_back(session, crashed))
        self._store.book.close(session_id)
        return given_back

    def _give_back(self, session: Session, crashed: Sequence[Ref]) -> Stepwise[list[str]]:
        """Everything that the session still holds, but jobs that keep killing their processes: see `Crashes`."""
        fences = self._store.book.without_culprits(session.fences(), crashed, lambda fence: fence.id)
        now = yield from self._store.ask_time()
        settlements = []
        for fence in fences.values():
            # An entry that is out for an instant is written anew, unless it may be another's by now.
            settlements.append(_undo(fence, insist=fence.token > now))
            if fence.later is not None:
                settlements.append(_undo(fence._replace(token=fence.later)))
        given_back = []
        for start in range(0, len(settlements), 500):
            some = settlements[start : start + 500]
            reply = yield self._store.wire.exchange(some)
            ours = (Answer.OK, Answer.AS_WISHED)
            given_back += [one.id for one, answer in zip(some, reply.answers, strict=True) if answer in ours]
        if session.custody is not None:
            session.custody.keep({})
        return list(dict.fromkeys(given_back))

    def counters(self, identity: str) -> tuple[int, int]:
        return self._counters.get(identity, (0, 0))

    def _later_token(self) -> int:
        """For renewed leases: none that this process has had, and no whole second, which is a run time."""
        token = max(self._store.timekeeper.now() + self._store.settings.lease, self._last_token + 1)
        self._last_token = token + (token % 1000 == 0)
        return self._last_token

    def _settlement(self, session: Session, outcome: Outcome) -> Settlement:
        hold = session.held[outcome.ref]
        absent = hold.absent_since
        insist = absent is not None and self._store.timekeeper.steady() - absent >= PATIENCE
        return Settlement(hold.member, hold.id, hold.token, self._target(hold, outcome), insist)

    def _target(self, hold: Hold, outcome: Outcome) -> int | None:
        """The score that an outcome leads to; None: the job is over."""
        now = self._store.timekeeper.now()
        kind = outcome.kind
        if kind is Kind.CRASHED and hold.crashes + 1 >= hold.max_crashes:
            log.error("job %s crashed %d times: it is given up", hold.id, hold.crashes + 1)
        elif kind in (Kind.RELEASED, Kind.CRASHED):
            return hold.due
        elif kind is Kind.AGAIN:
            moment = outcome.at if outcome.at is not None else now + outcome.delay
            return now // 1000 * 1000 if moment <= now else -(-moment // 1000) * 1000
        elif kind is Kind.MOVED:
            log.error(
                "job %s wants to go on in the queue %r: a WorkKit schedule has no other, so its run ends here. "
                "Add a job to the other schedule instead.",
                hold.id,
                outcome.queue,
            )
        return next_time(hold.cron, max(now, hold.due))

    def _settled(self, session: Session, outcome: Outcome, answer: Answer) -> Verdict:
        hold = session.held[outcome.ref]
        if answer is Answer.LATER:
            if hold.absent_since is None:
                hold.absent_since = self._store.timekeeper.steady()
            return Verdict.LATER
        self._counters.pop(hold.id, None)
        if answer is not Answer.OK:
            session.lose(hold.ref)
            return Verdict.STALE
        session.settle(hold.ref)
        if outcome.kind in (Kind.AGAIN, Kind.RELEASED, Kind.CRASHED):
            attempts = hold.attempts + (outcome.charge is Charge.ATTEMPT)
            crashes = hold.crashes + (outcome.kind is Kind.CRASHED)
            if attempts + crashes > 0 and crashes < hold.max_crashes:
                self._counters[hold.id] = attempts, crashes
        while len(self._counters) > COUNTED:
            del self._counters[next(iter(self._counters))]
        return Verdict.OK

    def _accept(
        self, session: Session, claims: Sequence[Claim], token: int, queue: str
    ) -> tuple[list[Lease], list[Claim]]:
        """Leases, and claims that can't be run here after all: a script knows less about names and crons than we do."""
        leases: list[Lease] = []
        unusable: list[Claim] = []
        for claim in claims:
            payload = read_payload(claim.payload)
            try:
                if payload is None or not claim.id.isprintable():
                    raise ScheduleError("its payload is not a job, or its id is not text")
                job, arguments = payload.call
                if (name := self._store.handlers.find(job)) is None:
                    raise ScheduleError(f"{shown(payload.job)} is not known here")
                cron = read_cron(payload.cron, self._store.settings.cron_order)
            except ScheduleError as error:
                self._leave(claim.id, str(error))
                self.unusable.add(claim.id)
                unusable.append(claim)
                continue
            task = self._store.tasks.get(name)
            attempts, crashes = self.counters(claim.id)
            most = 3 if task is None else task.options.max_crashes
            ref = reference(claim.member, claim.id)
            hold = Hold(ref, claim.id, claim.member, token, claim.due, cron, attempts, crashes, most)
            for known in self._store.book:
                known.forget(hold.ref)
            session.hold(hold.ref, hold)
            leases.append(
                Lease(
                    ref=hold.ref,
                    token=token,
                    id=claim.id,
                    task=name,
                    queue=queue,
                    body=by_name(task, arguments),
                    attempts=attempts,
                    crashes=crashes,
                    max_crashes=most,
                    created=claim.due,
                    due=claim.due,
                    extras=Extras(tick=claim.due) if recurs(payload, self._store.settings.cron_order) else NO_EXTRAS,
                )
            )
        return leases, unusable

    def _leave(self, identity: str, reason: str) -> None:
        """Tell operators, once in a while, of a due job that is left for others."""
        if self._reported.add(identity):
            schedule, name = self._store.settings.schedule, shown_id(identity)
            log.warning("schedule %s: job %s is left for others: %s", schedule, name, reason)


def _undo(fence: Fence, *, insist: bool = False) -> Settlement:
    return Settlement(fence.member, fence.id, fence.token, fence.due, insist)
