"""Looking at jobs: by id, by what they are like, how many there are, what happened to one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.dialects.on_redis import Stepwise
from headrace.records import Counts, Filter, HistoryRecord, Page, Snapshot, State
from headrace.store.contract import Operation
from headrace.store.redis.operation import Script, Steps
from headrace.values.glob import matcher

from . import mapping, texts
from .script_store import ScriptStore


class Finding(ScriptStore):
    """What changes nothing."""

    def get(self, ids: Sequence[str]) -> Script[list[Snapshot | None]]:
        return self._script(
            "Clients.get",
            [[texts.to_the_wire(job_id) for job_id in ids]],
            lambda _, jobs: [mapping.snapshot(job, self._lower_first) if job else None for job in jobs],
        )

    def find(self, wanted: Filter) -> Operation[Page]:
        return Steps(lambda: self._find(wanted))

    def _find(self, wanted: Filter) -> Stepwise[Page]:
        """Looks at up to a thousand jobs of each place at a time: Qless has no index of them all."""
        window, _, first = (wanted.after or "0:0").partition(":")
        start = int(first or 0)
        arguments = {
            "window": int(window),
            "states": [state.value for state in wanted.states or State],
            "queue": wanted.queue,
            "group": wanted.group,
            "tag": wanted.tag,
            "tracked": wanted.tracked or None,
            "worker": wanted.worker,
        }
        seen = yield self._script("Clients.list", [arguments], lambda _, seen: seen, exact=True)
        jids = list(seen["jids"] or [])
        found: list[Snapshot | None] = []
        for number in range(0, len(jids), 500):
            found += yield self.get(jids[number : number + 500])
        jobs = [job for job in found if job is not None and _is_wanted(job, wanted)]
        # Histories know seconds only; of jobs of the same second the records tell more.
        jobs.sort(key=lambda job: (-job.created, -float(job.token or 0), job.id))
        end = start + wanted.limit
        cursor = f"{window}:{end}" if end < len(jobs) else f"{int(window) + 1}:0" if seen["more"] else None
        return Page(jobs[start:end], cursor)

    def counts(self) -> Operation[list[Counts]]:
        def read(_: float, found: Any) -> list[Counts]:
            queues = {entry["name"]: entry for entry in found["queues"] or []}
            failed: dict[str, int] = dict(found["failed"] or {})
            counts = []
            for name in sorted(queues.keys() | failed.keys()):
                entry = queues.get(name, {})
                by_state = {mapping.STATES[word]: entry.get(word, 0) for word in ("waiting", "scheduled", "depends")}
                by_state[State.RUNNING] = entry.get("running", 0) + entry.get("stalled", 0)
                by_state[State.FAILED] = failed.get(name, 0)
                if any(by_state.values()):
                    counts.append(Counts(name, {state: number for state, number in by_state.items() if number}))
            return counts

        return self._script("Clients.counts", [], read)

    def history(self, job_id: str) -> Operation[list[HistoryRecord]]:
        def read(_: float, jobs: Any) -> list[HistoryRecord]:
            entries = (jobs[0]["history"] or []) if jobs[0] else []
            return [mapping.event(entry, first=i == 0) for i, entry in enumerate(entries)]

        return self._script("Clients.get", [[job_id]], read)


def _is_wanted(job: Snapshot, wanted: Filter) -> bool:
    return (
        (not wanted.states or job.state in wanted.states)
        and wanted.queue in (None, job.queue)
        and wanted.task in (None, job.task)
        and wanted.group in (None, job.group)
        and (wanted.task_like is None or matcher(wanted.task_like)(job.task))
        and (wanted.tag is None or wanted.tag in job.tags)
        and wanted.tracked in (None, job.tracked)
        and wanted.schedule in (None, job.schedule)
        and (wanted.worker is None or (job.worker == wanted.worker and job.state is State.RUNNING))
    )
