"""From calls to jobs: what `enqueue` and `enqueue_many` check, put into the store, and hand back."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from headrace import crashpoints, loading
from headrace.errors import ArgumentsError, HeadraceError, JobExists
from headrace.hooks import Enqueuing, announce
from headrace.job import Job, state_after_put
from headrace.options import headers_of, with_headers
from headrace.records import NewJob, Put
from headrace.store.batches import counting, pieces
from headrace.task import Call
from headrace.transactions import arequire_known, connection_for, open_block, putting, require_known
from headrace.values.codec import decode_value

if TYPE_CHECKING:
    from headrace.app import Headrace

R = TypeVar("R")


class _Batch(NamedTuple):
    """The jobs to put, the ids of those that must be there before, and of those that no other job may stand for."""

    jobs: list[NewJob]
    named: list[str]
    strict: set[str]


def _batch(app: Headrace, calls: Iterable[Call[Any]]) -> _Batch:
    if not isinstance(calls, Iterable):
        raise ArgumentsError(f"A batch is a list of calls, not {type(calls).__name__}: enqueue_many([...]).")
    if loading.under_way:
        loading.warn_of_enqueue()
    jobs: list[NewJob] = []
    named: dict[str, None] = {}
    strict: set[str] = set()
    for call in calls:
        if type(call) is not Call:
            kind = type(call).__name__
            raise ArgumentsError(f"enqueue_many() takes task.call(...) values, not {kind}.")
        if call.task.app is not app:
            raise ArgumentsError(f"{call.task.name} is a task of another app: enqueue it there.")
        if call.terms is not None:
            for needed, option in call.terms.needs:
                app.require_option(needed, option)
            named.update(dict.fromkeys(call.terms.named))
            strict.update((call.new.id,) if call.terms.strict else ())
        jobs.append(call.new if call.terms is None else _carrying(app, call.new, call.terms.headers))
    here = {job.id for job in jobs}
    if len(here) < len(jobs):
        raise _twins(jobs)
    return _Batch(jobs, [job_id for job_id in named if job_id not in here], strict)


def _carrying(app: Headrace, job: NewJob, headers: Mapping[str, str] | None) -> NewJob:
    """The job with the headers that hooks have set, if they have and the store has a place for them."""
    return job if headers is None or not app.carries_headers() else with_headers(job, headers)


def _twins(jobs: Sequence[NewJob]) -> ArgumentsError:
    nonces: dict[str, str | None] = {}
    for job in jobs:
        if nonces.setdefault(job.id, job.nonce) != job.nonce:
            return ArgumentsError(f"Two calls of this batch have the id {job.id!r}. Give each job an id of its own.")
    return ArgumentsError("A call stands for one job: the same call is in this batch twice. Make one call per job.")


# -- jobs of schedules, which are no calls ----------------------------------------------------------------


def announced(app: Headrace, job: NewJob) -> NewJob:
    """A job of a schedule, with what the app's hooks add to it. `Veto`: they refuse it."""
    if not app.enqueue_hooks:
        return job
    args, kwargs = _arguments(app, job)
    call = Enqueuing(job.task, job.queue, args, MappingProxyType(kwargs), headers_of(job.options), job.schedule)
    headers = announce(app.enqueue_hooks, call)
    return job if headers is None else with_headers(job, headers)


def _arguments(app: Headrace, job: NewJob) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a schedule's job: with their types if the task is this app's, else plain values by name.

    What can't be read is left out: the run will say so.
    """
    try:
        if job.task in app.tasks:
            return app.tasks[job.task].arguments.decode(job.body)
        plain = decode_value(job.body)
    except HeadraceError:
        plain = None
    return (), plain if isinstance(plain, dict) else {}


# -- in a thread -----------------------------------------------------------------------------------------


def enqueue(app: Headrace, call: Call[R], connection: object | None) -> Job[R]:
    """Put a single call of one of the app's tasks."""
    if connection is not None or open_block.get() is not None:
        connection = connection_for(app, connection)
    new = call.new
    if call.terms is not None:
        new = _carrying(app, new, call.terms.headers)
        for needed, option in call.terms.needs:
            app.require_option(needed, option)
        require_known(app, call.terms.named, connection)
    if loading.under_way:
        loading.warn_of_enqueue()
    if app.around_puts is None:
        puts = _put(app, [new], connection)
    else:
        puts = []
        with app.around_puts([new], puts) as jobs:
            puts += _put(app, jobs, connection)
    if puts[0].changed:
        _tell_of_change(app, new, puts[0].changed)
    if call.terms is not None and call.terms.strict and not puts[0].created:
        raise JobExists(puts[0].id)
    if connection is None:
        return Job(app, puts[0].id, created_now=puts[0].created)
    return _handles(app, [new], puts, connection)[0]


