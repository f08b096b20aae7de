"""A Qless installation as a store: the ordinary app, worker and command line among Qless' own clients and workers."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from functools import cached_property
from typing import Any, TypeVar, cast

import msgspec

from headrace.clock import Clock, SystemClock
from headrace.errors import StoreError
from headrace.job import (
    Counts,
    Event,
    Filter,
    NewJob,
    Outcome,
    Page,
    Put,
    Ref,
    Renewal,
    Report,
    SessionInfo,
    SessionSnapshot,
    Snapshot,
    State,
    Swept,
    Take,
    Token,
    Turn,
    Verdict,
)
from headrace.store.contract import Durability, Facet, Guard, Operation, Waiter
from headrace.store.redis import NoGuard, doctor
from headrace.store.redis.operation import Reply, Script, Steps

from . import mapping, waiter
from .driver import open_driver, refusal
from .scripts import store_script

T = TypeVar("T")

_VERDICTS = tuple(Verdict)
_READS = frozenset({"get", "list", "counts", "workers"})
_WAITING = {"waiting": State.READY, "scheduled": State.SCHEDULED, "depends": State.BLOCKED}
_ALIVE_SECONDS = 120
"""A worker that has not been heard of for so long is not counted as alive. (Idle Qless workers poll once a minute.)"""


class QlessStore:
    """Jobs of a Qless installation: `qless+redis://host:6379/0` (or `+rediss`, `+unix`, `+redis+sentinel`).

    A task's jobs have its name as their klass and the object of its arguments as their data. `?priority=lower-first`
    turns priorities round. `clock` is for tests: the server's clock is the one that counts.
    """

    leases_in_jobs = True
    facets = frozenset({Facet.DELAY, Facet.PRIORITY, Facet.DATA, Facet.HISTORY, Facet.REVIVE, Facet.MOVE})

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        self.url = url
        self.driver, options = open_driver(url, source=store_script())
        self._lower_first = options.get("priority") == "lower-first"
        self._clock = None if clock is None or isinstance(clock, SystemClock) else clock
        self._in_hand: dict[Ref, mapping.Saying] = {}
        """What was handed out here: a run's words are stored together with its arguments."""

    # -- running --

    def run(self, operation: Operation[T]) -> T:
        if isinstance(operation, _Nothing):
            return cast("T", Swept())
        try:
            return self.driver.run(cast("Script[T] | Steps[T]", operation))
        except StoreError as error:
            _explain(error)
            raise

    async def arun(self, operation: Operation[T]) -> T:
        if isinstance(operation, _Nothing):
            return cast("T", Swept())
        try:
            return await self.driver.arun(cast("Script[T] | Steps[T]", operation))
        except StoreError as error:
            _explain(error)
            raise

    def close(self) -> None:
        self.driver.close()

    @cached_property
    def durability(self) -> Durability:
        """What the server's own settings promise. Asked once."""
        return doctor.durability(self.driver)

    def advice(self) -> list[str]:
        """What an operator should know about this server, in sentences; none if all is well."""
        return doctor.advice(self.driver)

    def _script(
        self, operation: str, arguments: object, read: Callable[[float, Any], T], *, repeatable: bool = True
    ) -> Script[T]:
        def understand(reply: Reply, _: bool) -> T:
            return read(float(reply[0]), json.loads(reply[1]))

        now = b"" if self._clock is None else repr(self._clock.now() / 1000).encode()
        packed = msgspec.msgpack.encode(arguments)
        repeatable = repeatable or operation in _READS
        return Script(operation, (operation.encode(), now, packed), understand, repeatable=repeatable)

    # -- clients --

    def put(self, jobs: Sequence[NewJob]) -> Operation[list[Put]]:
        described = [mapping.new_job(job, self._lower_first) for job in jobs]
        return self._script("put", described, lambda _, __: [Put(job.id, True) for job in jobs])

    def get(self, ids: Sequence[str]) -> Operation[list[Snapshot | None]]:
        return self._get(ids)

    def _get(self, ids: Sequence[str]) -> Script[list[Snapshot | None]]:
        return self._script(
            "get",
            list(ids),
            lambda _, jobs: [mapping.snapshot(job, self._lower_first) if job else None for job in jobs],
        )

    def find(self, wanted: Filter) -> Operation[Page]:
        return Steps(lambda: self._find(wanted))

    def _find(self, wanted: Filter) -> Generator[Script[Any], Any, Page]:
        """Looks at up to a thousand jobs of each place: Qless has no index of them all."""
        arguments = {
            "states": [state.value for state in wanted.states or State],
            "queue": wanted.queue or "",
            "group": wanted.group or "",
        }
        jids = yield self._script("list", arguments, lambda _, found: list(found or []))
        found: list[Snapshot | None] = []
        for first in range(0, len(jids), 500):
            found += yield self._get(jids[first : first + 500])
        jobs = [
            job
            for job in found
            if job is not None
            and (not wanted.states or job.state in wanted.states)
            and wanted.queue in (None, job.queue)
            and wanted.task in (None, job.task)
            and wanted.group in (None, job.group)
        ]
        jobs.sort(key=lambda job: (-job.created, job.id))
        start = int(wanted.after or 0)
        end = start + wanted.limit
        return Page(jobs[start:end], str(end) if end < len(jobs) else None)

    def counts(self) -> Operation[list[Counts]]:
        def read(_: float, found: Any) -> list[Counts]:
            queues = {entry["name"]: entry for entry in found["queues"] or []}
            failed: dict[str, int] = dict(found["failed"] or {})
            counts = []
            for name in sorted(queues.keys() | failed.keys()):
                entry = queues.get(name, {})
                by_state = {state: entry.get(word, 0) for word, state in _WAITING.items()}
                by_state[State.RUNNING] = entry.get("running", 0) + entry.get("stalled", 0)
                by_state[State.FAILED] = failed.get(name, 0)
                if any(by_state.values()):
                    counts.append(Counts(name, {state: number for state, number in by_state.items() if number}))
            return counts

        return self._script("counts", {}, read)

    def history(self, job_id: str) -> Operation[list[Event]]:
        def read(_: float, jobs: Any) -> list[Event]:
            entries = (jobs[0]["history"] or []) if jobs[0] else []
            return [mapping.event(entry, first=i == 0) for i, entry in enumerate(entries)]

        return self._script("get", [job_id], read)

    def cancel(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return self._yes_or_no("cancel", ids)

    def delete(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return self._yes_or_no("delete", ids)

    def revive(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return self._yes_or_no("revive", ids)

    def _yes_or_no(self, operation: str, ids: Sequence[str]) -> Script[list[bool]]:
        return self._script(operation, list(ids), lambda _, answers: list(map(bool, answers)), repeatable=False)

    def watcher(self, job_id: str) -> Waiter:
        return waiter.for_job(self.driver, job_id)

    # -- workers --

    def open(self, session: SessionInfo) -> Operation[int]:
        arguments = {
            "session": session.id,
            "worker": worker_name(session.id),
            "info": msgspec.json.encode(session).decode(),
        }
        return self._script("open", arguments, lambda now, _: mapping.milliseconds(now))

    def guard(self, session: str) -> Guard:
        return NoGuard()

    def exchange(
        self,
        session: str,
        number: int,
        outcomes: Sequence[Outcome] = (),
        take: Take | None = None,
        *,
        steady: int = 0,
        started: Sequence[Ref] = (),
    ) -> Operation[Turn]:
        def read(now: float, answer: Any) -> Turn:
            for settled in outcomes:
                self._in_hand.pop(settled.ref, None)
            slots = take.slots if take is not None else 0
            leases = [
                mapping.lease(job, spare=i >= slots, lower_first=self._lower_first)
                for i, job in enumerate(answer["jobs"] or [])
            ]
            for lease in leases:
                self._in_hand[lease.ref] = mapping.Saying(lease.body, lease.data)
            due = answer.get("due")
            verdicts = [_VERDICTS[code] for code in answer["verdicts"] or []]
            return Turn(verdicts, leases, mapping.milliseconds(now), mapping.milliseconds(due) if due else None)

        arguments: dict[str, Any] = {
            "session": session,
            "number": number,
            "outcomes": [mapping.outcome(settled, self._in_hand.get(settled.ref)) for settled in outcomes],
        }
        if take is not None:
            arguments["wanted"] = {
                "queues": list(take.queues), "count": take.slots + take.spare, "round_robin": take.round_robin,
            }  # fmt: skip
        return self._script("exchange", arguments, read)

    def report(self, session: str, number: int, reports: Sequence[Report], *, steady: int = 0) -> Operation[list[bool]]:
        told = [mapping.report(said, self._in_hand.get(said.ref), steady) for said in reports]
        arguments = {"session": session, "number": number, "reports": told}
        return self._script("report", arguments, lambda _, answers: list(map(bool, answers)))

    def renew(
        self, session: str, held: Sequence[tuple[Ref, Token, str]] = (), *, started: Sequence[Ref] = ()
    ) -> Operation[Renewal]:
        def read(now: float, codes: Any) -> Renewal:
            lost = [job_id for code, (_, _, job_id) in zip(codes or [], held, strict=True) if code]
            return Renewal(mapping.milliseconds(now), lost, [])

        arguments = {"session": session, "held": [[ref, token] for ref, token, _ in held]}
        return self._script("renew", arguments, read)

    def close_session(self, session: str, *, crashed: Sequence[Ref] | None = ()) -> Operation[list[str]]:
        arguments: dict[str, Any] = {"session": session}
        if crashed is not None:
            arguments["crashed"] = list(crashed)
        return self._script("close", arguments, lambda _, jids: list(jids or []))

    def sessions(self) -> Operation[list[SessionSnapshot]]:
        """All workers that the installation knows, Qless' own included."""

        def read(now: float, workers: Any) -> list[SessionSnapshot]:
            return [
                SessionSnapshot(
                    info=SessionInfo(id=worker["name"], name=worker["name"]),
                    opened=mapping.milliseconds(worker["seen"]),
                    seen=mapping.milliseconds(worker["seen"]),
                    running=worker["jobs"] + worker["stalled"],
                    alive=now - worker["seen"] < _ALIVE_SECONDS,
                )
                for worker in workers or []
            ]

        return self._script("workers", {}, read)

    def waiter(self, session: str, queues: Sequence[str]) -> Waiter:
        return waiter.for_worker(self.driver, worker_name(session), queues)

    def sweep(self) -> Operation[Swept]:
        """Nothing to do: a lock that has ended is dealt with by the next pop of its queue."""
        return _Nothing()


class _Nothing(Operation[Swept]):
    __slots__ = ()


def worker_name(session: str) -> str:
    """The name under which a session is known to Qless: unique to it, because the name is what fences it."""
    return f"headrace-{session}"


def _explain(error: StoreError) -> None:
    """What the library refused is told in its own words, without the server's."""
    if type(error) is StoreError and (text := refusal(error)) is not None:
        raise StoreError(text) from error
