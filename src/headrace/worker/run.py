"""One run of a job, from its lease to its outcome. Nothing a task does can make these functions raise.

Its steps: decode, inject, enter, call, encode; `conclude` where one of them raised. Two functions take them, one in a
thread and one on an event loop, which differ in how they call the task.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

from headrace.errors import ArgumentsError, StoreError
from headrace.options import decode_overrides
from headrace.records import Charge, Kind, Lease, Outcome, Ref, Token
from headrace.store.facets import transactional
from headrace.task import Task
from headrace.traffic import in_test_run
from headrace.values.names import TEST_MARK
from headrace.values.text import length
from headrace.worker import logs
from headrace.worker.context import Context, reset_current, set_current
from headrace.worker.copies import end_copy
from headrace.worker.job_values import ajob_values, job_values
from headrace.worker.outcomes import about, conclude, failed, give_account, quarantine, release
from headrace.worker.reports import Said

if TYPE_CHECKING:
    from headrace.worker.executors import Executor
    from headrace.worker.resources import Resources

log = logging.getLogger("headrace.worker")

_SWALLOWED: Any = object()
"""In place of a result, if a middleware swallows an exception."""

_DONE, _ATTEMPT = Kind.DONE, Charge.ATTEMPT  # asked for once: Python 3.11 takes its time for members of enumerations


class Channel(Protocol):
    """Where a run's words go: to the pump, or through a pipe to the pump's process."""

    payload_limit: int

    def steady(self) -> int:
        """The worker's steady clock, in milliseconds."""

    def spoke(self, run: Run) -> None:
        """A run has something to report."""

    def heard(self, run: Run) -> None:
        """A run has given a sign of life."""

    def look(self, run: Run) -> bytes | None:
        """The data of a run's job, for its task to see."""

    def lease_until(self, run: Run) -> int:
        """Until when no other worker can have a run's job, on the steady clock, as far as is known now."""


class Run:
    """A run of a job, as the worker knows it. What its task may touch of it is its `context`."""

    # Most runs use none of these: what a class holds need not be set for each job.
    began: int | None = None
    beat: int = 0
    """When it last gave a sign of life, on the steady clock."""
    stop_reason: str | None = None
    executor: Executor
    stopper: Any = None
    """What its executor stops it by: a coroutine's task, a process' id."""
    thread: int | None = None
    sure_until: int = 0
    """Until when no other worker can have its job, on the steady clock. 0: as long as its session lives."""
    start_by: int | None = None
    """Its lane has a rate: if it has not started by then, on the steady clock, it is given back."""
    place: int = 0
    """Where the ledger has it."""
    former_tokens: Sequence[Token] = ()
    """What its lease's token was before it was renewed."""
    forked: bool = False
    """This process is a child that its task forked."""
    completing: bool = False
    """Its task has called `complete`. Whether that was committed, the store knows."""
    said: Said | None = None
    outcome: Outcome | None = None
    """Once it has ended, if it has said something or there is more to it than that it is done."""
    _context: Context | None = None
    _overrides: Any = None

    def __init__(self, lease: Lease, task: Task[Any, Any], channel: Channel) -> None:
        self.lease = lease
        self.task = task
        self.channel = channel

    @property
    def id(self) -> str:
        return self.lease.id

    @property
    def attempt(self) -> int:
        """1 on the first attempt. Crashes, snoozes and give-backs don't count."""
        return self.lease.attempts + 1

    @property
    def context(self) -> Context:
        """What the task sees, and hooks and middlewares get."""
        context = self._context = self._context or Context(self)
        return context

    @property
    def time_limit(self) -> int | None:
        """How many milliseconds this run may take."""
        limit = self.override("timeout")
        return self.task.options.timeout if limit is None else limit or None

    def override(self, option: str) -> Any:
        """What the job itself has for an option of its task; None: nothing."""
        if self.lease.options is None:
            return None
        if self._overrides is None:
            try:
                self._overrides = decode_overrides(self.lease.options)
            except ValueError:
                extra = about(self.lease, "options_unreadable")
                log.warning("job %s carries options that cannot be read: they are ignored", self.id, extra=extra)
                self._overrides = decode_overrides(b"{}")
        return getattr(self._overrides, option)

    @property
    def lease_key(self) -> tuple[Ref, Token, str]:
        """What stores know its lease by."""
        return self.lease.ref, self.lease.token, self.lease.id

    def encode_result(self, value: Any) -> bytes | None:
        """What the task returns, as the store keeps it; None: there is nothing to keep."""
        task = self.task
        if value is None and task.results.allows_none:
            return None
        kept = self.override("keep_result")
        if not (task.options.keep_result if kept is None else kept):
            return None
        return task.results.encode(value, task.app.payload_limit)

    def is_completed(self) -> bool:
        """Whether its task has completed it, and committed that. Nothing that happens later counts then."""
        if not self.completing:  # nearly always
            return False
        store = self.task.app.store
        try:
            return store.run(transactional(store, "complete()").is_completed(self.lease_key))
        except StoreError as error:
            extra = about(self.lease, "store_unavailable")
            log.warning("job %s: could not look whether it was completed: %s", self.id, error, extra=extra)
            return False  # the store knows, and goes by that when the run is settled

    def say(
        self,
        *,
        progress: tuple[float, float] | None = None,
        data: bytes | None = None,
        base: bytes | None = None,
        lines: Sequence[str] = (),
    ) -> None:
        """Have the store hear of this, soon. `base`: what the data is a change of, if not of what was seen here."""
        said = self.speaking
        if data is not None:
            said.change(data, base)
        if said.add(progress, [(self.channel.steady(), line) for line in lines]):
            self.channel.spoke(self)

    @property
    def speaking(self) -> Said:
        """What it has said and heard, from now on."""
        if self.said is None:
            self.__dict__.setdefault("said", Said(self.lease.data))  # at once: a job may speak from several threads
        assert self.said is not None
        return self.said

    def stop(self, reason: str) -> None:
        """Make it stop, by whatever means its executor has."""
        if self.stop_reason is None:
            self.stop_reason = reason
            self.executor.stop_run(self)


