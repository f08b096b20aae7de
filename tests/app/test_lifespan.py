"""`async with app.lifespan()`: the store of an async program, from its start to its end."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from headrace import ConfigurationError, Headrace, StoreError


def app_on(url: str) -> tuple[Headrace, Any]:
    app = Headrace(url)

    @app.task(name="double")
    def double(number: int) -> int:
        return number * 2

    return app, double


def test_the_store_is_created_at_the_start_and_closed_at_the_end(tmp_path: Path) -> None:
    app, double = app_on(f"sqlite:///{tmp_path}/jobs.db")

    async def main() -> None:
        for _ in range(2):  # a server may restart its application
            async with app.lifespan():
                assert (tmp_path / "jobs.db").exists()
                assert app._opened is not None
                job = await double.aenqueue(4)
                assert (await job.arefresh()).state == "ready"
            assert app._opened is None

    asyncio.run(main())


def test_the_store_is_closed_when_the_program_fails(tmp_path: Path) -> None:
    app, _ = app_on(f"sqlite:///{tmp_path}/jobs.db")

    async def main() -> None:
        async with app.lifespan():
            raise LookupError("outside")

    with pytest.raises(LookupError, match="outside"):
        asyncio.run(main())
    assert app._opened is None


def test_a_store_that_cannot_be_opened_is_known_at_the_start(tmp_path: Path) -> None:
    app, _ = app_on(f"sqlite:///{tmp_path}/missing/jobs.db")

    async def main() -> None:
        async with app.lifespan():
            raise AssertionError("it was opened")

    with pytest.raises(StoreError, match="missing"):
        asyncio.run(main())


def test_the_event_loop_goes_on_while_the_store_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app, _ = app_on(f"sqlite:///{tmp_path}/jobs.db")
    create, loop_went_on = app._create_store, threading.Event()

    def create_slowly() -> None:
        assert loop_went_on.wait(20), "the event loop was blocked"
        create()

    monkeypatch.setattr(app, "_create_store", create_slowly)

    async def main() -> None:
        asyncio.get_running_loop().call_later(0.01, loop_went_on.set)
        async with app.lifespan():
            pass

    asyncio.run(main())


def test_a_worker_runs_jobs_until_the_end(tmp_path: Path) -> None:
    app, double = app_on(f"sqlite:///{tmp_path}/jobs.db")

    async def main() -> None:
        async with app.lifespan(worker=True):
            assert await (await double.aenqueue(4)).aresult(timeout=20) == 8
            assert len(await app.aworkers()) == 1

    asyncio.run(main())
    assert app.workers() == []
    app.close()


def test_in_testing_no_worker_starts_and_the_store_stays(tmp_path: Path) -> None:
    app, double = app_on(f"sqlite:///{tmp_path}/jobs.db")

    async def main(t: Any) -> None:
        async with app.lifespan(worker=True):
            job = await double.aenqueue(4)
            assert [worker.name for worker in await app.aworkers()] == [worker.name for worker in before]
            assert (await job.arefresh()).state == "ready"
            await t.arun_all()
            assert await job.aresult() == 8

    with app.testing() as t:
        before = app.workers()
        asyncio.run(main(t))
        t.assert_enqueued(double, 4)
    assert not (tmp_path / "jobs.db").exists()


def test_worker_is_true_or_false() -> None:
    app, _ = app_on("sqlite:///:memory:")

    async def main() -> None:
        async with app.lifespan(worker=4):  # type: ignore[arg-type]
            pass

    with pytest.raises(ConfigurationError, match="worker"):
        asyncio.run(main())
