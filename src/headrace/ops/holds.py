"""What operators hold back at the source of a drain, queues that are paused and tasks that are blocked, waits at its
target too. The queues that a drain itself pauses have names of their own (`headrace.ops.sidings`)."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from headrace.ops import audit
from headrace.store import Store
from headrace.store.blocking import Blocking
from headrace.store.contract import Facet
from headrace.store.courses import run_course
from headrace.store.facets import Queues, facet
from headrace.store.urls import shown_url


class Held(Struct, frozen=True):
    """A queue that is paused, or a task that is blocked."""

    what: Literal["queue", "task"]
    name: str
    by: str
    reason: str = ""

    @property
    def how(self) -> str:
        return "paused" if self.what == "queue" else "blocked"

    @property
    def until(self) -> str:
        """The command that lets its jobs run."""
        return f"headrace queues resume {self.name}" if self.what == "queue" else f"headrace unblock {self.name}"

    def refusal(self, source: Store, target: Store) -> str:
        """Why a job of it can't be carried; nothing if the target can hold it back."""
        if (Facet.QUEUES if self.what == "queue" else Facet.BLOCKS) in target.facets:
            return ""
        return (
            f"Its {self.what} {self.name} is {self.how} at {shown_url(source.url)}, and can't be at "
            f"{shown_url(target.url)}, where it would run. {self.until!r} lets it move."
        )

    def hold(self, target: Store, source: Store) -> None:
        """Pause the queue, or block the task. What the target's operators have said about it stays as it is."""
        if (self.what, self.name) in held_at(target):
            return
        if self.what == "queue":
            target.run(facet(target, Queues).pause(self.name, self.by))
        else:
            target.run(facet(target, Blocking).block(self.name, self.reason, self.by))
        act = "pause" if self.what == "queue" else "block"
        run_course(target, audit.note(target, act, f"{self.what} {self.name}, as at {shown_url(source.url)}"))


def held_at(store: Store) -> dict[tuple[str, str], Held]:
    """What is held back there now."""
    found: list[Held] = []
    if Facet.QUEUES in store.facets:
        controls = store.run(facet(store, Queues).controls())
        found += [Held("queue", each.queue, each.paused_by) for each in controls if each.paused_by is not None]
    if Facet.BLOCKS in store.facets:
        found += [Held("task", each.task, each.by, each.reason) for each in store.run(facet(store, Blocking).blocks())]
    return {(held.what, held.name): held for held in found}
