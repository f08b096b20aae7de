"""The dialects as entries of the registry: how to open one for a test.

Those on Redis share one server, unless a test names another `program`. WorkKit gets a name of its own for each test;
GearMonkey and Qless have no names, and hworker's queues are keys of the server, so these get an empty database.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from dialects.bedrock.harness import InProcess
from headrace.dialects.bedrock import exchange
from headrace.dialects.bedrock.server.server import Options
from headrace.dialects.bedrock.store import BedrockStore
from headrace.dialects.gearmonkey import GearMonkeyStore
from headrace.dialects.hworker import HworkerStore
from headrace.dialects.qless.store import QlessStore
from headrace.dialects.workkit import WorkKitStore
from headrace.dialects.workkit.payload import canonical, job_id
from headrace.dialects.workkit.times import cron_of
from headrace.records import IfFailed, Lease, NewJob, Outcome, Report, Snapshot
from headrace.store.facets import Edit
from headrace.values.clock import Clock
from store.redis import servers

from .translated import Translated

T = TypeVar("T")

DATABASES = {"gearmonkey": 7, "qless": 8, "hworker": 9}
_numbers = itertools.count(1)


def _name() -> str:
    return f"suite-{os.getpid()}-{next(_numbers)}"


def _empty(dialect: str, program: str = "") -> str:
    """The URL of an empty database."""
    server = servers.shared(program)
    with server.client() as client:
        client.execute_command("SELECT", DATABASES[dialect])
        client.flushdb()
    return f"{dialect}+{server.url}?db={DATABASES[dialect]}"


def gearmonkey(_: Path, clock: Clock, program: str = "", **options: Any) -> Any:
    return GearMonkeyStore(_empty("gearmonkey", program), clock=clock, **options)


class _Json(Translated):
    """Data are JSON, too. And a job that comes after others goes on waiting if one of them fails.

    (The suite's own default is that it fails with them, which a put refuses here.)
    """

    def put(self, jobs: Sequence[NewJob]) -> Any:
        waiting = [replace(job, if_failed=IfFailed.WAIT) if job.after else job for job in jobs]
        return super().put([_with_data(job) for job in waiting])

    def edit(self, ids: Sequence[str], change: Edit) -> Any:
        return super().edit(ids, _with_data(change))

    def exchange(self, session: str, number: int, outcomes: Sequence[Outcome] = (), *rest: Any, **options: Any) -> Any:
        return super().exchange(session, number, [_with_data(outcome) for outcome in outcomes], *rest, **options)

    def report(self, session: str, number: int, reports: Sequence[Report], **options: Any) -> Any:
        return self._store.report(session, number, [_with_data(report) for report in reports], **options)

    def _named(self, job: Lease | Snapshot) -> Any:
        named = super()._named(job)
        return named if named.data is None else replace(named, data=_plain(named.data))


def _with_data(said: T) -> T:
    data: bytes | None = said.data  # type: ignore[attr-defined]
    return said if data is None else replace(said, data=json.dumps(data.decode("latin-1")).encode())  # type: ignore[type-var]


def qless(_: Path, clock: Clock, program: str = "", **options: Any) -> Any:
    return _Json(QlessStore(_empty("qless", program), clock=clock, **options), as_object, from_object)


def as_object(job: NewJob) -> bytes:
    """Arguments are a JSON object."""
    return job.body if job.body.startswith(b"{") else json.dumps({"body": job.body.decode("latin-1")}).encode()


def from_object(body: bytes) -> bytes:
    return json.loads(body)["body"].encode("latin-1") if body.startswith(b'{"body"') else body


def hworker(_: Path, clock: Clock, **options: Any) -> Any:
    store = HworkerStore(f"{_empty('hworker')}&name={_name()}", clock=clock, **options)
    return Translated(store, lambda job: json.dumps(job.body.decode("latin-1")).encode(), _plain)


def _plain(body: bytes) -> bytes:
    return json.loads(body).encode("latin-1")


def workkit(_: Path, clock: Clock, **options: Any) -> Any:
    store = WorkKitStore(f"workkit+{servers.shared().url}?schedule={_name()}", clock=clock, **options)
    salts: dict[tuple[str, bytes], int] = {}

    def wrap(job: NewJob) -> bytes:
        """Jobs of one second stand in the order of their ids. A third argument makes that the order of the puts."""
        if (job.id, job.body) not in salts:
            place = f"{min(len(salts), 15):x}"
            moment = cron_of(clock.now() // 1000 * 1000)
            salts[job.id, job.body] = next(
                salt
                for salt in itertools.count()
                if job_id(canonical(job.task, moment, [job.id, job.body.hex(), salt], job.id)).startswith(place)
            )
        return json.dumps([job.id, job.body.hex(), salts[job.id, job.body]]).encode()

    return Translated(store, wrap, lambda body: bytes.fromhex(json.loads(body)[1]))


class _OwnServer(Translated):
    """A store whose server ends with it."""

    def __init__(self, store: BedrockStore, server: InProcess) -> None:
        super().__init__(store, as_object, from_object)
        self._server = server

    def close(self) -> None:
        self._store.close()
        self._server.stop()


def bedrock(directory: Path, clock: Clock, **options: Any) -> Any:
    next(exchange._tokens)  # tokens count the hand-outs of a process: no test is to be the one that begins at 1
    server = InProcess(directory / f"jobs{next(_numbers)}.db", Options(node_name="node"), clock).start()
    return _OwnServer(BedrockStore(f"bedrock://127.0.0.1:{server.port}", clock=clock, **options), server)
