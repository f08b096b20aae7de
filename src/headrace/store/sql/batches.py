"""Batches: one transaction for a batch that takes some milliseconds, several for one that takes more.

A large batch is staged in parts. No job of it is there before all parts are and the batch is accepted; from then on all
of it is certain to come in, part by part: its client brings it in, and sweeps do if the client dies on the way.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec

from headrace.errors import ConfigurationError, NoWorkers
from headrace.records import NewJob, Put
from headrace.store import limits
from headrace.store.contract import Operation
from headrace.store.sql import lanes, relations
from headrace.store.sql import put as puts
from headrace.store.sql.transaction import Step, Steps, Transaction, is_plain, run_out
from headrace.store.sql.working_set import WorkingSet

AT_ONCE = 1_000
"""What one transaction puts, in plain jobs: about 10 ms."""
PARENTS_AT_ONCE = 250
"""How many parents one transaction links to a job."""
BYTES = 1_000_000
"""How much one transaction stages, unless it is a single part."""
LARGE = 1_000
"""Bytes of a body on the average, above which the steps of a batch are large."""
FORGOTTEN_AFTER = 60_000
"""Milliseconds after which parts of a batch that was never accepted are forgotten."""
ADOPTED_AFTER = 5_000
"""Milliseconds after which sweeps bring in what a client has not."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[NewJob]).decode


class _Part(NamedTuple):
    """The next part of a batch, how many parents of its job are linked, and when the batch was put."""

    seq: int
    number: int
    linked: int
    put: int


class Batch(NamedTuple):
    """A row of `batch`: when its last part was staged, on the steady clock, and when it was put."""

    seq: int
    staged: int
    put: int | None


def weight(job: NewJob) -> int:
    """What a job costs, in plain jobs of 10 µs.

    >>> weight(NewJob(id="1", task="t", body=b""))
    1
    >>> weight(NewJob(id="1", task="t", body=b"", after=("2", "3"), tags=("blue",)))
    16
    """
    cost = 1 + (len(job.body) + len(job.data or b"")) // 1_000
    if not is_plain(job):
        cost += 2 + 3 * len(job.tags) + 3 * (job.unique_key is not None) + 10 * (job.lane is not None)
        if relations.is_related(job):
            cost += 6 + 2 * len(job.after)
    return cost


def put_plain(jobs: Sequence[NewJob]) -> Step[list[Put]] | Steps[list[Put]]:
    """Insert a batch of plain jobs."""
    if len(jobs) <= AT_ONCE:
        return Step(lambda tx: puts.put_plain(tx, jobs, tx.now))
    limits.check_batch(jobs)
    return Steps(lambda: _in_parts(jobs, _parts(jobs)))


def put(jobs: Sequence[NewJob]) -> Operation[list[Put]]:
    """Insert a batch, all of it or nothing."""
    if all(map(is_plain, jobs)):
        return put_plain(jobs)
    if len(jobs) == 1 and len(jobs[0].after) <= PARENTS_AT_ONCE:
        return Step(lambda tx: puts.put(tx, jobs))
    parts = _parts(jobs)
    if len(parts) == 1 < len(jobs):
        return Step(lambda tx: puts.put(tx, jobs))
    limits.check_batch(jobs)
    return Steps(lambda: _in_parts(jobs, parts))


def _parts(jobs: Sequence[NewJob]) -> list[list[NewJob]]:
    """The jobs in order. None of the parts costs more than one transaction should; many parents are a part alone."""
    parts: list[list[NewJob]] = [[]]
    left = AT_ONCE
    for job in jobs:
        cost = weight(job)
        if parts[-1] and cost > left:
            parts.append([])
            left = AT_ONCE
        parts[-1].append(job)
        left -= cost if len(job.after) <= PARENTS_AT_ONCE else AT_ONCE + cost
    return parts


def _in_parts(jobs: Sequence[NewJob], parts: Sequence[list[NewJob]]) -> Generator[Step[Any], Any, list[Put]]:
    accepted, is_large = False, sum(len(job.body) for job in jobs) > LARGE * len(jobs)
    while not accepted:  # sweeps have forgotten the batch of a client that was stopped for a minute
        batch = yield Step(partial(_begin, jobs=jobs))
        try:
            for some, numbered in _groups(parts):
                step = Step(partial(_stage, batch=batch, jobs=some, parts=numbered), is_large=is_large)
                step.large = numbered.values
                yield step
            accepted = yield Step(partial(_accept, batch=batch, jobs=jobs))
        except (ConfigurationError, NoWorkers):
            while (yield Step(partial(_forget, batch=batch))):
                pass
            raise
    answers: dict[int, list[Put]] = {}
    while (admitted := (yield _admitting(batch, parts, len(answers), is_large))) is not None:
        answers.setdefault(*admitted)
    for number, part in enumerate(parts):
        if not answers.get(number):  # another process has brought it in
            answers[number] = yield Step(partial(_found, jobs=part), writes=False)
    return [put for number in range(len(parts)) for put in answers[number]]