# -- its steps --


def perform(run: Run, resources: Resources, steady: Callable[[], int]) -> Outcome:
    """Run a plain function (or a coroutine function, on the loop of its process) in this thread."""
    task = run.task
    run.began = run.beat or steady()
    variable = set_current(run)
    test = in_test_run.set(True) if run.lease.queue.startswith(TEST_MARK) else None
    try:
        args, kwargs, own = _prepare(run, resources, steady)
        if task.is_async or task.app.middlewares or own is not None:
            value = _SWALLOWED
            with _enter(run):
                if task.is_async:
                    value = resources.run_coroutine(_call_async(run, args, kwargs, own))
                else:
                    value = _call(run, args, kwargs, own, resources)
        else:
            try:
                value = task.function(*args, **kwargs)
            finally:
                if run.forked:
                    end_copy(run)
        outcome = _done(run)
        if value is not None or not task.results.allows_none:
            outcome = _with_result(outcome, run, value)
    except BaseException as error:
        outcome = _raised(run, error)
    finally:
        reset_current(variable)
        if test is not None:
            in_test_run.reset(test)
    return _ended(run, outcome, steady)


async def perform_async(run: Run, resources: Resources, steady: Callable[[], int]) -> Outcome:
    """Run a coroutine function on this thread's event loop."""
    run.began = run.beat or steady()
    variable = set_current(run)
    test = in_test_run.set(True) if run.lease.queue.startswith(TEST_MARK) else None
    try:
        args, kwargs, own = _prepare(run, resources, steady)
        value = _SWALLOWED
        with _enter(run):
            value = await _call_async(run, args, kwargs, own)
        outcome = _with_result(_done(run), run, value)
    except BaseException as error:
        outcome = _raised(run, error)
    finally:
        reset_current(variable)
        if test is not None:
            in_test_run.reset(test)
    return _ended(run, outcome, steady)


def _call(
    run: Run, args: tuple[Any, ...], kwargs: dict[str, Any], own: dict[str, str] | None, resources: Resources
) -> Any:
    if own is not None:
        with job_values(run.task.app, own, resources.run_coroutine) as made:
            return _call(run, args, kwargs | made, None, resources)
    try:
        return run.task.function(*args, **kwargs)
    finally:
        if run.forked:
            end_copy(run)


