"""What the parts of the model share: what there is, and the lock around each operation."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from headrace.records import HistoryRecord, ScheduleRecord
from headrace.store.auditing import Act
from headrace.store.blocking import Block
from headrace.store.contract import Operation
from headrace.store.facets import EventRecord, QueueControl
from headrace.store.lanes import LaneRule
from headrace.values.clock import Clock, SystemClock

from .records import Edge, Ended, Job, LaneRecord, Session
from .wait import ModelWaiter

T = TypeVar("T")


class Step(Operation[T]):
    """An operation, described: call it to do it."""

    __slots__ = ("act",)

    def __init__(self, act: Callable[..., T], *args: object, **kwargs: object) -> None:
        self.act = partial(act, *args, **kwargs)


class Core:
    """The base of each part. A part calls the others as its own: only together, as `Model`, they are a store."""

    def __init__(
        self, *, clock: Clock | None = None, keep_done: int | None = None, keep_failed: int | None = None
    ) -> None:
        self.clock = clock or SystemClock()
        self.keep_done = keep_done
        self.keep_failed = keep_failed
        self.jobs: dict[str, Job] = {}
        self.known_schedules: dict[str, ScheduleRecord] = {}
        self.known_sessions: dict[str, Session] = {}
        self.ears: list[ModelWaiter] = []
        self.lock = threading.Lock()
        self.last_ref = 0
        self.edges: list[Edge] = []
        self.last_edge = 0
        self.ended: list[Ended] = []
        self.known_lanes: dict[tuple[str, str], LaneRecord] = {}
        self.rules_of_lanes: dict[tuple[str, str], LaneRule] = {}
        self.queue_controls: dict[str, QueueControl] = {}
        self.set: dict[str, int] = {}
        self.acts: list[Act] = []
        self.waited: list[tuple[str, int, int]] = []
        """Queue, day of the take and wait of all jobs that were ever done."""
        self.ran: list[tuple[str, int, int]] = []
        """Queue, day of the end and run of the same."""
        self.passed_left = 0
        """How many more may leave their lines in the present take, because they have expired or are barred."""
        self.has_failed_some = False
        """Whether the present take has failed jobs that have expired."""
        self.block_list: dict[str, Block] = {}
        self.counted: Counter[tuple[str, str, int]] = Counter()
        self.failing: dict[str, list[int]] = {}
        """When jobs failed, by group."""
        self.gone: list[tuple[str, int, int | None]] = []
        """Queue, arrival in time and end of all jobs that were removed."""
        self.listened_until = 0
        self.happenings: list[EventRecord] = []
        """Since somebody first listened."""

    def run(self, operation: Operation[T]) -> T:
        assert isinstance(operation, Step)
        with self.lock:
            return operation.act()

    async def arun(self, operation: Operation[T]) -> T:
        return self.run(operation)

    def close(self) -> None:
        pass

    def _note(
        self,
        job: Job,
        what: str,
        detail: str = "",
        at: int | None = None,
        worker: str = "",
        account: bytes | None = None,
    ) -> None:
        """Add a line to a job's history. `worker`: whose run it is about, `account`: what that tells of it."""
        job.events.append(HistoryRecord(self.clock.now() if at is None else at, what, detail, worker, account))