def _admitting(batch: int, parts: Sequence[list[NewJob]], number: int, is_large: bool) -> Step[Any]:
    """The step that brings in the next part, most likely the one of this number."""
    step = Step(partial(admit, batch=batch, parts=parts), is_large=is_large)
    part = parts[min(number, len(parts) - 1)]
    step.large = lambda: (value for job in part for value in (job.body, job.data))
    return step


def _begin(tx: Transaction, jobs: Sequence[NewJob]) -> int:
    puts.roll_call(tx, jobs)
    return int(tx.value("batch_begin", (tx.steady,)))


def _groups(parts: Sequence[list[NewJob]]) -> Iterator[tuple[list[NewJob], dict[int, bytes]]]:
    """What one transaction stages: jobs, and the same in encoded parts by number. To bring them in costs more."""
    jobs: list[NewJob] = []
    encoded: dict[int, bytes] = {}
    for number, part in enumerate(parts):
        one = _encode(part)
        if encoded and (len(jobs) + len(part) > AT_ONCE or sum(map(len, encoded.values())) + len(one) > BYTES):
            yield jobs, encoded
            jobs, encoded = [], {}
        jobs += part
        encoded[number] = one
    yield jobs, encoded


def _stage(tx: Transaction, batch: int, jobs: Sequence[NewJob], parts: dict[int, bytes]) -> None:
    lanes.check(WorkingSet(tx), jobs)
    tx.execute("batch_staged", (batch, tx.steady))
    tx.change_many("part_put", [(batch, number, part) for number, part in parts.items()])


def _accept(tx: Transaction, batch: int, jobs: Sequence[NewJob]) -> bool:
    puts.roll_call(tx, jobs)
    return tx.change("batch_accept", (batch, tx.now)) > 0


def admit(tx: Transaction, batch: int, parts: Sequence[list[NewJob]] = ()) -> tuple[int, list[Put]] | None:
    """Bring in the next part of a batch, or some more parents of its job. `parts`: the client knows all of them.

    Returns the number of the part, and what became of its jobs. None: all of them have come in.
    """
    part = tx.maybe_row(_Part, "part_first", (batch,))
    if part is None:
        tx.execute("batch_delete", (batch,))
        return None
    key = (part.seq,)
    jobs = parts[part.number] if parts else _decode(tx.large("part_jobs", [key])[key])
    last, linked = jobs[-1], part.linked + PARENTS_AT_ONCE
    answers: list[Put] = []
    if part.linked:
        relations.link(tx, last, part.linked, linked)
    else:
        answers = puts.bring_in(WorkingSet(tx), jobs, part.put, PARENTS_AT_ONCE)
    if len(last.after) > linked and relations.is_arriving(tx, last.id):
        tx.execute("part_linked", (part.seq, linked))
    else:
        tx.execute("part_delete", (part.seq,))
    return part.number, answers


def _forget(tx: Transaction, batch: int) -> bool:
    """Forget some parts of a batch that does not come in. False: that was all of it."""
    if tx.change("parts_forget", (batch,)):
        return True
    tx.execute("batch_delete", (batch,))
    return False


def _found(tx: Transaction, jobs: Sequence[NewJob]) -> list[Put]:
    """What became of jobs that another process has brought in."""
    there = {job_id for _, job_id in tx.rows("seqs", (tx.texts([job.id for job in jobs]),))}
    lost = [job for job in jobs if job.unique_key is not None and job.id not in there]
    holders: dict[str, str] = dict(tx.rows("key_holders", (tx.texts([str(job.unique_key) for job in lost]),)))
    clashes = {job.id: holders[key] for job in lost if (key := job.unique_key) is not None and key in holders}
    taken = puts.clashing(tx, (job for job in jobs if job.id in there))
    is_new = [job.id not in clashes and (job.id, job.nonce) not in taken for job in jobs]
    return [Put(clashes.get(job.id, job.id), new) for job, new in zip(jobs, is_new, strict=True)]


# -- sweeps ------------------------------------------------------------------------------------------


def left_behind(tx: Transaction) -> Batch | None:
    """The oldest batch whose client seems to be dead."""
    batch = tx.maybe_row(Batch, "batch_first")
    patience = ADOPTED_AFTER if batch is not None and batch.put is not None else FORGOTTEN_AFTER
    return batch if batch is not None and run_out(tx, batch.staged, patience) else None


def see_to(tx: Transaction, batch: Batch) -> None:
    """Bring in a part of it if it was accepted, else forget some parts."""
    if batch.put is not None:
        admit(tx, batch.seq)
    else:
        _forget(tx, batch.seq)