def enqueue_many(
    app: Headrace, calls: Iterable[Call[R]], connection: object | None = None, *, whole: bool = False
) -> list[Job[R]]:
    """Put a batch of calls. `whole`: in one step, however many they are, as they make no sense without each other."""
    puts: list[Put] = []
    connection = connection_for(app, connection)
    batch = _batch(app, calls)
    require_known(app, batch.named, connection)
    with around(app, batch.jobs, puts) as jobs:
        for piece in pieces(jobs, None if whole else app.store.put_at_once):
            with counting(puts, len(jobs)):
                puts += _put(app, piece, connection)
    _tell_of_changes(app, batch, puts)
    _refuse_others(batch, puts)
    return _handles(app, batch.jobs, puts, connection)


def around(app: Headrace, jobs: list[NewJob], puts: list[Put]) -> AbstractContextManager[list[NewJob]]:
    """What instrumentation wants around a put, with the jobs to be put."""
    return nullcontext(jobs) if app.around_puts is None or not jobs else app.around_puts(jobs, puts)


def _put(app: Headrace, jobs: list[NewJob], connection: object | None) -> list[Put]:
    store = app.store
    operation = store.put(jobs) if connection is None else putting(app, jobs, connection)
    if crashpoints.armed:
        crashpoints.reach("put.before")
    puts = store.run(operation)
    if crashpoints.armed:
        crashpoints.reach("put.after")
    return puts


def _tell_of_changes(app: Headrace, batch: _Batch, puts: Sequence[Put]) -> None:
    for job, put in zip(batch.jobs, puts, strict=True):
        if put.changed:
            _tell_of_change(app, job, put.changed)


QUIET = 60.0
"""Seconds between two lines of the log about the same lane: calls that disagree change it again and again."""
_told: dict[tuple[str, str, str], float] = {}


def _tell_of_change(app: Headrace, job: NewJob, changed: str) -> None:
    """Log that a call has changed the rules of its lane."""
    import logging  # noqa: PLC0415  (few programs need it: an import of headrace stays fast)

    assert job.lane is not None
    place, now = (app.url, job.queue, job.lane.key), time.monotonic()
    if now - _told.get(place, -QUIET) < QUIET:
        return
    if len(_told) >= 1_000:
        _told.clear()
    _told[place] = now
    logging.getLogger("headrace").warning(
        "Job %s of %s has changed the lane %r of the queue %r: %s. Where calls disagree the newest one counts; what "
        "'headrace lanes' sets wins over all of them.",
        *(job.id, job.task, job.lane.key, job.queue, changed),
    )


def _refuse_others(batch: _Batch, puts: Sequence[Put]) -> None:
    """Raise for a call with `on_clash="error"` that another job stands for."""
    for job, put in zip(batch.jobs, puts, strict=True) if batch.strict else ():
        if not put.created and job.id in batch.strict:
            raise JobExists(put.id, sum(each.created for each in puts))


def _handles(app: Headrace, jobs: list[NewJob], puts: list[Put], connection: object | None) -> list[Job[Any]]:
    if connection is None:
        return [Job(app, put.id, created_now=put.created) for put in puts]
    return [
        Job(app, put.id, created_now=True, state=state_after_put(job), is_uncommitted=True)
        if put.created
        else Job(app, put.id)
        for job, put in zip(jobs, puts, strict=True)
    ]


# -- on an event loop ------------------------------------------------------------------------------------


async def aenqueue_many(
    app: Headrace, calls: Iterable[Call[R]], connection: object | None = None, *, whole: bool = False
) -> list[Job[R]]:
    """The same, from async code."""
    puts: list[Put] = []
    connection = connection_for(app, connection)
    batch = _batch(app, calls)
    await arequire_known(app, batch.named, connection)
    with around(app, batch.jobs, puts) as jobs:
        for piece in pieces(jobs, None if whole else app.store.put_at_once):
            with counting(puts, len(jobs)):
                operation = app.store.put(piece) if connection is None else putting(app, piece, connection)
                step = await app.store.arun(operation)
            puts += step
    _tell_of_changes(app, batch, puts)
    _refuse_others(batch, puts)
    return await _ahandles(app, batch.jobs, puts, connection)


async def _ahandles(app: Headrace, jobs: list[NewJob], puts: list[Put], connection: object | None) -> list[Job[Any]]:
    """Handles that know their jobs' state: a look later on would block the event loop.

    Most states follow from what was put. One look finds the others, which the store decides.
    """
    if connection is not None:  # nothing is to be seen before the commit
        return _handles(app, jobs, puts, connection)
    states = [state_after_put(job) if put.created else None for job, put in zip(jobs, puts, strict=True)]
    handles = [
        Job[Any](app, put.id, created_now=put.created, state=state) for put, state in zip(puts, states, strict=True)
    ]
    unknown = [handle for handle, state in zip(handles, states, strict=True) if state is None]
    if unknown:
        found = await app.store.arun(app.store.get([handle.id for handle in unknown]))
        for handle, snapshot in zip(unknown, found, strict=True):
            handle.saw(snapshot)
    return handles
