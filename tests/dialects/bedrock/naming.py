"""A translation, for tests only, between the conformance suite and Bedrock.

The suite names its jobs and fills them with any bytes; in Bedrock the server numbers them, and their data is JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from headrace.dialects.bedrock.store import BedrockStore, Work
from headrace.records import ExchangeReply, Lease, NewJob, Put, Renewal, Snapshot

T = TypeVar("T")


class Named(BedrockStore):
    """A store whose jobs answer to the names that the suite gave them. Bodies travel as a text in their data."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._ids: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def put(self, jobs: Sequence[NewJob]) -> Any:
        def name(puts: list[Put]) -> list[Put]:
            for job, put in zip(jobs, puts, strict=True):
                self._ids[job.id] = put.id
                self._names[put.id] = job.id
            return [Put(job.id, put.created) for job, put in zip(jobs, puts, strict=True)]

        return _then(super().put([msgspec.structs.replace(job, body=_wrap(job.body)) for job in jobs]), name)

    def get(self, ids: Sequence[str]) -> Any:
        def look() -> list[Snapshot | None]:
            found = self.run(BedrockStore.get(self, [self._ids.get(name, name) for name in ids]))
            return [job and self._translate(job) for job in found]

        return Work(look)

    def delete(self, ids: Sequence[str]) -> Any:
        return Work(lambda: self.run(BedrockStore.delete(self, [self._ids.get(name, name) for name in ids])))

    def exchange(self, *arguments: Any, **options: Any) -> Any:
        def name(reply: ExchangeReply) -> ExchangeReply:
            return msgspec.structs.replace(reply, leases=[self._translate(lease) for lease in reply.leases])

        return _then(super().exchange(*arguments, **options), name)

    def renew(self, session: str, held: Sequence[Any] = (), **options: Any) -> Any:
        numbered = [(ref, token, self._ids.get(name, name)) for ref, token, name in held]

        def name(renewal: Renewal) -> Renewal:
            return msgspec.structs.replace(renewal, lost=[self._names.get(lost, lost) for lost in renewal.lost])

        return _then(super().renew(session, numbered, **options), name)

    def _translate(self, job: Lease | Snapshot) -> Any:
        body = json.loads(job.body)["body"].encode("latin-1")
        return msgspec.structs.replace(job, id=self._names.get(job.id, job.id), body=body)


def _wrap(body: bytes) -> bytes:
    return json.dumps({"body": body.decode("latin-1")}).encode()


def _then(operation: Any, change: Callable[[Any], T]) -> Work[T]:
    return Work(lambda: change(operation.work()))
