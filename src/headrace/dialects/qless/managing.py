"""What the store can do beyond the core, mapped onto what Qless has: relations, tags, edits, controls, statistics."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from headrace.errors import DependencyCycle
from headrace.records import Snapshot
from headrace.store import limits
from headrace.store.contract import Operation
from headrace.store.facets import Circumstances, DayStats, Edit, QueueControl
from headrace.store.redis.operation import Script, Steps

from . import mapping, options, texts
from .asking import Asking


class Managing(Asking):
    """The facets."""

    # -- relations --

    def depend(self, job_id: str, add: Sequence[str] = (), remove: Sequence[str] = ()) -> Operation[bool]:
        def read(_: float, answer: Any) -> bool:
            if answer.get("cycle") == 1:
                raise DependencyCycle(f"{job_id} would wait for itself, by whatever detour.")
            if answer.get("cycle"):
                raise limits.too_deep(job_id)
            return bool(answer["done"])

        return self._script("depend", {"jid": job_id, "add": list(add), "remove": list(remove)}, read)

    # -- tags --

    def tag(self, ids: Sequence[str], add: Sequence[str] = (), remove: Sequence[str] = ()) -> Operation[list[bool]]:
        arguments = {"jids": list(ids), "add": list(add), "remove": list(remove)}
        return self._yes_or_no("tag", arguments, repeatable=True)

    def tags(self, limit: int = 50) -> Operation[list[tuple[str, int]]]:
        return self._script("tags", limit, lambda _, found: [(tag, int(jobs)) for tag, jobs in found or []])

    def track(self, ids: Sequence[str], on: bool = True) -> Operation[list[bool]]:
        return self._yes_or_no("track", {"jids": list(ids), "on": on}, repeatable=True)

    # -- queues --

    def controls(self) -> Operation[list[QueueControl]]:
        """Qless notes that a queue is paused, not by whom or since when."""

        def read(_: float, found: Any) -> list[QueueControl]:
            paused, limits = set(found["paused"] or []), found["limits"] or {}
            return [
                QueueControl(queue=queue, limit=limits.get(queue), paused_by="" if queue in paused else None)
                for queue in sorted(paused | limits.keys())
            ]

        return self._script("controls", {}, read)

    def pause(self, queue: str, by: str = "") -> Operation[bool]:
        return self._script("pause", queue, lambda _, added: bool(added), repeatable=False)

    def resume(self, queue: str) -> Operation[bool]:
        return self._script("resume", queue, lambda _, removed: bool(removed), repeatable=False)

    def limit(self, queue: str, running: int | None) -> Operation[None]:
        limits.check_limit(queue, running)
        value = None if running is None else str(running)
        return self._script("settings", [[f"{queue}-max-concurrency", value]], lambda _, __: None)

    # -- statistics --

    def stats(self, queue: str, day: int) -> Operation[DayStats]:
        date = day * mapping.DAY_SECONDS
        return self._script(
            "stats", {"queue": queue, "date": date}, lambda _, found: mapping.day_stats(queue, day, found)
        )

    def failures(self, limit: int = 50) -> Operation[list[tuple[str, int]]]:
        def read(_: float, groups: Any) -> list[tuple[str, int]]:
            counted = [(str(group), int(jobs)) for group, jobs in (groups or {}).items()]
            return sorted(counted, key=lambda found: (-found[1], found[0]))[:limit]

        return self._script("failures", {}, read)

    # -- settings --

    absent_settings = options.ABSENT

    def settings(self) -> Operation[dict[str, int]]:
        return self._script("settings", [], lambda _, stored: options.known(stored or {}))

    def set_settings(self, changes: dict[str, int | None]) -> Operation[None]:
        return self._script("settings", options.changes(changes), lambda _, __: None)

    # -- editing --

    def edit(self, ids: Sequence[str], change: Edit) -> Operation[list[bool]]:
        limits.check_moment(change.run_at, change.delay)
        return Steps(lambda: self._edit(ids, change))

    def _edit(self, ids: Sequence[str], change: Edit) -> Generator[Script[Any], Any, list[bool]]:
        """Arguments and data are one object on the wire: what it is made of is read first, and must still be there."""
        rewrites = change.body is not None or change.data is not None
        told = mapping.edit(change, self._lower_first)
        answers: dict[str, bool] = {}
        while left := [job_id for job_id in ids if job_id not in answers]:
            jobs: list[dict[str, Any]] = [{"jid": job_id} for job_id in left]
            if rewrites:
                found = yield self._script("get", left, lambda _, jobs: jobs, understand=texts.from_the_wire)
                jobs = [
                    {"jid": job_id, **(mapping.rewritten(job, change) if job else {})}
                    for job_id, job in zip(left, found, strict=True)
                ]
            codes = yield self._script("edit", {"jobs": jobs, "change": told}, lambda _, codes: codes)
            answers |= {job_id: code == 1 for job_id, code in zip(left, codes, strict=True) if code != 2}
        return [answers[job_id] for job_id in ids]

    def take_back(self, ids: Sequence[str]) -> Operation[list[bool]]:
        return self._yes_or_no("take_back", list(ids))

    def peek(self, queue: str, limit: int = 50) -> Operation[list[Snapshot]]:
        def read(_: float, jobs: Any) -> list[Snapshot]:
            return [mapping.snapshot(job, self._lower_first) for job in jobs or [] if job]

        return self._script("peek", {"queue": queue, "limit": limit}, read)

    # -- why --

    def circumstances(self, job_id: str) -> Operation[Circumstances | None]:
        def read(now: float, found: Any) -> Circumstances | None:
            return mapping.circumstances(mapping.milliseconds(now), found, self._lower_first) if found else None

        return self._script("circumstances", job_id, read)
