"""A drain out of a wire that has no place to claim jobs in: a step leases jobs, as a worker does.

A target that knows ids gets the jobs in a paused queue. They leave it once the source has settled them for this drain:
a lease that has run out, because the drain was stopped or killed, is refused there. What a drain that was killed has
left in such a queue is either at the source still, and comes again under the same id, or was settled, and may run.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from itertools import compress
from uuid import uuid4

from headrace import crashpoints
from headrace.errors import SessionGone
from headrace.ops.carrier import Carrier
from headrace.ops.families import WAITING, parts
from headrace.ops.sidings import base
from headrace.records import ExchangeReply, Filter, Kind, Lease, Outcome, SessionInfo, Snapshot, State, Take, Verdict
from headrace.store import Store
from headrace.store.contract import Bonding, Stranding
from headrace.store.facets import Queues, facet
from headrace.store.paging import pages

BLOCKED = "It waits for another job there, and can't be leased."
BEHIND = "It comes after a job of its sequence that can't be carried."
NOT_HANDED_OUT = "It waits there, and was not handed out to this drain, or came too late for it. Start the drain again."
SHORT, LONG = 1_000, 15_000
"""Milliseconds: the time-out of a session."""
OURS = (Verdict.OK, Verdict.ALREADY)


def would_move(source: Store, carry: Carrier, at_once: int) -> Iterator[list[Snapshot]]:
    """The jobs that wait now and can be leased and moved, some at a time; why the others stay is noted.

    A job of a sequence is handed out when those before it have gone: one that stays keeps all behind it.
    """
    sequenced: list[Snapshot] = []
    for page in pages(source, Filter(states=WAITING, limit=at_once)):
        found = _movable(page, source, carry)
        yield carry.acceptable(job for job in found if job.id not in carry.lanes)
        sequenced += [job for job in found if job.id in carry.lanes]
    stuck: set[str] = set()
    sequenced.reverse()  # the oldest first, and before it the one that has its turn
    for job in sorted(sequenced, key=lambda job: job.state is State.BLOCKED):
        key = carry.lanes[job.id].key
        if key in stuck:
            carry.reasons.add(f"job {job.id}", BEHIND)
        elif accepted := carry.acceptable([job]):
            yield accepted
        else:
            stuck.add(key)


def _movable(jobs: Sequence[Snapshot], source: Store, carry: Carrier) -> list[Snapshot]:
    """Those that nothing ties to the source; why the others stay is noted. Runs of a schedule go or stay with it."""
    found = []
    for job, tied in zip(jobs, _ties(source, carry, [job.id for job in jobs]), strict=True):
        why = tied or (BLOCKED if job.state is State.BLOCKED and job.id not in carry.lanes else "")
        if job.schedule is None and not why:
            found.append(job)
        elif job.schedule is None:
            carry.reasons.add(f"job {job.id}", why)
    return found


def _ties(source: Store, carry: Carrier, ids: Sequence[str]) -> list[str]:
    """Why each of these jobs can't leave without others; nothing if it can. Their lanes go with them."""
    if not isinstance(source, Bonding) or not ids:
        return [""] * len(ids)
    bonds = source.run(source.bonds(ids))
    carry.lanes |= {job_id: bond.lane for job_id, bond in zip(ids, bonds, strict=True) if bond.lane is not None}
    return [bond.tied for bond in bonds]


class Hand:
    """The session of a drain. Where it has expired another one follows: its jobs are back in line."""

    def __init__(self, source: Store, queues: tuple[str, ...], tasks: tuple[str, ...]) -> None:
        self._source, self._queues, self._tasks = source, queues, tasks
        self._open()

    def _open(self) -> None:
        self._session, self._number = uuid4().hex, 0
        # Where jobs have leases of their own, a session need not last.
        timeout = SHORT if self._source.leases_in_jobs else LONG
        info = SessionInfo(
            id=self._session, name="headrace drain", queues=self._queues, tasks=self._tasks, timeout=timeout
        )
        self._source.run(self._source.open(info))

    def take(self, at_once: int) -> Sequence[Lease]:
        try:
            return self._exchange((), Take(self._queues, slots=at_once)).leases
        except SessionGone:
            self._open()
            return self._exchange((), Take(self._queues, slots=at_once)).leases

    def settle(self, leases: Sequence[Lease]) -> list[Lease]:
        """Settle jobs as done. Which of them were this drain's to settle."""
        settled: list[Lease] = []
        while leases:
            outcomes = [Outcome(ref=lease.ref, token=lease.token, id=lease.id, kind=Kind.DONE) for lease in leases]
            try:
                verdicts = self._exchange(outcomes).verdicts
            except SessionGone:
                self._open()
                return settled
            judged = list(zip(leases, verdicts, strict=True))
            settled += [lease for lease, verdict in judged if verdict in OURS]
            leases = [lease for lease, verdict in judged if verdict is Verdict.LATER]
        return settled

    def _exchange(self, outcomes: Sequence[Outcome], take: Take | None = None) -> ExchangeReply:
        self._number += 1
        return self._source.run(self._source.exchange(self._session, self._number, outcomes, take))

    def close(self) -> None:
        """Give back what is still leased."""
        self._source.run(self._source.close_session(self._session))


