"""The store of a test: the embedded one in memory. Jobs of a caller's transaction arrive there when it commits."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from headrace.errors import HeadraceError
from headrace.records import NewJob, Put, Ref, Token
from headrace.store import limits
from headrace.store.callers import kind_of
from headrace.store.contract import Operation, Waiter
from headrace.store.sql import find, put, settle
from headrace.store.sql.transaction import Step, Transaction
from headrace.store.sql.working_set import WorkingSet
from headrace.store.sqlite.store import SqliteStore
from headrace.testing.following import Following, Part, check, resolved
from headrace.values.clock import Clock

T = TypeVar("T")
Work = Callable[[Transaction], Any]


class _Pending:
    """Work that arrives if the caller's transaction commits."""

    __slots__ = ("connection", "part", "work")

    def __init__(self, connection: object, arrive: Callable[[_Pending], None]) -> None:
        self.connection = connection
        self.part = Part(lambda: arrive(self))
        self.work: Work | None = None


class _Within(Operation[T]):
    """An operation in a transaction of the caller. Its work is rehearsed now, and done at the commit."""

    __slots__ = ("connection", "rehearse", "work")

    def __init__(
        self, connection: object, rehearse: Callable[[Transaction], T], work: Callable[[T], Work | None]
    ) -> None:
        check(connection)
        self.connection = resolved(connection)
        self.rehearse = rehearse
        self.work = work


class _Rehearsed(Exception):
    """Carries the answer of a rehearsal out of its transaction."""


class TestingStore(SqliteStore):
    """The embedded store in memory. Nothing runs by itself there, so waiting would last for ever."""

    __test__ = False

    def __init__(self, clock: Clock) -> None:
        super().__init__("sqlite:///:memory:", clock=clock)
        self._following = Following()
        self._pending: list[_Pending] = []
        self._committed: deque[_Pending] = deque()

    def job_waiter(self, job_id: str) -> Waiter:
        raise HeadraceError(
            f"Job {job_id} has not ended, and in testing nothing runs by itself: call run_all() before you ask for "
            "its result."
        )

    def close(self) -> None:
        self._following.close()
        super().close()

    # -- running --

    def run(self, operation: Operation[T]) -> T:
        self._arrive()
        if not isinstance(operation, _Within):
            return super().run(operation)
        pending = _Pending(operation.connection, self._committed.append)
        self._following.follow(operation.connection, pending.part)
        return self._rehearse(cast("_Within[T]", operation), pending)

    async def arun(self, operation: Operation[T]) -> T:
        if not isinstance(operation, _Within):
            return await super().arun(operation)
        self._arrive()
        pending = _Pending(operation.connection, self._committed.append)
        await self._following.afollow(operation.connection, pending.part)
        return self._rehearse(cast("_Within[T]", operation), pending)

    def _arrive(self) -> None:
        """Do what has been committed since the last look, in that order."""
        self._following.look()
        while self._committed:
            work = self._committed.popleft().work
            if work is not None:
                super().run(Step(work))

    def _rehearse(self, operation: _Within[T], pending: _Pending) -> T:
        """The answer to an operation, after all that was done in its transaction before."""
        self._pending = [each for each in self._pending if each.part.is_open]
        before = [each.work for each in self._pending if each.connection is operation.connection]

        def work(tx: Transaction) -> T:
            for each in before:
                if each is not None:
                    each(tx)
            raise _Rehearsed(operation.rehearse(tx))

        try:
            answer = super().run(Step(work))
        except _Rehearsed as rehearsed:
            answer = rehearsed.args[0]
        pending.work = operation.work(answer)
        self._pending.append(pending)
        return answer

    # -- transactions of callers --

    def put_within(self, connection: object, jobs: Sequence[NewJob]) -> Operation[list[Put]]:
        limits.check_batch(jobs)
        if not kind_of(connection):  # it stands in for a connection
            return self.put(jobs)
        at = self._clock.now()

        def arriving(answers: list[Put]) -> Work:
            created = [job for job, answer in zip(jobs, answers, strict=True) if answer.created]
            others = [job for job, answer in zip(jobs, answers, strict=True) if not answer.created]
            return lambda tx: _bring_in(tx, created, others, at)

        return _Within(connection, lambda tx: put.put(tx, jobs), arriving)

    def known_within(self, connection: object, ids: Sequence[str]) -> Operation[list[bool]]:
        if not kind_of(connection):
            return Step(lambda tx: _known(tx, ids), writes=False)
        return _Within(connection, lambda tx: _known(tx, ids), lambda _: None)

    def _complete_within(
        self, connection: object, lease: tuple[Ref, Token, str], result: bytes | None
    ) -> Operation[bool]:
        if not kind_of(connection):
            return self.complete(lease, result)

        def work(tx: Transaction) -> bool:
            return settle.complete(tx, lease, result)

        return _Within(connection, work, lambda completed: work if completed else None)


def _known(tx: Transaction, ids: Sequence[str]) -> list[bool]:
    return [job is not None for job in find.get(tx, ids)]


def _bring_in(tx: Transaction, created: Sequence[NewJob], others: Sequence[NewJob], at: int) -> None:
    """Bring in jobs of a transaction that is committed: they are there, whichever jobs have their keys by now.

    Those that others stood for when they were enqueued come if these were rolled back.
    """
    work = WorkingSet(tx)
    put.bring_in(work, put.with_free_keys(work, created), at)
    if others:
        put.bring_in(WorkingSet(tx), others, at)
