"""Schedules, mapped onto Qless' recurring jobs. Qless itself makes their occurrences, when somebody pops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.dialects.on_redis import Stepwise
from headrace.records import ScheduleRecord
from headrace.store.contract import Operation
from headrace.store.facets import ScheduleLook
from headrace.store.redis.operation import Script, Steps

from . import mapping, texts
from .script_store import ScriptStore


class Schedules(ScriptStore):
    """The facet of schedules."""

    def put_schedule(self, record: ScheduleRecord, expected: int | None) -> Operation[bool]:
        from . import recurrences  # noqa: PLC0415  (the language of schedules takes time to load)

        new, ours = recurrences.recurrence(record, self.tasks, self._lower_first)
        arguments = [record.name, new, ours, expected]
        return self._script("Schedules.put", arguments, lambda _, done: bool(done), repeatable=False)

    def schedules(
        self, names: Sequence[str] | None = None, *, after: str = "", limit: int = 100
    ) -> Operation[ScheduleLook]:
        return self._schedules(names) if names is not None else Steps(lambda: self._page(after, limit))

    def _schedules(self, names: Sequence[str], *, more: bool = False) -> Script[ScheduleLook]:
        def read(now: float, found: Any) -> ScheduleLook:
            return ScheduleLook(now=mapping.milliseconds(now), records=list(map(self._record, found or [])), more=more)

        return self._script("Schedules.named", [[texts.to_the_wire(name) for name in names]], read)

    def _record(self, found: dict[str, Any]) -> ScheduleRecord:
        from . import recurrences  # noqa: PLC0415  (the language of schedules takes time to load)

        return recurrences.record(found, self.tasks, self._lower_first)

    def _page(self, after: str, limit: int) -> Stepwise[ScheduleLook]:
        """Qless has no order of recurring jobs by name: all names are looked at."""
        names = yield self._script("Schedules.all", [], lambda _, names: set(names or []), exact=True)
        shown = {texts.shown(name).encode(): name for name in names}
        later = sorted(name for name in shown if name > after.encode())
        look: ScheduleLook = yield self._schedules([shown[name] for name in later[:limit]], more=len(later) > limit)
        return look

    def delete_schedule(self, name: str) -> Operation[bool]:
        return self._script("Schedules.delete", [name], lambda _, done: bool(done), repeatable=False)
