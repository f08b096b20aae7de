"""Changing jobs: what they depend on, their tags, their place in line, their arguments; and why one does not run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.dialects.on_redis import Stepwise
from headrace.errors import DependencyCycle
from headrace.records import Snapshot, State
from headrace.store import limits
from headrace.store.contract import Operation
from headrace.store.facets import Circumstances, Edit
from headrace.store.redis.operation import Steps

from . import mapping
from .script_store import ScriptStore


class Editing(ScriptStore):
    """The facets relations, tags, edit, outside and why."""

    def depend(self, job_id: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Operation[bool]:
        def read(_: float, answer: Any) -> bool:
            if answer.get("cycle") == 1:
                raise DependencyCycle(f"{job_id} would, directly or indirectly, depend on itself.")
            if answer.get("cycle"):
                raise limits.too_deep(job_id)
            return bool(answer["done"])

        return self._script("Edit.depend", [job_id, add, remove], read)

    def dependants(self, job_id: str, limit: int = 100) -> Operation[list[tuple[str, State]]]:
        def read(_: float, answer: Any) -> list[tuple[str, State]]:
            return [(jid, mapping.STATES.get(state, State.BLOCKED)) for jid, state in answer or []]

        return self._script("Edit.dependants", [job_id, limit], read)

    def tag(self, ids: Sequence[str], add: Sequence[str] = (), remove: Sequence[str] = ()) -> Operation[list[bool]]:
        return self._yes_or_no("Edit.tag", ids, add, remove, repeatable=True)

    def tags(self, limit: int = 50) -> Operation[list[tuple[str, int]]]:
        return self._script("Edit.tags", [limit], lambda _, found: [(tag, int(jobs)) for tag, jobs in found or []])

    def track(self, ids: Sequence[str], on: bool = True) -> Operation[list[bool]]:
        return self._yes_or_no("Edit.track", ids, on, repeatable=True)

    def edit(self, ids: Sequence[str], change: Edit) -> Operation[list[bool]]:
        limits.check_moment(change.run_at, change.delay)
        return Steps(lambda: self._edit(ids, change))

    def _edit(self, ids: Sequence[str], change: Edit) -> Stepwise[list[bool]]:
        """Arguments and data are one object on the wire: what it is made of is read first, and must still be there."""
        rewrites = change.body is not None or change.data is not None
        told = mapping.edit(change, self._lower_first)
        answers: dict[str, bool] = {}
        while left := [job_id for job_id in ids if job_id not in answers]:
            jobs: list[dict[str, Any]] = [{"jid": job_id} for job_id in left]
            if rewrites:
                found = yield self._script("Clients.get", [left], lambda _, jobs: jobs, exact=True)
                jobs = [
                    {"jid": job_id, **(mapping.rewritten(job, change) if job else {})}
                    for job_id, job in zip(left, found, strict=True)
                ]
            codes = yield self._script("Edit.edit", [jobs, told], lambda _, codes: codes)
            answers |= {job_id: code == 1 for job_id, code in zip(left, codes, strict=True) if code != 2}
        return [answers[job_id] for job_id in ids]

    def take_back(self, ids: Sequence[str], to: str | None = None) -> Operation[list[bool]]:
        return self._yes_or_no("Edit.take_back", ids) if to is None else self.requeue(ids, to)

    def requeue(
        self, ids: Sequence[str], to: str | None = None, ended: Sequence[State] = (State.DONE,)
    ) -> Operation[list[bool]]:
        self.refuse("requeue")

    def log(self, ids: Sequence[str], line: str) -> Operation[list[bool]]:
        return self._yes_or_no("Edit.log", ids, line)

    def update(self, job_id: str, expected: bytes | None, data: bytes) -> Operation[bool | None]:
        self.refuse("update")

    def peek(self, queue: str, limit: int = 50) -> Operation[list[Snapshot]]:
        def read(_: float, jobs: Any) -> list[Snapshot]:
            return [mapping.snapshot(job, self._lower_first) for job in jobs or [] if job]

        return self._script("Edit.peek", [queue, limit], read)

    def circumstances(self, job_id: str) -> Operation[Circumstances | None]:
        def read(now: float, found: Any) -> Circumstances | None:
            return mapping.circumstances(mapping.milliseconds(now), found, self._lower_first) if found else None

        return self._script("Edit.circumstances", [job_id], read)