def lease_and_move(source: Store, carry: Carrier, at_once: int, most_left: int, given_up: str) -> Generator[int]:
    """Move what waits now, some at a time: how many have moved by each step."""
    queues = tuple(counts.queue for counts in source.run(source.counts()))
    if not queues:
        return
    if isinstance(source, Stranding) and carry.arriving:
        yield from _move_unleased(source, carry, at_once, State.READY)
    # Some wires hand out nothing but what a worker says to know.
    tasks = tuple({job.task for page in pages(source, Filter(states=WAITING, limit=at_once)) for job in page})
    hand, kept = Hand(source, queues, tasks), set[str]()
    try:
        while len(kept) < most_left and (leases := hand.take(at_once)):
            crashpoints.passing("drain.claimed")
            found = carry.acceptable(_untied(leases, source, carry))
            brought = list(compress(found, carry.bring(found)))
            crashpoints.passing("drain.put")
            settled = hand.settle(brought)
            crashpoints.passing("drain.deleted")
            carry.admit(settled)
            crashpoints.passing("drain.released")
            moved = {lease.id for lease in settled}
            carry.lost = (carry.lost | {lease.id for lease in brought}) - moved
            kept |= {lease.id for lease in leases} - moved - carry.lost  # leased until the end: it meets them once
            yield len(moved)
        if len(kept) >= most_left:
            carry.reasons.add("all queues", given_up)
    finally:
        hand.close()
    yield from _move_unleased(source, carry, at_once, State.SCHEDULED)


def _untied(leases: Sequence[Lease], source: Store, carry: Carrier) -> list[Lease]:
    """Those that do not belong to something that stays: a schedule, or other jobs."""
    found = []
    for lease, tied in zip(leases, _ties(source, carry, [lease.id for lease in leases]), strict=True):
        if tied:
            carry.reasons.add(f"job {lease.id}", tied)
        elif lease.extras.tick is None:
            found.append(lease)
    return found


def _move_unleased(source: Store, carry: Carrier, at_once: int, state: State) -> Iterator[int]:
    """Jobs that are due later can't be leased: they are put at the target, and deleted here long before their time.
    Of those that are ready, this is for jobs that a lease would strand if the drain were killed."""
    for page in pages(source, Filter(states=(state,), limit=at_once)):
        found = _movable(page[::-1], source, carry)
        if state is State.READY:
            assert isinstance(source, Stranding)
            stranded = source.run(source.stranded([job.id for job in found]))
            found = list(compress(found, stranded))
        jobs = carry.acceptable(found)
        brought = list(compress(jobs, carry.bring(jobs)))
        crashpoints.passing("drain.put")
        gone = source.run(source.delete([job.id for job in brought])) if brought else []
        crashpoints.passing("drain.deleted")
        moved = list(compress(brought, gone))
        carry.admit(moved)
        crashpoints.passing("drain.released")
        carry.lost |= {job.id for job in brought} - {job.id for job in moved}  # a worker got it meanwhile
        if moved:
            yield len(moved)


def finish_arrivals(source: Store, carry: Carrier, at_once: int) -> int:
    """See to jobs that still wait for the source at the target. How many of them may run.

    One that is not at the source any more may: a drain that was killed has settled it. One whose lease this drain has
    lost goes: the source has it, or a worker there has done it.
    """
    if not carry.arriving:
        return 0
    target, queues, admitted = carry.target, facet(carry.target, Queues), 0
    paused = [control.queue for control in target.run(queues.controls()) if control.queue.endswith(carry.arriving)]
    left = [job for queue in paused for page in pages(target, Filter(queue=queue, limit=at_once)) for job in page]
    there, lost = set[str](), {carry.id_at_target(name) for name in carry.lost}
    if left:
        unsettled = Filter(states=(*WAITING, State.RUNNING), limit=at_once)
        there = {carry.id_at_target(job.id) for page in pages(source, unsettled) for job in page} - lost
    for part in parts([job for job in reversed(left) if job.id not in there], at_once):
        if lost:
            target.run(target.delete([job.id for job in part if job.id in lost]))
        admitted += carry.admit_ids({job.id: base(job.queue) for job in part if job.id not in lost})
    for queue in set(paused) - {job.queue for job in left if job.id in there}:
        target.run(queues.resume(queue))
    return admitted
