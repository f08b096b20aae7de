"""Tasks that get a value of their own for each job: `worker.sessions:app`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

from headrace import Headrace, current, inject
from processes import tell

app = Headrace("sqlite:///:memory:")


@app.provide("session", per="job")
def session() -> Iterator[str]:
    tell("begin")
    try:
        yield f"session of {current().id}"
    except BaseException as error:
        tell("roll back", type(error).__name__)
        raise
    tell("commit")


@app.provide("async session", per="job")
async def async_session() -> AsyncIterator[str]:
    tell("begin")
    try:
        yield f"session of {current().id}"
    except BaseException as error:
        await asyncio.sleep(0)
        tell("roll back", type(error).__name__)
        raise
    tell("commit")


def work(how: str) -> str:
    tell("work", how)
    if how == "raise":
        raise ValueError("oops")
    if how == "hang":
        for _ in range(6_000):
            time.sleep(0.01)
    return how


@app.task(timeout=60)
def plain(how: str, session: str = inject("session"), other: str = inject("async session")) -> str:
    assert session == other == f"session of {current().id}"
    return work(how)


@app.task(isolate=True)
def isolated(how: str, session: str = inject("session"), other: str = inject("async session")) -> str:
    assert session == other
    return work(how)


async def work_async(how: str) -> str:
    if how == "hang":
        tell("work", how)
        await asyncio.sleep(60)
    return work(how)


@app.task
async def on_loop(how: str, session: str = inject("session"), other: str = inject("async session")) -> str:
    assert session == other
    return await work_async(how)


@app.task(isolate=True)
async def isolated_async(how: str, session: str = inject("session"), other: str = inject("async session")) -> str:
    assert session == other
    return await work_async(how)


TASKS = {"plain": plain, "isolated": isolated, "on_loop": on_loop, "isolated_async": isolated_async}