async def _call_async(run: Run, args: tuple[Any, ...], kwargs: dict[str, Any], own: dict[str, str] | None) -> Any:
    if own is not None:
        async with ajob_values(run.task.app, own) as made:
            return await _call_async(run, args, kwargs | made, None)
    try:
        return await run.task.function(*args, **kwargs)
    finally:
        if run.forked:
            end_copy(run)


def _prepare(
    run: Run, resources: Resources, steady: Callable[[], int]
) -> tuple[tuple[Any, ...], dict[str, Any], dict[str, str] | None]:
    """The arguments, and which provided values are still to be made, for this job, if there are any."""
    task = run.task
    own = None
    try:
        args, kwargs = task.arguments.decode(run.lease.body)
    except ArgumentsError as error:
        raise _Broken(str(error)) from None
    if task.arguments.injected:
        for parameter, name in task.arguments.injected.items():
            if name in resources.values:
                kwargs[parameter] = resources.values[name]
            else:
                own = own or {}
                own[parameter] = name
    if run.start_by is not None and steady() > run.start_by:
        raise _Late  # the last look at the clock before the task, when all that may take long has been done
    return args, kwargs, own


def _raised(run: Run, error: BaseException) -> Outcome:
    if isinstance(error, _Broken):
        return quarantine(run.lease, str(error))
    if isinstance(error, _Late):
        run.began = None
        return release(run.lease)
    _leave_out_steps(error)
    return _completed(run, error) if run.is_completed() else conclude(run, error)


def _ended(run: Run, outcome: Outcome, steady: Callable[[], int]) -> Outcome:
    outcome.began = run.began
    outcome.ended = steady()
    outcome.completes = run.completing
    if outcome.kind is not _DONE or run.said is not None:
        run.outcome = outcome
        give_account(run, outcome)
    if outcome.kind is _DONE and logs.jobs_log.isEnabledFor(logs.job_level):
        _log_done(run, outcome)
    return outcome


STEPS = {__file__}
"""Files whose frames a traceback does not show: what calls tasks is the same for all of them."""


def _leave_out_steps(error: BaseException) -> None:
    """A traceback begins with the task's function: what called it is the same for all, and each frame costs time."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and trace.tb_frame.f_code.co_filename in STEPS:
        trace = trace.tb_next
    error.__traceback__ = trace


class _Broken(Exception):
    """Its arguments can't be read."""


class _Late(Exception):
    """By now as many others may start as the rate of its lane allows."""


def _enter(run: Run) -> ExitStack:
    with ExitStack() as stack:
        for middleware in run.task.app.middlewares:
            stack.enter_context(middleware(run.context))
        return stack.pop_all()  # all of them were entered: leaving them is up to the caller


def _with_result(outcome: Outcome, run: Run, value: Any) -> Outcome:
    if (value is None and run.task.results.allows_none) or value is _SWALLOWED or run.is_completed():
        return outcome
    try:
        if isinstance(value, Coroutine):
            raise _forgotten(value)
        outcome.result = run.encode_result(value)
    except ArgumentsError as error:
        # It has run, with all its effects: running it again would not make its result fit.
        return failed(run, "result", error)
    return outcome


def _done(run: Run) -> Outcome:
    lease = run.lease
    return Outcome(ref=lease.ref, token=lease.token, id=lease.id, kind=_DONE, charge=_ATTEMPT)


def _completed(run: Run, error: BaseException) -> Outcome:
    """A run that raised after its task had completed it: the store has its result."""
    log.warning(
        "job %s (%s) was completed, and raised after that",
        *(run.id, run.lease.task),
        exc_info=error,
        extra=about(run.lease, "raised_after_complete"),
    )
    return _done(run)


def _forgotten(coroutine: Coroutine[Any, Any, Any]) -> ArgumentsError:
    """What a decorator makes of a coroutine function when it calls it like a plain one."""
    coroutine.close()
    return ArgumentsError("It returned a coroutine, which nobody awaits: is a decorator in between no 'async def'?")


def _log_done(run: Run, outcome: Outcome) -> None:
    took = (outcome.ended or 0) - (outcome.began or 0)
    extra = {**about(run.lease, "job_done"), "took_ms": took}
    logs.jobs_log.log(logs.job_level, "job %s (%s) done in %s", run.id, run.lease.task, length(took), extra=extra)
