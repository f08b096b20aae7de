"""GearMonkey as a store: the ordinary app, worker and command line among peers that know only the protocol."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import ClassVar

from headrace.dialects.gearmonkey import doctor, find, records, requests, waiter
from headrace.dialects.gearmonkey.driver import GearMonkeyDriver
from headrace.dialects.gearmonkey.mapping import Shapes
from headrace.dialects.on_redis import RedisDialect, test_clock
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
    Take,
    Token,
    Verdict,
)
from headrace.store.contract import Facet, Operation, Reported, Swept, Waiter
from headrace.store.redis.addresses import parse_for
from headrace.store.redis.operation import Reply, Script, Steps
from headrace.values.clock import Clock

log = logging.getLogger("headrace.gearmonkey")

_VERDICTS = tuple(Verdict)


class GearMonkeyStore(RedisDialect):
    """Jobs of a GearMonkey installation: `gearmonkey+redis://host:6379/0` (or `+rediss`, `+unix`, `+redis+sentinel`).

    A task's jobs stand in the line of the function with the task's name, or of the function that the queue names where
    that is not `default`. `clock` is for tests: the server's clock is the one that counts.
    """

    driver: GearMonkeyDriver
    jobs_expire = True
    leases_in_jobs = False
    facets = frozenset({Facet.DELAY, Facet.PRIORITY, Facet.RESULT, Facet.DATA, Facet.REVIVE, Facet.ROLL_CALL})
    REFUSES: ClassVar = {
        "expires": "Workers of other programs on GearMonkey know of no expiry, and would start a job after it.",
        "unique": "GearMonkey has no unique jobs: every run is given a new number (INCR uid:FN), and a peer does not "
        "look whether there is one already.",
    }

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        self.url = url
        place, _ = parse_for("GearMonkey", url, "gearmonkey+redis://localhost:6379/0")
        self.driver = GearMonkeyDriver(place, test_clock(clock))
        self.shapes = Shapes(lambda: self.tasks)
        self._has_room: dict[str, bool] = {}
        self._taken: dict[str, int] = {}
        """How often a session has found jobs."""
        self._runs: dict[Ref, records.Run] = {}
        """What was handed out here."""
        self._cursor = b"0"

    def knows(self, task: str) -> bool:
        return task in self.tasks

    def home(self, task: str, queue: str) -> str:
        own = self.tasks[task].options.queue
        return own if requests.function_for(task, own) == queue else queue

    def advice(self) -> list[str]:
        """What an operator should know: about the server, and about jobs and counts that somebody left behind."""
        return [*super().advice(), *self.run(Steps(doctor.advice))]

    def repair(self, *, orphan_after: float | None = None, alone: bool = False) -> list[str]:
        """Put right what `advice` tells of, where that does no harm; answers with what was done, in sentences.

        `orphan_after`: also put back busy jobs that no headrace worker holds, if they were first seen like that at
        least so many seconds ago; it must be longer than any job of a peer's worker takes. `alone`: no peer's worker
        runs, so counts above what headrace knows are wrong, too.
        """
        return self.run(Steps(lambda: doctor.repair(orphan_after, alone)))

    # -- clients --

    def put(self, jobs: Sequence[NewJob]) -> Operation[list[Put]]:
        self.refuse_options(jobs)
        return Script("put", (requests.new_jobs(jobs, self.shapes),), lambda _, __: [Put(job.id, True) for job in jobs])

    def get(self, ids: Sequence[str]) -> Operation[list[Snapshot | None]]:
        return find.get(ids, self.shapes)

    def find(self, wanted: Filter) -> Operation[Page]:
        return Steps(lambda: find.find(wanted, self.shapes))

    def counts(self) -> Operation[list[Counts]]:
        return Steps(find.counts)

    def history(self, job_id: str) -> Operation[list[HistoryRecord]]:
        return Steps(lambda: find.history(job_id, self.shapes))

    def cancel(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return _yes_or_no("cancel", ids, repeatable=True)

    def delete(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return _yes_or_no("delete", ids)

    def revive(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return _yes_or_no("revive", ids)

    def job_waiter(self, job_id: str) -> Waiter:
        return waiter.for_job(self.driver, job_id)

    # -- workers --

    def open(self, session: SessionInfo) -> Operation[int]:
        return Script("open", requests.introduction(session), lambda reply, _: int(reply))

    def _exchange(
        self,
        session: str,
        number: int,
        outcomes: Sequence[Outcome],
        take: Take | None,
        steady: int,
        started: Sequence[Ref],
    ) -> Operation[ExchangeReply]:
        def read(reply: Reply, _: bool) -> ExchangeReply:
            now, due, verdicts, entries, dropped = reply
            for outcome in outcomes:
                self._runs.pop(outcome.ref, None)
            leases = records.leases(entries, self.shapes, self._runs)
            for name in dropped:
                log.warning("job %s has gone or has ended: its number is dropped from the queue", name.decode())
            self._has_room[session] = take is not None and len(leases) < take.slots
            if leases:
                self._taken[session] = self._taken.get(session, 0) + 1
            return ExchangeReply([_VERDICTS[code] for code in verdicts], leases, now, due if due >= 0 else None)

        arguments = (
            session.encode(),
            b"%d" % number,
            requests.outcomes(outcomes, steady, self._runs, self.shapes),
            requests.pack(list(started)),
            requests.wanted(take),
        )
        return Script("exchange", arguments, read)

    def report(
        self, session: str, number: int, reports: Sequence[Report], *, steady: int = 0
    ) -> Operation[list[Reported]]:
        arguments = (session.encode(), b"%d" % number, requests.reports(reports))
        return Script("report", arguments, lambda reply, _: [Reported(code) for code in reply])

    def _renew(
        self, session: str, held: Sequence[tuple[Ref, Token, str]], started: Sequence[Ref], complete: int | None
    ) -> Operation[Renewal]:
        def read(reply: Reply, _: bool) -> Renewal:
            now, codes, strays = reply
            named = [(code, job_id) for code, (_, _, job_id) in zip(codes, held, strict=True)]
            lost = [job_id for code, job_id in named if code == 1]
            cancelled = [job_id for code, job_id in named if code == 2]
            return Renewal(now, lost, cancelled, strays=[(ref, token, name.decode()) for ref, token, name in strays])

        named = requests.pack([(ref, token) for ref, token, _ in held])
        number = requests.pack(False if complete is None else complete)
        return Script("renew", (session.encode(), named, requests.pack(list(started)), number), read)

    def close_session(self, session: str, *, crashed: Sequence[Ref] | None = ()) -> Operation[list[str]]:
        def read(reply: Reply, _: bool) -> list[str]:
            self._has_room.pop(session, None)
            self._taken.pop(session, None)
            return [job_id.decode() for job_id in reply]

        guilty = requests.pack(False if crashed is None else list(crashed))
        return Script("close", (session.encode(), guilty), read)

    def sessions(self) -> Operation[list[SessionSnapshot]]:
        return Script("sessions", (), lambda reply, _: [records.session(entry) for entry in reply])

    def waiter(self, session: str, queues: Sequence[str]) -> Waiter:
        return waiter.for_worker(
            self.driver, session, queues, lambda: self._has_room.get(session), lambda: self._taken.get(session, 0)
        )

    def sweep(self, *, every: int | None = None) -> Operation[Swept]:
        def read(reply: Reply, _: bool) -> Swept:
            closed, returned, forgotten, more, self._cursor = reply
            return Swept(closed, returned, forgotten, bool(more))

        return Script("sweep", (self._cursor,), read)


def _yes_or_no(script: str, ids: Sequence[str], *, repeatable: bool = False) -> Script[list[bool]]:
    arguments = tuple(job_id.encode() for job_id in ids)
    return Script(script, arguments, lambda reply, _: [bool(answer) for answer in reply], repeatable=repeatable)
