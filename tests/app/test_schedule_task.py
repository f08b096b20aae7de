"""A schedule can run another task than the one it was made with."""

from __future__ import annotations

import pytest

from headrace import ConfigurationError, Headrace


def test_the_task_of_a_schedule_can_be_changed() -> None:
    app = Headrace("sqlite:///:memory:")

    @app.task(name="report")
    def report(kind: str) -> str:
        return kind

    @app.task(name="shout")
    def shout(kind: str, copies: int = 1) -> str:
        return kind.upper() * copies

    @app.task(name="add")
    def add(a: int, b: int) -> int:
        return a + b

    with app.testing() as t:
        schedule = report.every("every hour", name="r").enqueue("sales")
        schedule.edit(task="shout")
        t.advance("1 hour")
        t.run_all()
        assert [job.result() for job in t.jobs] == ["SALES"]
        with pytest.raises(
            ConfigurationError, match=r"arguments, but the arguments do not fit add: [^.]*\. Give it others"
        ):
            schedule.edit(task="add")
        schedule.edit(task="add", args=[1, 2])
        t.advance("1 hour")
        t.run_all()
        assert t.jobs[-1].result() == 3
        with pytest.raises(ConfigurationError, match="has no task 'nobody'"):
            schedule.edit(task="nobody")


def test_the_task_of_a_schedule_is_given_as_such_or_by_its_name() -> None:
    app, other = Headrace("sqlite:///:memory:"), Headrace("sqlite:///:memory:")

    def plain() -> None: ...

    @app.task(name="report")
    def report() -> None: ...

    @app.task(name="shout")
    def shout() -> None: ...

    @other.task(name="shout")
    def elsewhere() -> None: ...

    with app.testing():
        schedule = report.every("every hour", name="r").enqueue()
        schedule.edit(task=shout)
        assert schedule.record.definition.task == "shout"
        with pytest.raises(ConfigurationError, match="shout is a task of another app: name one of this app"):
            schedule.edit(task=elsewhere)
        with pytest.raises(ConfigurationError, match="task= takes a task or its name, not <function"):
            schedule.edit(task=plain)  # type: ignore[arg-type]
