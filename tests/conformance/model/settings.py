"""settings: what can be set in a store."""

from __future__ import annotations

from typing import Any

from headrace.store import limits
from headrace.store.auditing import Act
from headrace.store.settings import DEFINITIONS, checked

from .core import Core, Step


class Settings(Core):
    def note(self, who: str, what: str, about: str) -> Step[None]:
        def write() -> None:
            now = self.clock.now()
            number = int(self.acts[-1].number) + 1 if self.acts else 1
            self.acts = [act for act in self.acts if act.at >= now - limits.ACTS_KEPT_FOR]
            self.acts.append(Act(str(number), now, who, what, about))

        return Step(write)

    def audit(self, limit: int = 50, before: str | None = None) -> Step[list[Act]]:
        shown = [act for act in self.acts if before is None or int(act.number) < int(before)]
        return Step(lambda: shown[::-1][:limit])

    def settings(self) -> Step[dict[str, int]]:
        return Step(lambda: dict(self.set))

    def set_settings(self, changes: dict[str, int | None]) -> Step[None]:
        return Step(self._set_settings, checked(changes))

    def _set_settings(self, changes: dict[str, int | None]) -> None:
        for name, value in changes.items():
            self._publish("set", limits.what_is_set(name, value))
        merged = {**self.set, **changes}
        self.set = {name: value for name, value in merged.items() if value is not None}

    def _setting(self, name: str) -> Any:
        return self.set.get(name, DEFINITIONS[name].default)
