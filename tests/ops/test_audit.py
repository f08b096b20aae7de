"""Every act of an operator leaves a line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace import Headrace
from headrace.errors import Unsupported
from headrace.ops import act, audit, blocks, edit, schedules, settings
from headrace.ops.selection import Selection
from headrace.records import Filter, SessionInfo, State
from headrace.store import limits


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch) -> Iterator[Headrace]:
    monkeypatch.setenv("HEADRACE_OPERATOR", "ops@desk")
    app = Headrace("sqlite:///:memory:")

    @app.task(name="add")
    def add(a: int) -> int:
        return a + 1

    yield app
    app.close()


def told(app: Headrace) -> list[tuple[str, str]]:
    lines = audit.trail(app)
    assert {line.who for line in lines} <= {"ops@desk"}
    return [(line.what, line.about) for line in reversed(lines)]


def test_each_act_leaves_a_line(app: Headrace) -> None:
    a, b, c = (app.tasks["add"].enqueue(number) for number in range(3))
    app.tasks["add"].every("every day at 9:00", name="daily").enqueue(1)
    act.to_jobs(app, act.CANCEL, [a.id, "nobody"])
    act.to_all(app, act.REVIVE, Selection(wanted=Filter(states=(State.CANCELLED,))))
    act.tag(app, [b.id, "nobody"], ["red"])
    act.track(app, ["nobody", b.id])
    act.track(app, ["nobody"], False)
    act.track(app, [b.id], False)
    act.pause(app, "default", "me")
    act.resume(app, "default")
    act.limit(app, "default", 3)
    app.store.run(app.store.open(SessionInfo(id="s", name="w")))
    act.stop_worker(app, "w")
    blocks.block(app, "add", "It is broken.")
    blocks.unblock(app, "add")
    blocks.unblock(app, "add")
    edit.edit(app, [c.id], edit.JobEdit(changes={"priority": 3}))
    schedules.pause(app, ["daily", "nobody"])
    schedules.resume(app, ["daily"])
    schedules.edit(app, "daily", {"priority": 2})
    schedules.delete(app, ["daily"])
    act.to_jobs(app, act.CANCEL, [a.id, c.id])
    act.to_all(app, act.revive_to("other"), Selection(wanted=Filter(states=(State.CANCELLED,))))
    settings.change(app, "jobs-history", "3 days")
    settings.change(app, "jobs-history", None)
    act.to_jobs(app, act.DELETE, [b.id])
    assert told(app) == [
        ("cancel", a.id),
        ("revive", a.id),
        ("tag", b.id),
        ("track", b.id),
        ("untrack", b.id),
        ("pause", "queue default"),
        ("resume", "queue default"),
        ("limit", "queue default: 3"),
        ("stop", "worker w"),
        ("block", "task add: It is broken."),
        ("unblock", "task add"),
        ("edit", c.id),
        ("pause", "schedule daily"),
        ("resume", "schedule daily"),
        ("edit", "schedule daily"),
        ("delete", "schedule daily"),
        ("cancel", f"{a.id}, {c.id}"),
        ("revive", f"{c.id}, {a.id} to queue other"),
        ("set", "jobs-history: 3 days"),
        ("set", "jobs-history: default"),
        ("delete", b.id),
    ]


def test_many_jobs_are_one_line_that_names_some(app: Headrace) -> None:
    jobs = app.enqueue_many([app.tasks["add"].call(number) for number in range(25)])
    act.to_all(app, act.CANCEL, act.CANCEL.meant(Selection(wanted=Filter())))
    ((what, about),) = told(app)
    assert (what, about.endswith(" and 5 more"), about.count(", ")) == ("cancel", True, 19)
    act.purge(app, Filter(states=(State.CANCELLED,)), 2**50)
    assert told(app)[-1] == ("purge", f"{len(jobs)} jobs")


def test_what_was_not_done_leaves_none(app: Headrace) -> None:
    assert act.stop_worker(app, "nobody") == []
    act.to_jobs(app, act.CANCEL, ["nobody"])
    act.purge(app, Filter(states=(State.DONE,)), 2**50)
    assert told(app) == []


def test_the_trail_is_bounded(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ACTS_KEPT", 3)
    for number in range(5):
        act.limit(app, "default", number + 1)
    assert [about for _, about in told(app)] == [f"queue default: {number}" for number in (3, 4, 5)]


def test_who_it_was_is_the_user_and_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADRACE_OPERATOR", raising=False)
    user, _, machine = audit.operator().partition("@")
    assert user
    assert machine


def test_a_dialect_keeps_no_trail() -> None:
    app = Headrace("hworker+redis://localhost:1/0?name=x")
    with pytest.raises(Unsupported, match=r"keeps no trail of what operators do: use a native store"):
        audit.trail(app)
    app.close()
