"""Answers, made comparable and readable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.records import ExchangeReply, Lease, NewJob, Snapshot


@dataclass(frozen=True)
class Refused:
    """An exception as an answer."""

    why: str


def comparable(answer: Any, again: bool = False) -> Any:
    """An answer without what stores may differ in.

    That is refs; the order of sessions and of jobs given back; and, in the answer to a repeated request, the order of
    those leases that are still held.
    """
    if isinstance(answer, ExchangeReply):
        leases = [tuple(getattr(lease, f) for f in Lease.__struct_fields__ if f != "ref") for lease in answer.leases]
        if again:
            leases.sort(key=lambda lease: lease[:2])
        return list(answer.verdicts), leases, answer.now, answer.next_due
    if isinstance(answer, list) and answer and hasattr(answer[0], "info"):
        return sorted(((s.info, s.opened, s.running, s.alive) for s in answer), key=lambda s: s[0].id)
    if isinstance(answer, list) and answer and isinstance(answer[0], str):
        return sorted(answer)
    if hasattr(answer, "lost"):
        return answer.now, sorted(answer.lost), sorted(answer.cancelled), answer.data
    return answer


def difference(pair: tuple[Snapshot, Snapshot]) -> str:
    mine, models = pair
    fields = [f for f in Snapshot.__struct_fields__ if getattr(mine, f) != getattr(models, f)]
    return f"{mine.id}: " + ", ".join(f"{f} {getattr(mine, f)!r} and not {getattr(models, f)!r}" for f in fields)


def in_words(answer: Any) -> str:
    if isinstance(answer, Refused):
        return answer.why
    if isinstance(answer, ExchangeReply):
        leases = [f"{lease.id}/{lease.token}{' spare' if lease.spare else ''}" for lease in answer.leases]
        return ", ".join([verdict.name for verdict in answer.verdicts] + leases) or "nothing"
    if isinstance(answer, list):
        return ", ".join(
            f"{put.id} {'created' if put.created else 'was there'}" if hasattr(put, "created") else str(put)
            for put in answer
        )
    return str(answer)


def job_in_words(job: NewJob) -> str:
    extras = [
        f"key {job.unique_key}" if job.unique_key else "",
        f"for {job.unique_for}" if job.unique_for else "",
        "replacing" if job.replace else "",
        f"delay {job.delay}" if job.delay else "",
        f"after {' '.join(job.after)} ({job.if_failed})" if job.after else "",
        f"in lane {job.lane.key}" if job.lane else "",
        f"at {job.run_at}" if job.run_at else "",
        "if there is a worker" if job.require_worker else "",
        f"priority {job.priority}" if job.priority else "",
        f"max_crashes {job.max_crashes}" if job.max_crashes != 3 else "",
    ]
    told = ", ".join(filter(None, extras))
    return f"{job.id} in {job.queue}" + (f" ({told})" if told else "")
