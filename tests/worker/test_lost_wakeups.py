"""A worker finds its work even without a wake-up: a client may die first, or not be allowed to send one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.errors import ArgumentsError, ConfigurationError
from headrace.store.sqlite.wakeup import WaiterMap

MakeApp = Callable[[Path], Headrace]


@pytest.fixture
def make_app() -> Iterator[MakeApp]:
    """Apps on a file in a folder, closed at the end."""
    apps: list[Headrace] = []

    def make(folder: Path) -> Headrace:
        apps.append(Headrace(f"sqlite:///{folder}/jobs.db"))
        return apps[-1]

    yield make
    for app in apps:
        app.close()


def test_work_whose_wake_up_was_lost_is_found(
    tmp_path: Path, make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(tmp_path)

    @app.task
    def leaf(number: int) -> int:
        return number

    with app.worker():
        assert leaf.enqueue(1).result(timeout=20) == 1
        monkeypatch.setattr(WaiterMap, "wake_workers", lambda *_, **__: None)
        assert leaf.enqueue(2).result(timeout=20) == 2


def test_a_wake_up_that_is_not_allowed_is_no_error_of_the_enqueue(
    tmp_path: Path, make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(tmp_path)

    @app.task
    def leaf(number: int) -> int:
        return number

    with app.worker():
        assert leaf.enqueue(1).result(timeout=20) == 1
        monkeypatch.setattr(WaiterMap, "address", lambda self, slot: "/")  # not a socket, and not ours
        assert leaf.enqueue(2).result(timeout=20) == 2


def test_users_that_may_write_the_file_may_send_wake_ups(tmp_path: Path, make_app: MakeApp) -> None:
    path = tmp_path / "jobs.db"
    app = make_app(tmp_path)
    app.store.run(app.store.counts())
    path.chmod(0o660)
    with app.worker():
        folder = Path(f"{path}-run")
        assert folder.stat().st_mode & 0o777 == 0o770
        assert (folder / "waiters").stat().st_mode & 0o777 == 0o660
        assert all(os.stat(socket).st_mode & 0o777 == 0o660 for socket in folder.glob("waiter-*"))


def test_a_worker_that_cannot_start_says_why(tmp_path: Path, make_app: MakeApp) -> None:
    app = make_app(tmp_path)

    @app.on_start
    def fail() -> None:
        raise ConnectionError("no database")

    with pytest.raises(ConnectionError, match="no database"):
        app.worker().start()


def test_a_call_stands_for_one_job(tmp_path: Path, make_app: MakeApp) -> None:
    app, other = make_app(tmp_path), Headrace("sqlite:///:memory:")

    @app.task
    def leaf(number: int) -> int:
        return number

    call = leaf.call(1)
    with pytest.raises(ArgumentsError, match="the same call is in this batch twice"):
        app.enqueue_many([call, call])
    with pytest.raises(ArgumentsError, match="is a task of another app"):
        other.enqueue_many([call])


def test_hooks_that_would_never_be_awaited_are_refused() -> None:
    app = Headrace("sqlite:///:memory:")

    async def on_failure(context: object, error: BaseException) -> None: ...

    async def pool():
        yield object()

    with pytest.raises(ConfigurationError, match="on_failure takes a plain function"):
        app.on_failure(on_failure)
    with pytest.raises(ConfigurationError, match="a plain generator"):
        app.provide("pool")(pool)
