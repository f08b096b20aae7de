"""Every act of an operator leaves a line."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from headrace import Headrace
from headrace.errors import StoreUnavailable, Unsupported
from headrace.ops import act, audit, blocks, edit, schedules, settings
from headrace.ops.selection import Selection
from headrace.records import Filter, SessionInfo, State
from headrace.store import limits
from headrace.values.text import iso


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
    assert {line.who for line in lines} <= {"ops@desk", "me"}
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
    act.pause(app, "default")
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
    schedules.edit(app, "daily", {"priority": 2, "every": "every day at 10:00", "tags": ["eu"], "args": [2]})
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
        ("tag", f"{b.id}: +red"),
        ("track", b.id),
        ("untrack", b.id),
        ("pause", "queue default"),
        ("resume", "queue default"),
        ("limit", "queue default: limit from none to 3"),
        ("stop", "worker w"),
        ("block", "task add: It is broken."),
        ("unblock", "task add"),
        ("edit", f"{c.id}: priority from 0 to 3"),
        ("pause", "schedule daily"),
        ("resume", "schedule daily"),
        (
            "edit",
            'schedule daily: arguments from {"a":1} to {"a":2}, priority from 0 to 2, tags from none to eu, '
            "rule from every day at 09:00 UTC to every day at 10:00 UTC",
        ),
        ("delete", "schedule daily"),
        ("cancel", f"2 jobs ({a.id}, {c.id})"),
        ("revive", f"2 jobs ({c.id}, {a.id}): queue from default to other"),
        ("set", "jobs-history: from the default, 7 days to 3 days"),
        ("set", "jobs-history: from 3 days to the default, 7 days"),
        ("delete", b.id),
    ]


def test_many_jobs_are_one_line_that_names_some(app: Headrace) -> None:
    jobs = app.enqueue_many([app.tasks["add"].call(number) for number in range(25)])
    act.to_all(app, act.CANCEL, act.CANCEL.meant(Selection(wanted=Filter())))
    ((what, about),) = told(app)
    assert (what, about[:9], about[-12:], about.count(", ")) == ("cancel", "25 jobs (", " and 5 more)", 19)
    act.purge(app, Filter(states=(State.CANCELLED,)), 2**50)
    assert told(app)[-1] == ("purge", f"{len(jobs)} jobs")


def test_an_edit_of_many_jobs_is_one_line_that_says_from_what_to_what(app: Headrace) -> None:
    add = app.tasks["add"]
    app.enqueue_many([add.using(priority=number % 5, queue="mail").call(number) for number in range(510)])
    wanted = edit.JobEdit(changes={"priority": 7, "queue": "slow"}, add_tags=["late"])
    verb = edit.verb(app, wanted)
    act.to_all(app, verb, verb.meant(Selection(wanted=Filter())))
    ((what, about),) = told(app)
    assert what == "edit"
    assert about.startswith("510 jobs (")
    assert about.endswith(
        " and 490 more): queue from mail to slow, priority from 4, 3, 2 or others to 7, tags from none to late"
    )


def test_an_edit_says_what_became_of_arguments_times_and_data(app: Headrace) -> None:
    job = app.tasks["add"].using(headers={"a": "b"}).enqueue(1)
    due = iso(job.snapshot.due)
    changes = {"run_after": 60, "data": {"k": 1}, "headers": {}, "expires": 5}
    edit.edit(app, [job.id], edit.JobEdit(changes=changes, arguments=lambda _: ((2,), {})))
    ((_, about),) = told(app)
    assert about == (
        f'{job.id}: due from {due} to 60 s from then, arguments from {{"a":1}} to {{"a":2}}, '
        f'options from {{"headers":{{"a":"b"}}}} to {{"headers":{{}}}}, data from none to {{"k":1}}, '
        "expires from none to 5 s after it is due"
    )


@pytest.mark.parametrize("error", [KeyboardInterrupt, StoreUnavailable])
def test_an_act_that_is_interrupted_is_in_the_trail_as_far_as_it_went(
    app: Headrace, error: type[BaseException]
) -> None:
    app.enqueue_many([app.tasks["add"].call(number) for number in range(600)])
    steps = iter([None, error()])

    def advance(_: int) -> None:
        if (trouble := next(steps)) is not None:
            raise trouble

    with pytest.raises(error):
        act.to_all(app, act.CANCEL, act.CANCEL.meant(Selection(wanted=Filter())), advance=advance)
    ((what, about),) = told(app)
    assert (what, about.startswith("600 jobs (")) == ("cancel", True)


def test_the_name_that_is_given_is_the_name_in_the_trail(app: Headrace) -> None:
    act.pause(app, "default", "ada")
    blocks.block(app, "add", by="bob")
    act.pause(app, "mail")
    assert [line.who for line in reversed(audit.trail(app))] == ["ada", "bob", "ops@desk"]
    assert [app.queue(name).paused_by for name in ("default", "mail")] == ["ada", "ops@desk"]


def test_what_was_not_done_leaves_none(app: Headrace) -> None:
    assert act.stop_worker(app, "nobody") == []
    act.to_jobs(app, act.CANCEL, ["nobody"])
    act.purge(app, Filter(states=(State.DONE,)), 2**50)
    assert told(app) == []


def test_the_trail_is_bounded(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "ACTS_KEPT", 3)
    for number in range(5):
        act.limit(app, "default", number + 1)
    assert [about for _, about in told(app)] == [
        f"queue default: limit from {number - 1} to {number}" for number in (3, 4, 5)
    ]


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


def test_the_operator_of_a_request_is_the_one_that_it_names(app: Headrace) -> None:
    """A web process acts for several people at once."""

    async def pause(name: str, both: asyncio.Barrier) -> None:
        with audit.acting_as(name):
            await both.wait()
            await act.apause(app, name)

    async def both() -> None:
        together = asyncio.Barrier(2)
        await asyncio.gather(pause("ada", together), pause("bob", together))

    asyncio.run(both())
    act.pause(app, "others")
    assert sorted((line.who, line.about) for line in audit.trail(app)) == [
        ("ada", "queue ada"),
        ("bob", "queue bob"),
        ("ops@desk", "queue others"),
    ]
