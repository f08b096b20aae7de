"""Backends that stand in Django's own tests where the dummy and the immediate backend stand.

Both are `HeadraceBackend`s on a store in memory. Results are refreshed behind each enqueue, so that they are what the
store says; in the place of the immediate backend a worker runs in between.
"""

from __future__ import annotations

from typing import Any

from headrace.django import HeadraceBackend


class DummyBackend(HeadraceBackend):
    """No worker runs. What the dummy keeps in a list is read from the store."""

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        result = super().enqueue(task, args, kwargs)
        result.refresh()
        return result

    async def aenqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        result = await super().aenqueue(task, args, kwargs)
        await result.arefresh()
        return result

    @property
    def results(self) -> list[Any]:
        return [self.get_result(job.id) for job in self.app.jobs()]

    def clear(self) -> None:
        for job in self.app.jobs():
            job.delete()


class ImmediateBackend(HeadraceBackend):
    """A worker runs until nothing is left to do."""

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        result = super().enqueue(task, args, kwargs)
        self.app.worker().run_until_empty()
        result.refresh()
        return result

    async def aenqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        result = await super().aenqueue(task, args, kwargs)
        await self.app.worker().arun_until_empty()
        await result.arefresh()
        return result
