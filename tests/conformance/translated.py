"""Between the suite and a wire where clients choose no ids and bodies are JSON.

The suite names its jobs and fills them with any bytes. Here the names are looked up, and bodies are wrapped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from headrace.records import ExchangeReply, Filter, Lease, NewJob, Outcome, Page, Put, Renewal, Snapshot
from headrace.store.contract import Operation
from headrace.store.facets import Edit


class Then(Operation[Any]):
    """An operation of the store behind, and what to make of its answer."""

    __slots__ = ("change", "describe")

    def __init__(self, describe: Callable[[], Any], change: Callable[[Any], Any] = lambda answer: answer) -> None:
        self.describe = describe
        self.change = change


class Translated:
    """Describes the same operations for jobs that answer to the suite's names."""

    def __init__(self, store: Any, wrap: Callable[[NewJob], bytes], unwrap: Callable[[bytes], bytes]) -> None:
        self._store = store
        self._wrap = wrap
        self._unwrap = unwrap
        self._ids: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def run(self, operation: Any) -> Any:
        if isinstance(operation, Then):
            return operation.change(self._store.run(operation.describe()))
        return self._store.run(operation)

    async def arun(self, operation: Any) -> Any:
        if isinstance(operation, Then):
            return operation.change(await self._store.arun(operation.describe()))
        return await self._store.arun(operation)

    # -- clients --

    def put(self, jobs: Sequence[NewJob]) -> Then:
        described = self._store.put([replace(job, body=self._wrap(job)) for job in jobs])

        def name(puts: list[Put]) -> list[Put]:
            for job, put in zip(jobs, puts, strict=True):
                self._ids[job.id] = put.id
                self._names[put.id] = job.id
            return [Put(job.id, put.created) for job, put in zip(jobs, puts, strict=True)]

        return Then(lambda: described, name)

    def get(self, ids: Sequence[str]) -> Then:
        return Then(lambda: self._store.get(self._known(ids)), lambda jobs: [job and self._named(job) for job in jobs])

    def find(self, wanted: Filter) -> Then:
        return Then(
            lambda: self._store.find(wanted), lambda page: Page([self._named(job) for job in page.jobs], page.cursor)
        )

    def cancel(self, ids: Sequence[str]) -> Then:
        return Then(lambda: self._store.cancel(self._known(ids)))

    def delete(self, ids: Sequence[str]) -> Then:
        return Then(lambda: self._store.delete(self._known(ids)))

    def revive(self, ids: Sequence[str]) -> Then:
        return Then(lambda: self._store.revive(self._known(ids)))

    def history(self, job_id: str) -> Then:
        return Then(lambda: self._store.history(*self._known([job_id])))

    def job_waiter(self, job_id: str) -> Any:
        return self._store.job_waiter(*self._known([job_id]))

    # -- facets --

    def edit(self, ids: Sequence[str], change: Edit) -> Any:
        return self._store.edit(ids, self._wrapped(change))

    def peek(self, *arguments: Any, **options: Any) -> Then:
        return Then(lambda: self._store.peek(*arguments, **options), lambda jobs: [self._named(job) for job in jobs])

    def circumstances(self, job_id: str) -> Then:
        return Then(
            lambda: self._store.circumstances(job_id),
            lambda found: found and replace(found, job=self._named(found.job)),
        )

    # -- workers --

    def exchange(self, session: str, number: int, outcomes: Sequence[Outcome] = (), *rest: Any, **options: Any) -> Then:
        wrapped = [self._wrapped(outcome) for outcome in outcomes]

        def name(reply: ExchangeReply) -> ExchangeReply:
            return replace(reply, leases=[self._named(lease) for lease in reply.leases])

        return Then(lambda: self._store.exchange(session, number, wrapped, *rest, **options), name)

    def renew(self, session: str, held: Sequence[Any] = (), **options: Any) -> Then:
        known = [(ref, token, *self._known([name])) for ref, token, name in held]

        def name(renewal: Renewal) -> Renewal:
            return replace(
                renewal,
                lost=self._called(renewal.lost),
                cancelled=self._called(renewal.cancelled),
                tokens={self._names.get(found, found): token for found, token in renewal.tokens.items()},
            )

        return Then(lambda: self._store.renew(session, known, **options), name)

    def close_session(self, session: str, **options: Any) -> Then:
        return Then(lambda: self._store.close_session(session, **options), self._called)

    # -- bodies and names --

    def _wrapped(self, said: Edit | Outcome) -> Any:
        return said if said.body is None else replace(said, body=self._wrap(NewJob(id="", task="", body=said.body)))

    def _known(self, names: Sequence[str]) -> list[str]:
        return [self._ids.get(name, name) for name in names]

    def _called(self, ids: Sequence[str]) -> list[str]:
        return [self._names.get(job_id, job_id) for job_id in ids]

    def _named(self, job: Lease | Snapshot) -> Any:
        return replace(job, id=self._names.get(job.id, job.id), body=self._unwrap(job.body))
