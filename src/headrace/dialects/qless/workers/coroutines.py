"""Many jobs at once in one process, as coroutines. A method that is a plain function runs in a thread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from headrace.dialects.qless.client import Client
from headrace.dialects.qless.job import Job
from headrace.dialects.qless.queue import Queue
from headrace.dialects.qless.running import begin, go_on
from headrace.dialects.qless.workers.base import Options, Worker, title
from headrace.dialects.qless.workers.sandbox import sandbox

log = logging.getLogger("headrace.qless.worker")


class CoroutineWorker(Worker):
    """Up to `coroutines` jobs at once. Each has a directory of its own, `greenlet-<k>` beneath the worker's."""

    def __init__(
        self,
        queues: Sequence[str | Queue],
        client: Client,
        options: Options | None = None,
        coroutines: int = 10,
        **more: Any,
    ) -> None:
        super().__init__(queues, client, options, **more)
        self._slots = coroutines
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()

    def run(self) -> None:
        listener = self.listen()
        try:
            asyncio.run(self._run())
        finally:
            listener.close()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        free = list(range(self._slots))[::-1]
        jobs = self.jobs()
        while not self._stop.is_set():
            if not free:
                await asyncio.wait(self._tasks.values(), return_when=asyncio.FIRST_COMPLETED)
                continue
            job = await asyncio.to_thread(next, jobs, None)
            if job is None:
                title(f"sleeping, {len(self._tasks)} jobs")
                if not self._stop.is_set():
                    await self._doze()
                continue
            number = free.pop()
            task = asyncio.create_task(self._work(job, number), name=job.jid)
            self._tasks[job.jid] = task
            task.add_done_callback(partial(self._over, job.jid, number, free))
        if self._tasks:
            await asyncio.wait(self._tasks.values())

    async def _doze(self) -> None:
        self._woken.clear()
        try:
            async with asyncio.timeout(self.options.interval):
                await self._woken.wait()
        except TimeoutError:
            pass

    def _over(self, jid: str, number: int, free: list[int], _: asyncio.Task[None]) -> None:
        self._tasks.pop(jid, None)
        free.append(number)

    async def _work(self, job: Job, number: int) -> None:
        with sandbox(self.options.sandbox / f"greenlet-{number}") as directory:
            job.sandbox = directory
            try:
                rest = await asyncio.to_thread(begin, job, self.options.allowed)
                if rest is not None:
                    await go_on(job, rest)
                await asyncio.to_thread(self.finish, job)
            except asyncio.CancelledError:
                log.info("%r was lost and is stopped", job)
            except Exception:
                log.exception("%r could not be settled", job)

    def stop(self) -> None:
        super().stop()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._woken.set)

    def lose(self, jid: str) -> None:
        task = self._tasks.get(jid)
        if task is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(task.cancel)
