"""A Bedrock (or a headrace that serves as one) as a store: `@app.task` functions run for Bedrock's job names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast
from urllib.parse import parse_qsl

import msgspec

from headrace.dialects.bedrock import find
from headrace.dialects.bedrock.client.client import Client
from headrace.dialects.bedrock.client.replies import BedrockError, DoesNotExist, IllegalAction
from headrace.dialects.bedrock.lease_book import Session
from headrace.dialects.bedrock.mapping import Tasks, check, first_run, merge_data, retry_after, wire_name
from headrace.dialects.bedrock.wait import BedrockWaiter, Nap
from headrace.dialects.bedrock.wire import DEFAULT_PRIORITY
from headrace.errors import ConfigurationError, SessionGone
from headrace.records import (
    Counts,
    ExchangeReply,
    Filter,
    HistoryRecord,
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
    Swept,
    Take,
    Token,
)
from headrace.store.contract import Durability, Facet, Guard, NoGuard, Operation, Waiter
from headrace.store.urls import shown_url
from headrace.values.clock import Clock, SystemClock
from headrace.values.durations import milliseconds

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.worker.custody import Custody

T = TypeVar("T")


class Work(Operation[T], Generic[T]):
    """An operation: what to do with a client."""

    __slots__ = ("work",)

    def __init__(self, work: Callable[[Client], T]) -> None:
        self.work = work


class BedrockStore:
    """Jobs of a Bedrock: `bedrock://host:8888?failover=other:8888&timeout=1h`.

    `timeout` is for tasks that have none of their own: a run must end, as Bedrock gives its job to others once its
    `retryAfter` has passed. `failover` names further servers, with commas between them.
    """

    leases_in_jobs = True
    batch = 500
    put_at_once = None
    facets = frozenset({Facet.DELAY, Facet.MOVE, Facet.REVIVE})
    durability = Durability.PROCESS

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        address, _, query = url.partition("?")
        options = {"failover": "", "timeout": "1h"}
        given = dict(parse_qsl(query, keep_blank_values=True))
        unknown = set(given) - set(options)
        if unknown:
            raise ConfigurationError(
                f"{shown_url(url)!r}: unknown option {min(unknown)!r}. "
                "A Bedrock store takes failover=HOST:PORT and timeout=1h."
            )
        options |= given
        self.url = url
        self.timeout = milliseconds(options["timeout"], "timeout")
        self.client = Client(address, *filter(None, options["failover"].split(",")))
        self._clock = clock or SystemClock()
        self._tasks: Tasks = {}
        self._sessions: dict[str, tuple[SessionInfo | None, Session]] = {}
        self._closed: set[str] = set()

    def serve(self, app: Headrace) -> None:
        """Learn the app's tasks: their names are what to ask for, their time-outs what to allow."""
        self._tasks = app.tasks

    # -- running --

    def run(self, operation: Operation[T]) -> T:
        return cast("Work[T]", operation).work(self.client)

    async def arun(self, operation: Operation[T]) -> T:
        return await asyncio.to_thread(self.run, operation)

    def close(self) -> None:
        self.client.close()

    def advice(self) -> list[str]:
        """What an operator should know, in sentences; none if all is well."""
        try:
            return find.advice(self.client)
        except BedrockError as error:
            return [f"Jobs without a retryAfter could not be looked for: the server says {str(error)!r}."]

    # -- clients --

    def put(self, jobs: Sequence[NewJob]) -> Operation[list[Put]]:
        for job in jobs:
            check(job, self._tasks)
        return Work(lambda client: self._put(client, jobs))

    def _put(self, client: Client, jobs: Sequence[NewJob]) -> list[Put]:
        elements = [self._element(job) for job in jobs]
        if len(elements) == 1:
            parameters: dict[str, Any] = elements[0]
            ids = [
                client.create_job(
                    parameters["name"],
                    jobs[0].body,
                    first_run=parameters.get("firstRun"),
                    priority=parameters.get("jobPriority"),
                    retry_after=parameters["retryAfter"],
                )
            ]
        else:
            ids = client.create_jobs(elements) if elements else []
        return [Put(str(job_id), created=True) for job_id in ids]

    def _element(self, job: NewJob) -> dict[str, Any]:
        element: dict[str, Any] = {
            "name": wire_name(job.queue, job.task),
            "data": msgspec.Raw(job.body),
            "retryAfter": retry_after(job, self._tasks, self.timeout),
        }
        if job.priority:
            element["jobPriority"] = job.priority + DEFAULT_PRIORITY
        if (moment := first_run(job, self._clock.now())) is not None:
            element["firstRun"] = moment
        return element

    def get(self, ids: Sequence[str]) -> Operation[list[Snapshot | None]]:
        return Work(lambda client: find.get(client, ids, self._tasks, self._clock.now()))

    def find(self, wanted: Filter) -> Operation[Page]:
        return Work(lambda client: find.find(client, wanted, self._tasks, self._clock.now()))

    def counts(self) -> Operation[list[Counts]]:
        return Work(lambda client: find.counts(client, self._tasks, self._clock.now()))

    def history(self, job_id: str) -> Operation[list[HistoryRecord]]:
        return Work(lambda client: find.history(client, job_id, self._tasks, self._clock.now()))

    def cancel(self, ids: Sequence[str]) -> Operation[list[bool]]:
        """A child is cancelled; any other job that waits is deleted. One that runs cannot be told."""
        return Work(lambda client: [self._cancel(client, job_id) for job_id in ids])

    def _cancel(self, client: Client, job_id: str) -> bool:
        if not job_id.isdecimal():
            return False
        try:
            if client.query_job(int(job_id))["state"] in ("RUNNING", "PAUSED", "FINISHED"):
                return False
            try:
                client.cancel_job(int(job_id))
            except DoesNotExist:
                client.delete_job(int(job_id))
        except (DoesNotExist, IllegalAction):
            return False
        return True

    def delete(self, ids: Sequence[str]) -> Operation[list[bool]]:
        """All but what runs: DeleteJob refuses that."""
        return Work(lambda client: [self._delete(client, job_id) for job_id in ids])

    def revive(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return Work(lambda client: [self._revive(client, job_id) for job_id in ids])

    def _revive(self, client: Client, job_id: str) -> bool:
        if not job_id.isdecimal():
            return False
        try:
            job = client.query_job(int(job_id))
        except DoesNotExist:
            return False
        if job["state"] not in ("FAILED", "CANCELLED"):
            return False
        data = merge_data(msgspec.json.encode(job["data"]))
        if data is not None:
            client.update_job(int(job_id), data)  # its tries are forgotten
        client.requeue_jobs([int(job_id)])
        return True

    @staticmethod
    def _delete(client: Client, job_id: str) -> bool:
        with suppress(DoesNotExist, IllegalAction):
            if job_id.isdecimal():
                client.delete_job(int(job_id))
                return True
        return False

    def job_waiter(self, job_id: str) -> Waiter:
        return Nap()

    # -- workers --

    def open(self, session: SessionInfo) -> Operation[int]:
        def begin(client: Client) -> int:
            if session.id in self._closed:
                raise SessionGone(f"Session {session.id} is closed.")
            if session.id not in self._sessions:
                client.ping()
                self._sessions[session.id] = session, self._new_session(session.tasks)
            return self._clock.now()

        return Work(begin)

    def _new_session(self, names: Sequence[str] = ()) -> Session:
        return Session(self._clock, lambda: self._tasks, names)

    def _session(self, session: str) -> Session:
        """A session of this process. A supervisor has opened it in another one: Bedrock need not know."""
        if session in self._closed:
            raise SessionGone(f"Session {session} is closed.")
        return self._sessions.setdefault(session, (None, self._new_session()))[1]

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
    ) -> Operation[ExchangeReply]:
        return Work(lambda client: self._session(session).exchange(client, number, outcomes, take))

    def report(self, session: str, number: int, reports: Sequence[Report], *, steady: int = 0) -> Operation[list[bool]]:
        return Work(lambda client: self._session(session).report(client, reports))

    def renew(
        self,
        session: str,
        held: Sequence[tuple[Ref, Token, str]] = (),
        *,
        started: Sequence[Ref] = (),
        complete: int | None = None,
    ) -> Operation[Renewal]:
        """Nothing can be renewed: a lease lasts as long as its job's retryAfter. Says which ones are over."""

        def look(client: Client) -> Renewal:
            return Renewal(now=self._clock.now(), lost=self._session(session).lost(held))

        return Work(look)

    def close_session(self, session: str, *, crashed: Sequence[Ref] | None = ()) -> Operation[list[str]]:
        """Gives back what this process holds, or has inherited; with the try counted where a function was entered."""

        def end(client: Client) -> list[str]:
            _, known = self._sessions.pop(session, (None, None))
            if session in self._closed:
                return []
            self._closed.add(session)
            if known is None:
                return []
            if known.custody is not None:  # before it is told: see Session.write_down
                known.custody.keep({})
            held = [*known.hands, *(found.job_id for found in known.arrived), *known.inherited]
            dead = [job_id for job_id in held if job_id in (crashed or ())]
            if dead:
                client.requeue_jobs(dead)
            left = [job_id for job_id in held if job_id not in dead]
            known.give_back(client, left)
            return [str(job_id) for job_id in (*dead, *left)]

        return Work(end)

    def write_down(self, session: str, custody: Custody) -> None:
        self._session(session).custody = custody

    def inherit(self, session: str, held: Mapping[Ref, Sequence[Any]]) -> None:
        self._session(session).inherit(held)

    def sessions(self) -> Operation[list[SessionSnapshot]]:
        """Those of this process: Bedrock keeps no list."""

        def look(client: Client) -> list[SessionSnapshot]:
            now = self._clock.now()
            return [
                SessionSnapshot(info=info, opened=now, seen=now, running=len(session.hands), alive=True)
                for info, session in self._sessions.values()
                if info is not None
            ]

        return Work(look)

    def waiter(self, session: str, queues: Sequence[str]) -> Waiter:
        return BedrockWaiter(self.client, self._session(session))

    def sweep(self, *, every: int | None = None) -> Operation[Swept]:
        return Work(lambda client: Swept())
