"""Async tasks: hundreds at once in one process, enqueued and awaited from async code, with a resource they share."""

import asyncio

from headrace import Headrace, inject

app = Headrace()


class Pool:
    """Stands for a database pool or an HTTP client."""

    async def lookup(self, number: int) -> int:
        await asyncio.sleep(0.05)
        return number * number


@app.provide("pool")
async def make_pool() -> Pool:
    """Made once per worker process, on the event loop that runs the tasks."""
    return Pool()


@app.task
async def square(number: int, pool: Pool = inject("pool")) -> int:
    return await pool.lookup(number)


async def main() -> None:
    jobs = await app.aenqueue_many([square.call(number) for number in range(100)])
    print("sum of squares:", sum(await asyncio.gather(*jobs)))


if __name__ == "__main__":
    with app.worker(slots=100):
        asyncio.run(main())
