"""Procrastinate on PostgreSQL. Workers are started by this module, as its command takes no options of the connector."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from procrastinate import App, PsycopgConnector

from bench.peers import witness

REQUIREMENTS = ["procrastinate>=3.2,<4", "psycopg[binary,pool]"]
PACKAGES = ["procrastinate", "psycopg"]
SERVICE = "postgres"
PACE = 500
CONCURRENCY = 20
SETTINGS = (
    f"2 processes of {CONCURRENCY} jobs at once, LISTEN/NOTIFY, done jobs deleted, synchronous_commit off; in the "
    "crash test workers count as stalled after 5 s, and their jobs are retried every second"
)

app = App(connector=PsycopgConnector(conninfo=os.environ["BENCH_URL"]))


@app.task(name="noop")
async def noop(argument: Any) -> None:
    witness.count(argument)


@app.task(name="stamp")
async def stamp(argument: float) -> None:
    witness.stamp(argument)


@app.task(name="slow")
async def slow(argument: int) -> None:
    witness.begin(argument)
    await asyncio.sleep(witness.NAP)
    witness.mark(argument)


TASKS = {"noop": noop, "stamp": stamp, "slow": slow}


async def prepare() -> None:
    await app.open_async()
    await app.schema_manager.apply_schema_async()


async def enqueue(task: str, argument: Any) -> None:
    await TASKS[task].defer_async(argument=argument)


async def enqueue_many(task: str, arguments: list[Any]) -> None:
    await TASKS[task].batch_defer_async(*({"argument": argument} for argument in arguments))


def workers(purpose: str) -> list[list[str]]:
    command = [sys.executable, "-m", "bench.peers.adapters.procrastinate", purpose]
    return [command] * (1 if purpose == "latency" else 2)


async def retry_stalled() -> None:
    """What its documentation has users schedule."""
    while True:
        await asyncio.sleep(1)
        for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=5):
            await app.job_manager.retry_job(job)


async def work(purpose: str) -> None:
    async with app.open_async():
        patience = {"update_heartbeat_interval": 1, "stalled_worker_timeout": 5} if purpose == "crash" else {}
        rescue = asyncio.create_task(retry_stalled()) if purpose == "crash" else None
        await app.run_worker_async(concurrency=CONCURRENCY, delete_jobs="successful", **patience)
        if rescue is not None:
            rescue.cancel()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1]))
