"""A Bedrock (or a headrace that serves as one) as a store: `@app.task` functions run for Bedrock's job names."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import ClassVar, Generic, TypeVar, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from headrace.dialects.base import OwnerlessStore
from headrace.dialects.bedrock import find, mapping, schedules
from headrace.dialects.bedrock.client.client import Client
from headrace.dialects.bedrock.client.commands import create
from headrace.dialects.bedrock.client.replies import BedrockError, DoesNotExist, IllegalAction
from headrace.dialects.bedrock.exchange import Exchanges
from headrace.dialects.bedrock.sessions import Session
from headrace.dialects.bedrock.waiter import GetJobsWaiter, PollingWaiter
from headrace.dialects.bedrock.wire import DEFAULT_PRIORITY, PRIORITIES
from headrace.dialects.lease_book import LeaseBook
from headrace.errors import ConfigurationError, Unsupported
from headrace.options import CARRIED
from headrace.records import (
    Counts,
    Filter,
    HistoryRecord,
    IfFailed,
    NewJob,
    Page,
    Put,
    ScheduleRecord,
    SessionInfo,
    Snapshot,
)
from headrace.store.contract import Bonds, Facet, Operation, Waiter
from headrace.store.facets import ScheduleLook
from headrace.store.urls import shown_url
from headrace.values.clock import Clock, SystemClock
from headrace.values.durations import milliseconds

T = TypeVar("T")


class Requests(Operation[T], Generic[T]):
    """An operation: a function that makes its requests."""

    __slots__ = ("work",)

    def __init__(self, work: Callable[[], T]) -> None:
        self.work = work


class BedrockStore(OwnerlessStore[Session]):
    """Jobs of a Bedrock: `bedrock://[:SECRET@]host:8888?failover=other:8888&timeout=1h`.

    `timeout` is for tasks that have none of their own: a run must end, as Bedrock gives its job to others once its
    `retryAfter` has passed. `failover` names further servers, with commas between them. `tls=yes` speaks TLS, and `ca`
    is a file of certificates to trust instead of the system's.
    """

    facets = frozenset({Facet.DELAY, Facet.MOVE, Facet.REVIVE, Facet.SCHEDULES})
    CARRIES: ClassVar = frozenset({"sequence", "after", "if_failed", "wait_for"})
    REFUSES: ClassVar = {
        "priority": "Bedrock has six priorities: "
        f"{', '.join(str(level - DEFAULT_PRIORITY) for level in sorted(PRIORITIES))} (for its 0 to 1000).",
        **dict.fromkeys(
            CARRIED,
            "A Bedrock job has no field for retries and keep_result, and its time-out can only be shorter than its "
            "task's: set them on the task.",
        ),
        "max_crashes": "Bedrock does not have a limit of crashes: the eleventh hand-out without a finish fails a job.",
        "unique": "Bedrock's unique compares names: unique=True is for tasks that take no arguments. It has no other "
        "key, and none that outlives the job.",
        "after": "A Bedrock job waits for one job at most, its parent, and is created while that runs: write "
        "after=[current().id], without sequence=.",
        "if_failed": "In Bedrock a child of a job that has failed goes on waiting. Write if_failed='wait'.",
        "lane": "Bedrock does not have lanes but for sequences (sequence=).",
        "require_worker": "Bedrock does not have a list of workers, so none can be required.",
        "tick": "Bedrock makes a job repeat by itself, when its run has ended.",
    }

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        address, _, query = url.partition("?")
        options = {"failover": "", "timeout": "1h", "tls": "no", "ca": ""}
        given = dict(parse_qsl(query, keep_blank_values=True))
        unknown = set(given) - set(options)
        if unknown:
            raise ConfigurationError(
                f"{shown_url(url)!r}: unknown option {min(unknown)!r}. "
                "A Bedrock store takes failover=HOST:PORT, timeout=1h, tls=yes and ca=FILE."
            )
        options |= given
        self.url = url
        self.timeout = milliseconds(options["timeout"], "timeout")
        secret = unquote(urlsplit(address).password or "") or None
        others = filter(None, options["failover"].split(","))
        self.client = Client(address, *others, secret=secret, tls=_tls_context(options["tls"], options["ca"]))
        self._clock = clock or SystemClock()
        self.book = LeaseBook(lambda session: Session(session, self._clock))
        self.exchanges = Exchanges(self.client, self._clock, lambda: self.tasks, self.book)

    # -- running --

    def run(self, operation: Operation[T]) -> T:
        return cast("Requests[T]", operation).work()

    async def arun(self, operation: Operation[T]) -> T:
        return await asyncio.to_thread(self.run, operation)

    def known(self, answer: Callable[[], T]) -> Operation[T]:
        return Requests(answer)

    def work(self, begin: Callable[[], T]) -> Operation[T]:
        return Requests(begin)

    def close(self) -> None:
        self.client.close()

    def advice(self) -> list[str]:
        try:
            return find.advice(self.client)
        except BedrockError as error:
            return [f"Jobs without a retryAfter could not be looked for: the server says {str(error)!r}."]

    # -- clients --

    def carries(self, option: str, job: NewJob) -> bool:
        if option == "priority":
            return job.priority + DEFAULT_PRIORITY in PRIORITIES
        if option == "lane":
            return job.lane is not None and job.lane.sequence
        if option == "after":
            return len(job.after) == 1 and job.after[0].isdecimal() and job.lane is None
        if option == "if_failed":
            return job.if_failed is IfFailed.WAIT
        if option == "unique":
            return mapping.carries_unique(job, self.tasks)
        return option == "timeout" and mapping.carries_timeout(job, self.tasks)

    def put(self, jobs: Sequence[NewJob]) -> Operation[list[Put]]:
        self.refuse_options(jobs)
        for job in jobs:
            mapping.check_name(job)
        return Requests(lambda: self._put(jobs))

    def _put(self, jobs: Sequence[NewJob]) -> list[Put]:
        new = [mapping.creation(job, self.tasks, self.timeout, self._clock.now()) for job in jobs]
        known = find.named(self.client, [job["name"] for job in new if "unique" in job])
        try:
            ids = [self.client.run(create(**new[0]))] if len(new) == 1 else self.client.create_jobs(new) if new else []
        except (DoesNotExist, IllegalAction) as error:
            if not any(job.after for job in jobs):
                raise
            raise Unsupported(f"{self.REFUSES['after']} The server says: {error}.") from error
        return [Put(str(job_id), created=job_id not in {*known, *ids[:place]}) for place, job_id in enumerate(ids)]

    def get(self, ids: Sequence[str]) -> Operation[list[Snapshot | None]]:
        return Requests(lambda: find.get(self.client, ids, self.tasks, self._clock.now()))

    def find(self, wanted: Filter) -> Operation[Page]:
        return Requests(lambda: find.find(self.client, wanted, self.tasks, self._clock.now()))

    def stranded(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return Requests(lambda: find.stranded(self.client, ids))

    def bonds(self, ids: Sequence[str]) -> Operation[list[Bonds]]:
        return Requests(lambda: find.bonds(self.client, ids, self.tasks, self._clock.now()))

    def counts(self) -> Operation[list[Counts]]:
        return Requests(lambda: find.counts(self.client, self.tasks, self._clock.now()))

    def history(self, job_id: str) -> Operation[list[HistoryRecord]]:
        return Requests(lambda: find.history(self.client, job_id, self.tasks, self._clock.now()))

    def cancel(self, ids: Sequence[str]) -> Operation[list[bool]]:
        """A child is cancelled; any other job that waits is deleted. A worker cannot be told."""
        return self._each(ids, self._cancel)

    def delete(self, ids: Sequence[str]) -> Operation[list[bool]]:
        """DeleteJob refuses a job that runs."""
        return self._each(ids, self._delete)

    def revive(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return self._each(ids, self._revive)

    def _each(self, ids: Sequence[str], act: Callable[[int], bool]) -> Operation[list[bool]]:
        """Act on jobs one by one. A job that is gone, or in the wrong state, is answered with False."""

        def acted(job_id: str) -> bool:
            with suppress(DoesNotExist, IllegalAction):
                return job_id.isdecimal() and act(int(job_id))
            return False

        return Requests(lambda: [acted(job_id) for job_id in ids])

    def _cancel(self, job_id: int) -> bool:
        if self.client.query_job(job_id)["state"] in ("RUNNING", "PAUSED", "FINISHED"):
            return False
        try:
            self.client.cancel_job(job_id)
        except DoesNotExist:  # it has no parent
            self.client.delete_job(job_id)
        return True

    def _delete(self, job_id: int) -> bool:
        self.client.delete_job(job_id)
        return True

    def _revive(self, job_id: int) -> bool:
        job = self.client.query_job(job_id)
        if job["state"] not in ("FAILED", "CANCELLED"):
            return False
        data = mapping.merge_data(msgspec.json.encode(job["data"]))
        if data is not None:
            self.client.update_job(job_id, data)  # its tries are forgotten
        self.client.requeue_jobs([job_id])
        return True

    def job_waiter(self, job_id: str) -> Waiter:
        return PollingWaiter()

    # -- schedules --

    def put_schedule(self, record: ScheduleRecord, expected: int | None) -> Operation[bool]:
        schedules.check(self, record)
        return Requests(lambda: schedules.put(self, record, expected, self._clock.now()))

    def schedules(
        self, names: Sequence[str] | None = None, *, after: str = "", limit: int = 100
    ) -> Operation[ScheduleLook]:
        return Requests(lambda: schedules.look(self, names, after, limit, self._clock.now()))

    def delete_schedule(self, name: str) -> Operation[bool]:
        return Requests(lambda: schedules.delete(self, name))

    # -- workers --

    def open(self, session: SessionInfo) -> Operation[int]:
        def begin() -> int:
            if self.book.get(session.id).info is None:
                self.client.ping()
                self.book.open(session, self._clock.now())
            return self._clock.now()

        return Requests(begin)

    def waiter(self, session: str, queues: Sequence[str]) -> Waiter:
        return GetJobsWaiter(self.client, self.book.get(session))


def _tls_context(tls: str, ca: str) -> ssl.SSLContext | None:
    """TLS as a URL asks for it; `ca` is the file of certificates to trust instead of the system's."""
    if tls not in ("yes", "no"):
        raise ConfigurationError(f"tls is yes or no, not {tls!r}.")
    if tls == "no" and not ca:
        return None
    try:
        return ssl.create_default_context(cafile=ca or None)
    except OSError as error:
        raise ConfigurationError(f"ca={ca}: {error}.") from error
