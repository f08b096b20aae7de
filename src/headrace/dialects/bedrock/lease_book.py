"""A worker's session, as this process knows it: which jobs it has in hand, and until when. Bedrock knows nothing of it.

FinishJob has no owner, so a run that has outlived its job's retryAfter must not report: the job may be
another worker's by now. Its time is kept here, on a clock that never jumps.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from headrace.dialects.bedrock.client import commands
from headrace.dialects.bedrock.client.client import Client
from headrace.dialects.bedrock.client.commands import Call
from headrace.dialects.bedrock.client.replies import BedrockError, DoesNotExist, IllegalAction, Reply
from headrace.dialects.bedrock.mapping import (
    Found,
    FoundJobs,
    Tasks,
    merge_data,
    milliseconds_of,
    name_lists,
    read_name,
    read_state,
    split_data,
    time_left,
    time_limit,
    wire_name,
)
from headrace.dialects.bedrock.times import write_moment
from headrace.dialects.bedrock.wire import DEFAULT_PRIORITY, MOST_TRIES
from headrace.errors import MaybeApplied, StaleRequest, StoreUnavailable
from headrace.options import Overrides
from headrace.records import Charge, ExchangeReply, Kind, Lease, Outcome, Ref, Report, State, Take, Token, Verdict
from headrace.values.clock import Clock

if TYPE_CHECKING:
    from headrace.worker.custody import Custody

T = TypeVar("T")

BETWEEN = 60_000
"""Milliseconds by which a job is late whose worker died between the two requests that a counted retry takes."""

MOST_REMEMBERED = 1_000
"""Ends of runs, so that one told twice is known."""

_decode_jobs = msgspec.json.Decoder(FoundJobs).decode
_encode = msgspec.json.Encoder().encode
_tokens = itertools.count(1)


def get_found(names: str, count: int, *, wait: int | None = None) -> Call[list[Found]]:
    """GetJobs, its answers with their data as it came. `wait`: for so many milliseconds."""
    headers = {"name": names, "numResults": count}
    if wait is not None:
        headers |= {"Connection": "wait", "Timeout": wait}
    return Call("GetJobs", headers, lambda reply: _decode_jobs(reply.body).jobs, patience=wait or 0)


def read_found(reply: Reply) -> list[Found]:
    return _decode_jobs(reply.check().body).jobs


class Hand:
    """One job in hand."""

    __slots__ = ("data", "ends", "found", "reported", "said", "token", "told", "tries", "unsure")

    def __init__(self, found: Found, token: int, tries: int, ends: int | None) -> None:
        self.found = found
        self.token = token
        self.tries = tries
        self.ends = ends
        """When others may get it, on the steady clock."""
        self.data = bytes(found.data)
        self.said: bytes | None = None
        """What its run has left in its data."""
        self.reported = 0
        """How much of its end Bedrock has been told: some ends take two requests."""
        self.told = False
        """Bedrock may have heard of its end."""
        self.unsure = False
        """A report may have been heard already: a refusal then is no surprise."""


class Session:
    """What one worker process holds, and the requests it makes."""

    def __init__(self, clock: Clock, tasks: Callable[[], Tasks], names: Sequence[str] = ()) -> None:
        self._clock = clock
        self._tasks = tasks
        self._task_names = tuple(names)
        self.hands: dict[int, Hand] = {}
        self.arrived: list[Found] = []
        """Jobs that came while waiting, for the worker's next request."""
        self.inherited: list[int] = []
        """Jobs that a process held which has died."""
        self.custody: Custody | None = None
        self.room = 0
        """How many more jobs the worker would take: none while its slots are full."""
        self.queues: tuple[str, ...] = ()
        self._number = 0
        self._answer: ExchangeReply | None = None
        self._verdicts: dict[int, Verdict] = {}
        self._ended: dict[int, tuple[int, Kind]] = {}
        """The last ends that Bedrock was told of: tokens and kinds."""

    def names(self, queues: Sequence[str]) -> list[str]:
        """All names that the worker's tasks have in these queues."""
        tasks = self._tasks() or dict.fromkeys(self._task_names)
        return [
            wire_name(queue, task) for queue in queues for task in sorted(tasks) if "," not in wire_name(queue, task)
        ]

    # -- exchange --

    def exchange(self, client: Client, number: int, outcomes: Sequence[Outcome], take: Take | None) -> ExchangeReply:
        """Settle, then take. Repeated after a failure, it goes on where it was."""
        if number < self._number:
            raise StaleRequest(f"Request {number} came after request {self._number}.")
        if number == self._number and self._answer is not None:
            return self._answer
        if number != self._number:
            self._number, self._answer, self._verdicts = number, None, {}
        self._settle(client, outcomes)
        try:
            leases = self._take(client, take)
        finally:
            self.write_down()
        verdicts = [self._verdicts[index] for index in range(len(outcomes))]
        self._answer = ExchangeReply(verdicts=verdicts, leases=leases, now=self._clock.now(), next_due=None)
        return self._answer

    def write_down(self) -> None:
        """For the supervisor, should this process die: what is in hand, and until when on the machine's clock.

        But not what Bedrock may have heard the end of: that job may be another's, and RequeueJobs asks for no owner.
        """
        if self.custody is not None:
            held: dict[Ref, Sequence[Any]] = {
                job_id: (hand.ends,) for job_id, hand in self.hands.items() if not hand.told
            }
            for found in self.arrived:
                held[found.job_id] = (self._until(time_left(found, self._clock.now())),)
            self.custody.keep(held)

    def inherit(self, held: Mapping[Ref, Sequence[Any]]) -> None:
        """What a process that died had written down: the jobs that can't be another's yet."""
        now = self._clock.steady()
        self.inherited = [int(ref) for ref, (ends,) in held.items() if ends is None or now < ends]

    def _settle(self, client: Client, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            hand = self.hands.get(int(outcome.ref))
            if hand is not None and hand.token == outcome.token:
                hand.told = True
        self.write_down()
        released: dict[int, int] = {}
        for index, outcome in enumerate(outcomes):
            if index in self._verdicts:
                continue
            hand = self.hands.get(int(outcome.ref))
            if hand is None or hand.token != outcome.token:
                self._verdicts[index] = self._verdict_on_a_repeat(client, outcome)
            elif self._is_over(hand):
                self._verdicts[index] = Verdict.STALE
                del self.hands[hand.found.job_id]
            elif hand.found.job_id in released:
                self._verdicts[index] = Verdict.ALREADY
            elif outcome.kind is Kind.RELEASED:
                released[hand.found.job_id] = index
            else:
                self._verdicts[index] = self._report_end(client, hand, outcome)
                del self.hands[hand.found.job_id]
                self._remember_end(hand, outcome.kind)
        if released:
            hands = [self.hands[job_id] for job_id in released]
            self.give_back(client, list(released))
            for hand in hands:
                self._remember_end(hand, Kind.RELEASED)
            self._verdicts |= dict.fromkeys(released.values(), Verdict.OK)

    def _remember_end(self, hand: Hand, kind: Kind) -> None:
        self._ended[hand.found.job_id] = hand.token, kind
        if len(self._ended) > MOST_REMEMBERED:
            del self._ended[next(iter(self._ended))]

    def _verdict_on_a_repeat(self, client: Client, outcome: Outcome) -> Verdict:
        """Of a job that is not in hand: has its end been told already, or has another worker got it since?"""
        token, kind = self._ended.get(int(outcome.ref), (None, None))
        if token != outcome.token:
            return Verdict.STALE
        if kind is Kind.DONE:
            return Verdict.ALREADY
        try:
            job = client.run(commands.query_job(int(outcome.ref)))
        except DoesNotExist:
            return Verdict.STALE
        state = read_state(job["state"], str(job["nextRun"]), write_moment(self._clock.now()))
        return Verdict.STALE if state is State.RUNNING else Verdict.ALREADY

    def _report_end(self, client: Client, hand: Hand, outcome: Outcome) -> Verdict:
        try:
            for call in self._end(hand, outcome)[hand.reported :]:
                client.run(call)
                hand.reported += 1
        except (DoesNotExist, IllegalAction):
            return Verdict.ALREADY if hand.unsure else Verdict.STALE
        except (MaybeApplied, StoreUnavailable):
            hand.unsure = True
            raise
        return Verdict.OK

    def _end(self, hand: Hand, outcome: Outcome) -> list[Call[None]]:
        """What to tell Bedrock about the end of a run."""
        job_id = hand.found.job_id
        if outcome.kind is Kind.DONE:
            return [commands.finish_job(job_id)]
        if outcome.kind in (Kind.FAILED, Kind.BROKEN):
            return [commands.fail_job(job_id)]
        delay, moment = self._when(outcome)
        if outcome.kind is Kind.MOVED:
            queue, task = read_name(str(hand.found.name), self._tasks())
            name = wire_name(outcome.queue or queue, outcome.task or task)
            data = merge_data(outcome.body or hand.data, outcome.data)
            return [commands.retry_job(job_id, delay=delay, next_run=moment, name=name, data=data, ignore_repeat=True)]
        counts = outcome.charge is Charge.ATTEMPT or outcome.kind is Kind.CRASHED
        tries = hand.tries + 1 if counts else hand.tries
        data = merge_data(hand.data, hand.said, outcome.data, tries=tries)
        if not tries or data is None:
            return [commands.retry_job(job_id, delay=delay, next_run=moment, data=data, ignore_repeat=True)]
        # RetryJob forgets the tries: they are put back, or a task's retries would never come to an end. Until then the
        # job must not be due; should this process die in between, it is a little late.
        now = self._clock.now()
        later = write_moment(max(now + outcome.delay if outcome.at is None else outcome.at, now) + BETWEEN)
        return [
            commands.retry_job(job_id, next_run=later, ignore_repeat=True),
            commands.update_job(job_id, data, next_run=moment or str(hand.found.created)),
        ]

    def _when(self, outcome: Outcome) -> tuple[int | None, str | None]:
        """No delay, which needs no clock, or a moment on ours: RetryJob's own delay counts in whole seconds."""
        if outcome.at is None and not outcome.delay:
            return 0, None
        return None, write_moment(self._clock.now() + outcome.delay if outcome.at is None else outcome.at)

    def _is_over(self, hand: Hand) -> bool:
        return hand.ends is not None and self._clock.steady() >= hand.ends

    def give_back(self, client: Client, ids: Sequence[int]) -> None:
        """Unspent: back in line, with the try undone."""
        if ids:
            client.run(commands.requeue_jobs(ids, decrement_failures=True))
            for job_id in ids:
                self.hands.pop(job_id, None)

    # -- taking --

    def lay_aside(self, jobs: list[Found]) -> None:
        """Jobs that came while waiting, for the worker's next request."""
        self.arrived += jobs
        self.write_down()

    def _take(self, client: Client, take: Take | None) -> list[Lease]:
        if take is None:
            self.room = 0
            ids, self.arrived = [found.job_id for found in self.arrived], []
            self.write_down()
            self.give_back(client, ids)
            return []
        self.queues = take.queues
        wanted = take.slots + take.spare
        jobs, self.arrived = self.arrived[:wanted], self.arrived[wanted:]
        lines = [take.queues] if take.round_robin else [(queue,) for queue in take.queues]
        try:
            for queues in lines:
                for names in name_lists(self.names(queues)):
                    if len(jobs) < wanted:
                        jobs += self._get(client, names, wanted - len(jobs))
        except BaseException:
            self.arrived += jobs  # they are ours already: the next request gets them
            raise
        self.room = take.slots - min(len(jobs), take.slots)
        return [self._lease(found, spare=place >= take.slots) for place, found in enumerate(jobs)]

    def _get(self, client: Client, names: str, count: int) -> list[Found]:
        try:
            return client.run(get_found(names, count))
        except DoesNotExist:
            return []

    def _lease(self, found: Found, *, spare: bool) -> Lease:
        now = self._clock.now()
        tasks = self._tasks()
        queue, name = read_name(str(found.name), tasks)
        task = tasks.get(name)
        body, data, tries = split_data(bytes(found.data), task)
        left = time_left(found, now)
        limit = time_limit(left, task)
        ends = self._until(left)
        token = next(_tokens)
        self.hands[found.job_id] = Hand(found, token, tries, ends)
        self._ended.pop(found.job_id, None)
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
            attempt_limit=MOST_TRIES,
            priority=found.priority - DEFAULT_PRIORITY,
            created=milliseconds_of(found.created) or 0,
            due=milliseconds_of(found.next_run) or 0,
            spare=spare,
        )

    def _until(self, left: int | None) -> int | None:
        """When others may get a job that is ours for so many milliseconds, on the steady clock; None: never."""
        # A second is lost to Bedrock's rounding, another is for the way.
        return None if left is None else self._clock.steady() + max(left - 2_000, left * 3 // 4)

    # -- while jobs run --

    def report(self, client: Client, reports: Sequence[Report]) -> list[bool]:
        """Data of running jobs. Progress and log lines have no place in Bedrock."""
        return [self._report(client, report) for report in reports]

    def _report(self, client: Client, report: Report) -> bool:
        hand = self.hands.get(int(report.ref))
        if hand is None or hand.token != report.token or self._is_over(hand):
            return False
        if report.data is None:
            return True
        # The hand-out itself has counted a try: it stays counted, should this process die.
        tries = hand.tries + 1 if hand.found.retry_after else hand.tries
        data = merge_data(hand.data, hand.said, report.data, tries=tries)
        if data is None:
            return False
        try:
            client.run(commands.update_job(hand.found.job_id, data))
        except BedrockError:
            return False
        hand.said = merge_data(hand.said or b"{}", report.data)
        return True

    def lost(self, held: Sequence[tuple[Ref, Token, str]]) -> list[str]:
        """Which of these jobs others may have by now."""
        return [
            job_id
            for ref, token, job_id in held
            if (hand := self.hands.get(int(ref))) is None or hand.token != token or self._is_over(hand)
        ]
