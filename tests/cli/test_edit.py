"""`headrace edit`: each job is changed or left alone, and the report says which, on both native stores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from headrace import Headrace, State
from headrace.cli import exits
from headrace.job import Job
from headrace.ops.edit import take_steps
from headrace.records import SessionInfo, Take
from headrace.store.contract import Operation
from headrace.store.courses import run_course
from headrace.store.facets import Edit, Editing, Tags, facet
from store.redis import servers

from . import shop
from .conftest import Run, alone

Ask = Callable[..., Any]
APP = ("--app", "cli.shop:app")


@pytest.fixture(params=["sqlite", "redis"])
def url(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    alone(tmp_path, monkeypatch)
    return f"sqlite:///{tmp_path}/jobs.db" if request.param == "sqlite" else servers.fresh_url()


def take(app: Headrace, count: int) -> None:
    """A worker takes so many jobs, and does not end them."""
    store = app.store
    store.run(store.open(SessionInfo(id="s", name="w", queues=("default",), tasks=tuple(app.tasks))))
    store.run(store.exchange("s", 1, take=Take(("default",), count)))


def test_all_that_can_be_changed(app: Headrace, ask: Ask) -> None:
    first, job = shop.add.enqueue(1), shop.add.using(tags=["old"]).enqueue(2)
    answer = ask(
        "edit", job.id, "--to-queue", "other", "--priority", "7", "--data", "[1]", "--add-after", first.id,
        "--add-tag", "new", "--remove-tag", "old", "--argument", "5", "--argument", "b=6", "--app", "cli.shop:app",
    )  # fmt: skip
    assert answer == {"jobs": [{"id": job.id, "ok": True, "outcome": "edited"}]}
    seen = job.refresh().snapshot
    assert (seen.queue, seen.priority, seen.after, seen.tags) == ("other", 7, (first.id,), ("new",))
    assert (job.data, job.state) == ([1], State.BLOCKED)
    ask("edit", job.id, "--remove-after", first.id)
    app.worker(queues=["other"]).run_until_empty()
    assert job.result() == 11


def test_a_refused_dependency_leaves_the_job_as_it_was(app: Headrace, run: Run, ask: Ask) -> None:
    first = shop.add.enqueue(1)
    later = shop.add.using(after=[first]).enqueue(2)
    result = run("edit", first.id, "--to-queue", "other", "--add-tag", "x", "--add-after", later.id)
    assert result.exit_code == exits.NOT_DONE
    said = f"refused: Job {first.id} can't come after job {later.id}, which comes after it. Nothing was changed."
    assert (result.stdout, result.stderr) == ("", f"{first.id}  {said}\n")
    seen = first.refresh().snapshot
    assert (seen.queue, seen.tags, seen.after) == ("default", (), ())
    answer = ask("edit", first.id, "--to-queue", "other", "--add-after", later.id, code=exits.NOT_DONE)
    assert answer == {"jobs": [{"id": first.id, "ok": False, "outcome": said}]}


def test_what_was_done_to_others_is_told(app: Headrace, ask: Ask) -> None:
    first, second = shop.add.enqueue(1), shop.add.enqueue(2)
    answer = ask("edit", first.id, second.id, "--to-queue", "new", "--add-after", second.id, code=exits.NOT_DONE)
    assert [(entry["id"], entry["ok"]) for entry in answer["jobs"]] == [(first.id, True), (second.id, False)]
    assert "Nothing was changed" in answer["jobs"][1]["outcome"]
    assert (first.refresh().queue, first.snapshot.after) == ("new", (second.id,))
    assert (second.refresh().queue, second.snapshot.after) == ("default", ())


def test_a_job_that_runs_or_is_gone(app: Headrace, ask: Ask) -> None:
    jobs: list[Job[Any]] = [shop.add.enqueue(1), shop.add.enqueue(2)]
    take(app, 1)
    nobody = "0" * 32
    answer = ask("edit", jobs[0].id, jobs[1].id, nobody, "--priority", "3", code=exits.NOT_DONE)
    assert [entry["outcome"] for entry in answer["jobs"]] == ["refused: it is running", "edited", "not found"]


def test_a_job_to_come_after_that_is_not_there_is_refused(app: Headrace, run: Run) -> None:
    job = shop.add.enqueue(1)
    result = run("edit", job.id, "--priority", "3", "--add-after", "0" * 32)
    assert (result.exit_code, result.stdout) == (exits.NOT_DONE, "")
    assert f"There is no job {'0' * 32}: it was purged or deleted, or never existed." in result.stderr
    assert job.refresh().snapshot.priority == 0


@pytest.mark.parametrize(
    ("options", "hour"), [((), 9), (APP, 8), ((*APP, "--tz", "Asia/Tokyo"), 0), (("--tz", "Asia/Tokyo"), 0)]
)
def test_times_are_read_in_the_zone_of_the_app(
    app: Headrace, ask: Ask, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], hour: int
) -> None:
    monkeypatch.setattr(app, "zone", ZoneInfo("Africa/Lagos"))  # always an hour ahead
    job = shop.add.enqueue(1)
    ask("edit", job.id, "--run-after", "9am tomorrow", *options)
    assert job.refresh().run_after.hour == hour


def test_jobs_to_come_after_are_named_by_parts_of_their_ids(app: Headrace, ask: Ask) -> None:
    first, job = shop.add.using(id="order:7").enqueue(1), shop.add.enqueue(2)
    ask("edit", job.id, "--add-after", "der:7")
    assert job.refresh().snapshot.after == (first.id,)
    ask("edit", job.id, "--remove-after", "der:7")
    assert job.refresh().snapshot.after == ()
    later = ask("enqueue", "add", "1", "--after", "der:7", "--app", "cli.shop:app")["id"]
    assert app.job(later).snapshot.after == (first.id,)


@pytest.mark.parametrize("part", ["nonsense", ""])
def test_a_part_that_no_job_has_is_not_found(app: Headrace, run: Run, part: str) -> None:
    job = shop.add.enqueue(2)
    for command in (("edit", job.id, "--add-after", part), ("enqueue", "add", "1", "--after", part, *APP)):
        result = run(*command)
        assert (result.exit_code, result.stdout) == (exits.NOT_DONE, "")
        assert f"There is no job '{part}', and none of the newest" in result.stderr
        assert "app.job" not in result.stderr
    assert len(list(app.jobs())) == 1


@pytest.mark.parametrize("many", [False, True])
def test_what_a_job_does_not_come_after_is_not_removed(app: Headrace, ask: Ask, many: bool) -> None:
    first = shop.add.enqueue(1)
    jobs = [shop.add.using(after=[first], tags=["x"]).enqueue(2), shop.add.using(tags=["x"]).enqueue(3)]
    edit = ("edit", "--remove-after", first.id, "--priority", "7")
    if many:
        assert ask(*edit, "--tag", "x", "--yes") == {"matching": 2, "edited": 1, "refused": 1}
    else:
        answer = ask(*edit, *(job.id for job in jobs), code=exits.NOT_DONE)
        said = f"refused: Job {jobs[1].id} does not come after {first.id!r}. Nothing was changed."
        assert [entry["outcome"] for entry in answer["jobs"]] == ["edited", said]
    assert [(job.refresh().snapshot.after, job.snapshot.priority) for job in jobs] == [((), 7), ((), 0)]
    assert "edited" not in [entry.what for entry in jobs[1].history]


def test_a_worker_that_comes_in_between_is_told(app: Headrace) -> None:
    job = shop.add.enqueue(1)

    editing, tagging = facet(app.store, Editing), facet(app.store, Tags)

    def too_late(job_id: str) -> Operation[list[bool]]:
        take(app, 1)
        return editing.edit([job_id], Edit(priority=3))

    steps = [("tagged", lambda job_id: tagging.tag([job_id], ["x"])), ("edited", too_late)]
    said = run_course(app.store, take_steps(app.store, job.id, steps))
    assert said == "refused: it is running; but tagged"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--priority", "9999999"), "priority goes from"),
        (("--to-queue", ""), "A queue needs a name"),
        (("--run-after", "whenever"), "run_after"),
        (("--add-tag", ""), "A tag needs a name"),
        (("--data", "{"), "is no JSON"),
        (("--argument", "5"), "Which app has the task 'cli.shop:add'?"),
        (("--argument", "text", "--app", "cli.shop:app"), "does not fit its annotation"),
        ((), "What is to change?"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_before_anything_is_changed(
    app: Headrace, run: Run, options: tuple[str, ...], words: str
) -> None:
    job, other = shop.add.enqueue(1), shop.add.enqueue(2)
    more = ("--add-after", other.id) if options else ()
    result = run("edit", job.id, *options, *more)
    assert result.exit_code == exits.USAGE
    assert words in " ".join(result.stderr.split())
    assert job.refresh().snapshot.after == ()
