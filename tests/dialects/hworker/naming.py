"""The conformance suite names its jobs; hworker's producers must not: a translation between the two, for tests only."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from headrace.dialects.hworker import HworkerStore
from headrace.records import Lease, NewJob, Put, Snapshot
from headrace.store.redis.operation import Steps


class Named(HworkerStore):
    """A store whose jobs answer to the names that the suite gave them. Bodies, there any bytes, travel as text."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._ids: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def put(self, jobs: Sequence[NewJob]) -> Any:
        wrapped = [msgspec.structs.replace(job, body=_wrap(job.body)) for job in jobs]

        def name(puts: list[Put]) -> list[Put]:
            for job, put in zip(jobs, puts, strict=True):
                self._ids[job.id] = put.id
                self._names[put.id] = job.id
            return [Put(job.id, put.created) for job, put in zip(jobs, puts, strict=True)]

        return _then(super().put(wrapped), name)

    def get(self, ids: Sequence[str]) -> Any:
        return Steps(lambda: self._get(ids))

    def _get(self, ids: Sequence[str]) -> Any:
        found = yield from super().get([self._ids.get(job_id, job_id) for job_id in ids]).begin()
        return [job and self._translate(job) for job in found]

    def delete(self, ids: Sequence[str]) -> Any:
        return super().delete([self._ids.get(job_id, job_id) for job_id in ids])

    def exchange(self, *arguments: Any, **options: Any) -> Any:
        def name(turn: Any) -> Any:
            return msgspec.structs.replace(turn, leases=[self._translate(lease) for lease in turn.leases])

        return _then(super().exchange(*arguments, **options), name)

    def _translate(self, job: Lease | Snapshot) -> Any:
        name = self._names.get(job.id, job.id)
        return msgspec.structs.replace(job, id=name, body=json.loads(job.body).encode("latin-1"))


def _then(operation: Steps[Any], change: Callable[[Any], Any]) -> Steps[Any]:
    def work() -> Any:
        return change((yield from operation.begin()))

    return Steps(work)


def _wrap(body: bytes) -> bytes:
    return json.dumps(body.decode("latin-1")).encode()
