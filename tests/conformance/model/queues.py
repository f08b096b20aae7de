"""Queues: pausing and limiting them."""

from __future__ import annotations

from headrace.store import limits
from headrace.store.facets import QueueControl
from headrace.store.settings import CONCURRENCY

from .core import Core, Step


class Queues(Core):
    def controls(self) -> Step[list[QueueControl]]:
        return Step(lambda: [self.queue_controls[queue] for queue in sorted(self.queue_controls)])

    def pause(self, queue: str, by: str = "") -> Step[bool]:
        return Step(self._pause, queue, by)

    def _pause(self, queue: str, by: str) -> bool:
        control = self.queue_controls.get(queue, QueueControl(queue=queue))
        if control.paused_at is not None:
            return False
        self._control(QueueControl(queue=queue, limit=control.limit, paused_by=by, paused_at=self.clock.now()))
        return True

    def resume(self, queue: str) -> Step[bool]:
        return Step(self._resume, queue)

    def _resume(self, queue: str) -> bool:
        control = self.queue_controls.get(queue)
        if control is None or control.paused_at is None:
            return False
        self._control(QueueControl(queue=queue, limit=control.limit))
        return True

    def limit(self, queue: str, running: int | None) -> Step[None]:
        limits.check_limit(queue, running)
        return Step(self._limit, queue, running)

    def _limit(self, queue: str, running: int | None) -> None:
        control = self.queue_controls.get(queue, QueueControl(queue=queue))
        by, at = control.paused_by, control.paused_at
        self._control(QueueControl(queue=queue, limit=running, paused_by=by, paused_at=at))
        self._publish("set", limits.what_is_set(f"{CONCURRENCY}:{queue}", running))

    def _control(self, control: QueueControl) -> None:
        self.queue_controls[control.queue] = control
        if control.limit is None and control.paused_at is None:
            del self.queue_controls[control.queue]
        self._tell(queue=control.queue)

    def _left_running(self, queue: str) -> None:
        """In a queue with a limit, somebody may have waited for that."""
        control = self.queue_controls.get(queue)
        if control and control.limit is not None:
            self._tell(queue=queue)
