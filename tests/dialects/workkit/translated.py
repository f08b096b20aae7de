"""A schedule behind the words of the conformance suite.

The suite gives jobs ids and bodies of its own choice; in a schedule the id is the SHA-1 of the payload, and arguments
are JSON. So both travel as arguments here, and are put back in place where the suite looks for them.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from headrace.dialects.workkit import WorkKitStore
from headrace.dialects.workkit.payload import canonical, job_id
from headrace.dialects.workkit.times import cron_of
from headrace.records import ExchangeReply, Lease, NewJob, Put, Renewal, Snapshot
from headrace.store.redis.operation import Steps


class Translated:
    """Describes the same operations, with ids and bodies exchanged."""

    def __init__(self, store: WorkKitStore) -> None:
        self._store = store
        self._ids: dict[str, str] = {}
        self._salts: dict[tuple[str, bytes], int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def put(self, jobs: Sequence[NewJob]) -> Any:
        translated = [msgspec.structs.replace(job, body=self._body(job)) for job in jobs]

        def read(puts: list[Put]) -> list[Put]:
            self._ids.update({job.id: put.id for job, put in zip(jobs, puts, strict=True)})
            return [Put(job.id, put.created) for job, put in zip(jobs, puts, strict=True)]

        return _then(self._store.put(translated), read)

    def _body(self, job: NewJob) -> bytes:
        """Jobs of one second stand in the order of their ids. A third argument makes that the order of the puts."""
        if (job.id, job.body) not in self._salts:
            place = f"{min(len(self._salts), 15):x}"
            now = self._store.timekeeper.now()
            for salt in itertools.count():
                args = [job.id, job.body.hex(), salt]
                if job_id(canonical(job.task, cron_of(now // 1000 * 1000), args)).startswith(place):
                    break
            self._salts[job.id, job.body] = salt
        return json.dumps([job.id, job.body.hex(), self._salts[job.id, job.body]]).encode()

    def get(self, ids: Sequence[str]) -> Any:
        found = self._store.get([self._ids.get(name, name) for name in ids])
        return _then(found, lambda jobs: [job and _original(job) for job in jobs])

    def delete(self, ids: Sequence[str]) -> Any:
        return self._store.delete([self._ids.get(name, name) for name in ids])

    def exchange(self, *arguments: Any, **options: Any) -> Any:
        def read(turn: ExchangeReply) -> ExchangeReply:
            return msgspec.structs.replace(turn, leases=[_original(lease) for lease in turn.leases])

        return _then(self._store.exchange(*arguments, **options), read)

    def renew(self, session: str, held: Sequence[Any] = (), **options: Any) -> Any:
        names = {self._ids.get(name, name): name for _, _, name in held}
        wanted = [(ref, token, self._ids.get(name, name)) for ref, token, name in held]

        def read(renewal: Renewal) -> Renewal:
            return Renewal(
                renewal.now,
                [names[lost] for lost in renewal.lost],
                [names[cancelled] for cancelled in renewal.cancelled],
                {names[name]: token for name, token in renewal.tokens.items()},
            )

        return _then(self._store.renew(session, wanted, **options), read)


def _original(job: Any) -> Any:
    assert isinstance(job, Lease | Snapshot)
    name, body, _ = json.loads(job.body)
    return msgspec.structs.replace(job, id=name, body=bytes.fromhex(body))


def _then(operation: Any, read: Callable[[Any], Any]) -> Steps[Any]:
    """The same operation with its answer translated."""

    def course() -> Any:
        answer = (yield from operation.begin()) if isinstance(operation, Steps) else (yield operation)
        return read(answer)

    return Steps(course)
