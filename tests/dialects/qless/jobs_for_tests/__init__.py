"""Classes that workers under test import. They testify in a file: `$QLESS_TESTIMONY`."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Iterator
from pathlib import Path

from headrace.dialects.qless import Job, retry


def testify(job: Job, *words: object) -> None:
    """One write per line: lines never mix."""
    line = " ".join(map(str, (job.klass_name.rpartition(".")[2], job.jid, os.getpid(), *words)))
    descriptor = os.open(os.environ["QLESS_TESTIMONY"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


class Plain:
    """Methods named like queues, and one for all others."""

    @staticmethod
    def special(job: Job) -> None:
        testify(job, "special")
        job.complete()

    @staticmethod
    def process(job: Job) -> None:
        testify(job, "process")
        job["seen"] = True

    @property
    def crooked(self) -> int:
        return 1


class Raises:
    @staticmethod
    def process(job: Job) -> None:
        raise LookupError("not here")


class Retries:
    @staticmethod
    @retry(ValueError)
    def process(job: Job) -> None:
        """Documented."""
        raise ValueError


class Empty: ...


class Litter:
    """Leaves files where it works."""

    @staticmethod
    def process(job: Job) -> None:
        assert job.sandbox is not None
        here = Path(job.sandbox)
        testify(job, "found", len(list(here.iterdir())), here, os.getcwd())
        (here / "file").write_text("x")
        (here / "folder").mkdir()
        (here / "folder" / "file").write_text("x")


class Slow:
    """Does not end by itself."""

    @staticmethod
    def process(job: Job) -> None:
        testify(job, "began")
        while True:
            time.sleep(0.01)


class Wait:
    """Ends when a file appears."""

    @staticmethod
    def process(job: Job) -> None:
        testify(job, "began")
        while not Path(job["until"]).exists():
            time.sleep(0.005)
        testify(job, "ended")


class Coroutine:
    """Runs on an event loop, together with others."""

    @staticmethod
    async def process(job: Job) -> None:
        testify(job, "began")
        while not Path(job["until"]).exists():
            await asyncio.sleep(0.005)
        testify(job, "ended")


class Later:
    """Async, in all the ways in which a method can be so."""

    @staticmethod
    async def process(job: Job) -> None:
        await asyncio.sleep(0)
        testify(job, "ran")

    @staticmethod
    def handed_on(job: Job) -> Awaitable[None]:
        return Later.process(job)

    @staticmethod
    @retry(ValueError)
    async def again(job: Job) -> None:
        await Later.process(job)
        raise ValueError

    @staticmethod
    @retry(ValueError)
    def handed_on_again(job: Job) -> Awaitable[None]:
        return Later.again.__wrapped__(job)  # type: ignore[attr-defined, no-any-return]

    @staticmethod
    async def wrong(job: Job) -> None:
        await asyncio.sleep(0)
        raise LookupError("not here")

    @staticmethod
    async def given_up(job: Job) -> None:
        raise asyncio.CancelledError

    @staticmethod
    async def gone(job: Job) -> None:
        raise SystemExit(7)

    @staticmethod
    def bit_by_bit(job: Job) -> Iterator[int]:
        testify(job, "never")
        yield 1


class Exits:
    @staticmethod
    def process(job: Job) -> None:
        raise SystemExit(7)


class Unspeakable:
    """Leaves data that JSON has no words for, or raises what UTF-8 has none for."""

    @staticmethod
    def process(job: Job) -> None:
        job["thing"] = object()

    @staticmethod
    def raising(job: Job) -> None:
        job["thing"] = object()
        raise LookupError("\ud800")
