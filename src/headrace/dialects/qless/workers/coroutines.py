"""Many jobs at once in one process, as coroutines. A method that is a plain function runs in a thread."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

from headrace.dialects.qless import Client, Job, Queue
from headrace.dialects.qless.running import begin, go_on
from headrace.dialects.qless.workers.base import Worker, at_once, title, workplace

log = logging.getLogger("headrace.qless.worker")


class CoroutineWorker(Worker):
    """Up to `greenlets` jobs at once. Each has a directory of its own, `greenlet-<k>` beneath the worker's.

    A lost job is cancelled; if it is a plain function it keeps its place until it returns.
    """

    def __init__(self, queues: Sequence[str | Queue], client: Client, *, greenlets: int = 10, **options: Any) -> None:
        super().__init__(queues, client, **options)
        self._slots = at_once("greenlets", greenlets)
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: dict[str, asyncio.Task[None]] = {}
        """By jid, without those that are lost: such a job may come to us again while its first run still ends."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()

    def run(self) -> None:
        # The event loop's own threads talk to the server, and must not wait for jobs.
        with self.listener(), ThreadPoolExecutor(self._slots, "qless-job") as threads:
            asyncio.run(self._run(threads))

    async def _run(self, threads: Executor) -> None:
        self._loop = asyncio.get_running_loop()
        free = list(range(self._slots))[::-1]
        jobs = self.jobs()
        while not self._stop.is_set():
            if not free:
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
                continue
            job = await asyncio.to_thread(next, jobs, None)
            if job is None:
                title(f"sleeping, {len(self._tasks)} jobs")
                if not self._stop.is_set():
                    await self._doze()
                continue
            number = free.pop()
            task = asyncio.create_task(self._work(job, number, threads), name=job.jid)
            self._tasks.add(task)
            self._running[job.jid] = task
            task.add_done_callback(partial(self._over, job.jid, number, free))
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _doze(self) -> None:
        self._woken.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), self.options.interval)

    def _over(self, jid: str, number: int, free: list[int], task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._running.get(jid) is task:
            del self._running[jid]
        free.append(number)

    async def _work(self, job: Job, number: int, threads: Executor) -> None:
        with workplace(job, self.options.sandbox / f"greenlet-{number}"):
            try:
                rest = await _to_the_end(threads, partial(begin, job, self.options.allowed))
                if rest is not None:
                    await go_on(job, rest)
                await asyncio.to_thread(self.finish, job)
            except asyncio.CancelledError:
                log.info("%r was lost and is stopped", job)

    def stop(self) -> None:
        super().stop()
        self._soon(self._woken.set)

    def lose(self, jid: str) -> None:
        self._soon(partial(self._cancel, jid))

    def _cancel(self, jid: str) -> None:
        task = self._running.pop(jid, None)
        if task is not None:
            task.cancel()

    def _soon(self, act: Callable[[], object]) -> None:
        """On the event loop, from any thread; never, if it has ended."""
        if self._loop is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(act)


async def _to_the_end(threads: Executor, function: Callable[[], Awaitable[Any] | None]) -> Awaitable[Any] | None:
    """Call a function in a thread. It can't be stopped there: who is cancelled waits until it has ended."""
    run = asyncio.get_running_loop().run_in_executor(threads, function)
    try:
        return await asyncio.shield(run)
    except asyncio.CancelledError:
        await asyncio.wait([run])
        # What it raised interests nobody any more; what it left to be awaited is not begun.
        if run.exception() is None and inspect.iscoroutine(rest := run.result()):
            rest.close()
        raise
