"""`headrace cancel`, `delete`, `revive`, `purge`."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from headrace import Headrace, JobCancelled, State
from headrace.cli import exits
from headrace.cli.selecting import PAST
from headrace.ops import act, selection
from processes import WorkerProcess, environment, eventually

from . import shop
from .conftest import Run

Ask = Callable[..., Any]
NOBODY = "0" * 32


def test_cancel(app: Headrace, run: Run) -> None:
    waiting, done = shop.add.using(queue="other").enqueue(1), shop.add.enqueue(2)
    app.worker(queues=["default"]).run_until_empty()
    result = run("cancel", waiting.id, done.id, NOBODY)
    assert result.exit_code == exits.NOT_DONE
    assert result.stdout == f"{waiting.id}  cancelled\n"
    assert result.stderr == f"{done.id}  done already\n{NOBODY}  not found\n"
    assert waiting.state is State.CANCELLED


def test_cancel_a_running_job(app: Headrace, worker: WorkerProcess, ask: Ask, tmp_path: Path) -> None:
    began = tmp_path / "began"
    job = shop.hold.enqueue(str(began), str(tmp_path / "never"))
    eventually(began.exists, "the job to begin")
    answer = ask("cancel", job.id)
    assert answer == {"jobs": [{"id": job.id, "ok": True, "outcome": "told to stop"}]}
    with pytest.raises(JobCancelled):
        job.result(timeout=20)


def test_delete(app: Headrace, run: Run, ask: Ask) -> None:
    job = shop.add.enqueue(1)
    assert run("delete", job.id).output == f"{job.id}  deleted\n"
    answer = ask("delete", job.id, code=exits.NOT_DONE)
    assert answer == {"jobs": [{"id": job.id, "ok": False, "outcome": "not found"}]}


def failed(app: Headrace) -> list[str]:
    jobs = [shop.fail.enqueue(), shop.fail.enqueue(), shop.give_up.enqueue()]
    app.worker().run_until_empty()
    return [job.id for job in jobs]


def test_revive_by_id(app: Headrace, run: Run) -> None:
    first, *_ = failed(app)
    ready = shop.add.enqueue(1)
    result = run("revive", first, ready.id, NOBODY)
    assert result.exit_code == exits.NOT_DONE
    assert result.stdout == f"{first}  revived\n"
    assert result.stderr == f"{ready.id}  refused: it is ready\n{NOBODY}  not found\n"


def test_revive_some_of_a_group_in_another_queue(app: Headrace, ask: Ask) -> None:
    failed(app)
    answer = ask("revive", "--group", "ValueError", "--limit", "1", "--to", "slow", "--yes")
    assert answer == {"matching": 1, "revived": 1, "refused": 0}
    assert [(job.queue, job.state) for job in app.jobs(queue="slow")] == [("slow", State.READY)]


@pytest.mark.parametrize("page", [500, 2])
@pytest.mark.parametrize("verb", ["revive", "requeue"])
def test_a_limit_on_jobs_that_run_again_takes_the_oldest(
    app: Headrace, ask: Ask, monkeypatch: pytest.MonkeyPatch, verb: str, page: int
) -> None:
    monkeypatch.setattr(act, "PAGE", page)
    task = shop.fail.using(retries=0) if verb == "revive" else shop.half_way
    jobs = [task.enqueue() for _ in range(5)]
    app.worker().run_until_empty()
    assert ask(verb, "--task", jobs[0].task, "--limit", "3", "--yes")[f"{verb}d"] == 3
    assert [job.refresh().state is State.READY for job in jobs] == [True] * 3 + [False] * 2


def test_requeue(app: Headrace, run: Run, ask: Ask) -> None:
    job, waiting = shop.add.enqueue(1), shop.add.using(queue="other").enqueue(2)
    app.worker(queues=["default"]).run_until_empty()
    result = run("requeue", job.id, waiting.id, NOBODY)
    assert result.exit_code == exits.NOT_DONE
    assert result.stdout == f"{job.id}  requeued\n"
    assert result.stderr == f"{waiting.id}  refused: it is ready\n{NOBODY}  not found\n"
    app.worker(queues=["default"]).run_until_empty()
    assert job.result() == 3
    assert ask("requeue", "--task", job.task, "--to", "other", "--yes")["requeued"] == 1
    assert (job.refresh().queue, job.state) == ("other", State.READY)


def test_requeue_refuses_to_break_uniqueness(app: Headrace, run: Run) -> None:
    done = shop.add.using(unique=True).enqueue(1)
    app.worker().run_until_empty()
    shop.add.using(unique=True).enqueue(1)
    assert run("requeue", done.id).stderr == f"{done.id}  refused: another job has its unique key\n"


def test_take_a_running_job_to_another_queue(
    app: Headrace, worker: WorkerProcess, ask: Ask, run: Run, tmp_path: Path
) -> None:
    began = tmp_path / "began"
    job = shop.hold.enqueue(str(began), str(tmp_path / "never"))
    eventually(began.exists, "the job to begin")
    answer = ask("take-back", job.id, "--to", "slow")
    assert answer == {"jobs": [{"id": job.id, "ok": True, "outcome": "back in line"}]}
    assert (job.refresh().queue, job.state) == ("slow", State.READY)
    assert run("take-back", job.id, "--to", "slow*").exit_code == exits.CONFIGURATION


def test_revive_refuses_to_break_uniqueness(app: Headrace, run: Run) -> None:
    first = shop.add.using(unique_key="k").enqueue(1)
    assert first.cancel()
    shop.add.using(unique_key="k").enqueue(1)
    result = run("revive", first.id)
    assert result.exit_code == exits.NOT_DONE
    assert result.stderr == f"{first.id}  refused: another job has its unique key\n"


def test_revive_by_group_pages_through(app: Headrace, run: Run, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "PAGE", 1)
    monkeypatch.setattr(act, "PAGE", 1)
    failed(app)
    assert run("revive", "--group", "ValueError", "--yes").output == "2 jobs revived.\n"
    assert ask("queues")["queues"][0]["ready"] == 2
    assert ask("revive", "--queue", "default", "--yes") == {"matching": 1, "revived": 1, "refused": 0}
    result = run("revive", "--task", "cli.shop:fail", "--yes")
    assert (result.exit_code, result.output) == (exits.NOT_DONE, "No jobs fit.\n")


def test_revive_by_tag_and_by_names_of_tasks(app: Headrace, ask: Ask) -> None:
    shop.fail.using(tags=["night"]).enqueue("a")
    shop.fail.enqueue("b")
    shop.give_up.using(tags=["night"]).enqueue()
    app.worker().run_until_empty()
    assert ask("revive", "--tag", "night", "--task-like", "*:fa*", "--yes")["revived"] == 1
    assert ask("revive", "--task-like", "cli.shop:*", "--yes")["revived"] == 2


# -- many at once --

ACTS = ("cancel", "delete", "revive")


@pytest.mark.parametrize("command", [*ACTS, "edit"])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Which jobs? Give their ids, or filters: --queue, --task, --state, --group, --tag"),
        ([NOBODY, "--group", "x"], "Give ids or filters (--queue, --task, --state, --group, --tag ...), not both."),
    ],
)
def test_jobs_are_named_in_one_way(command: str, arguments: list[str], words: str, app: Headrace, run: Run) -> None:
    result = run(command, *arguments, *(("--priority", "1") if command == "edit" else ()))
    assert result.exit_code == exits.USAGE
    assert words in result.stderr


def test_a_queue_is_emptied(app: Headrace, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "PAGE", 2)
    monkeypatch.setattr(act, "PAGE", 2)
    app.enqueue_many([shop.send.call(f"{number}") for number in range(7)])
    first = shop.add.enqueue(1)
    app.enqueue_many([shop.send.using(after=[first]).call("later") for _ in range(2)])
    assert ask("delete", "--queue", "mail", "--dry-run") == {"matching": 9}
    assert ask("delete", "--queue", "mail", "--yes") == {"matching": 9, "deleted": 9, "refused": 0}
    assert [job["id"] for job in ask("jobs")["jobs"]] == [first.id]


def test_what_others_wait_for_is_deleted_once_they_are(app: Headrace, ask: Ask) -> None:
    first = shop.add.enqueue(1)
    shop.add.using(after=[first]).enqueue(2)
    assert ask("delete", "--queue", "default", "--yes")["deleted"] == 2


def test_filters_limit_and_dry_run(app: Headrace, ask: Ask, run: Run) -> None:
    app.enqueue_many([shop.add.call(number) for number in range(5)])
    assert run("cancel", "--task", "cli.shop:add", "--dry-run").output == "5 jobs would be cancelled.\n"
    assert ask("cancel", "--task", "cli.shop:add", "--limit", "2", "--yes")["cancelled"] == 2
    assert ask("edit", "--state", "ready", "--priority", "7", "--limit", "1", "--yes")["edited"] == 1
    assert ask("revive", "--state", "cancelled", "--yes")["revived"] == 2
    assert sorted(job["priority"] for job in ask("jobs", "--state", "ready")["jobs"]) == [0, 0, 0, 0, 7]


def test_by_error_and_by_age(app: Headrace, ask: Ask) -> None:
    shop.fail.enqueue("the Card was refused")
    shop.fail.enqueue("the network is down")
    app.worker().run_until_empty()
    assert len(ask("jobs", "--error", "CARD was")["jobs"]) == 1
    assert len(ask("jobs", "--error", "valueerror")["jobs"]) == 2
    assert ask("jobs", "--before", "1 hour ago")["jobs"] == []
    assert len(ask("jobs", "--after", "1h")["jobs"]) == 2
    assert ask("revive", "--error", "card", "--after", "2020-01-01", "--yes")["revived"] == 1


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "Pacific/Honolulu"])
def test_days_begin_at_midnight_in_the_zone_of_this_machine(monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        today, yesterday = (PAST.convert(word, None, None) / 1000 for word in ("today", "yesterday"))
    time.tzset()
    begun = datetime.fromtimestamp(today, ZoneInfo(zone))
    assert (begun.hour, begun.minute, today - yesterday) == (0, 0, 24 * 3600)
    assert timedelta(0) <= datetime.now(ZoneInfo(zone)) - begun < timedelta(hours=25)


def test_jobs_since_yesterday(app: Headrace, ask: Ask) -> None:
    shop.add.enqueue(1)
    assert len(ask("jobs", "--after", "yesterday")["jobs"]) == 1
    assert ask("jobs", "--before", "yesterday")["jobs"] == []


def test_pages_of_what_the_store_cannot_filter(app: Headrace, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "PAGE", 3)
    for number in range(8):
        shop.fail.enqueue(f"{'odd' if number % 2 else 'even'} {number}")
    app.worker().run_until_empty()
    found, cursor = [], list[str]()
    while True:
        page = ask("jobs", "--error", "odd", "--limit", "2", *cursor)
        found += [job["error"]["message"] for job in page["jobs"]]
        if page["cursor"] is None:
            break
        cursor = ["--cursor", page["cursor"]]
    assert found == ["odd 7", "odd 5", "odd 3", "odd 1"]


def test_a_time_that_is_none(app: Headrace, run: Run) -> None:
    result = run("jobs", "--before", "yesteryear")
    assert result.exit_code == exits.USAGE
    assert "'yesteryear' is neither a duration ('2 hours ago') nor a date ('2026-11-01')." in result.stderr


def test_many_are_asked_about(app: Headrace, run: Run, url: str) -> None:
    jobs = app.enqueue_many([shop.add.call(number) for number in range(3)])
    result = run("cancel", "--queue", "default")
    assert result.exit_code == exits.USAGE
    assert "3 jobs would be cancelled. Nobody is there to be asked: add --yes." in result.stderr
    assert at_a_terminal(b"n\n", "cancel", "--queue", "default", "--store", url) == exits.INTERRUPTED
    assert at_a_terminal(b"y\n", "cancel", "--queue", "default", "--store", url) == 0
    assert [app.job(job.id).state.value for job in jobs] == ["cancelled"] * 3


# -- parts of ids --


def test_part_of_an_id_is_enough(app: Headrace, run: Run, ask: Ask) -> None:
    first, second = shop.add.enqueue(1), shop.add.enqueue(2)
    assert ask("job", first.id[-8:])["id"] == first.id
    assert ask("why", second.id[10:])["id"] == second.id
    assert run("cancel", first.id[-8:]).stdout == f"{first.id}  cancelled\n"
    assert run("tag", second.id[-8:], "--add", "red").stdout == f"{second.id}  tagged\n"
    assert run("edit", second.id[-8:], "--priority", "3").stdout == f"{second.id}  edited\n"


def test_part_of_several_ids_is_refused_before_anything_is_done(app: Headrace, run: Run) -> None:
    first, second = shop.add.enqueue(1), shop.add.enqueue(2)
    result = run("delete", first.id, "0")
    assert result.exit_code == exits.NOT_DONE
    assert "'0' is part of several ids: " in result.stderr
    assert first.id in result.stderr
    assert second.id in result.stderr
    assert app.job(first.id).state.value == "ready"


def test_a_look_for_part_of_an_id_is_bounded(app: Headrace, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "PAGE", 2)
    monkeypatch.setattr(selection, "LOOK", 4)
    jobs = [shop.add.enqueue(number) for number in range(9)]
    result = run("job", jobs[0].id[-10:])
    assert result.exit_code == exits.NOT_DONE
    assert f"There is no job {jobs[0].id[-10:]!r}, and none of the newest 4 has that in its id." in result.stderr


def test_purge(app: Headrace, run: Run, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(act, "PAGE", 2)
    failed(app)
    app.enqueue_many([shop.add.call(number) for number in range(5)])
    app.worker().run_until_empty()
    waiting = shop.add.enqueue(1)
    assert run("purge", "--yes", "--older-than", "1 hour").output == "0 deleted.\n"
    assert run("purge", "--yes", "--task", "other").output == "0 deleted.\n"
    assert run("purge", "--yes").output == "5 deleted.\n"
    assert ask("purge", "--yes", "--state", "failed", "--queue", "default") == {"deleted": 3, "kept": 0}
    assert [job["id"] for job in ask("jobs")["jobs"]] == [waiting.id]


def test_purge_asks(app: Headrace, run: Run, url: str) -> None:
    shop.add.enqueue(1)
    app.worker().run_until_empty()
    result = run("purge")
    assert result.exit_code == exits.USAGE
    assert "Nobody is there to be asked: add --yes." in result.stderr
    assert at_a_terminal(b"n\n", "purge", "--store", url) == exits.INTERRUPTED
    assert app.store.run(app.store.counts()) != []
    assert at_a_terminal(b"y\n", "purge", "--store", url) == 0
    assert app.store.run(app.store.counts()) == []


def at_a_terminal(typed: bytes, *arguments: str) -> int:
    """Run a command whose standard input is a terminal; answers with its exit code."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "headrace", *arguments]
    process = subprocess.Popen(
        command, stdin=slave, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment()
    )
    os.write(master, typed)
    try:
        return process.wait(timeout=60)
    finally:
        os.close(slave)
        os.close(master)


def test_revived_culprits_bring_back_what_failed_because_of_them(app: Headrace, ask: Ask) -> None:
    culprit = shop.fail.enqueue("no")
    child = shop.add.using(after=[culprit]).enqueue(1)
    app.worker().run_until_empty()
    assert app.job(child.id).state.value == "failed"
    assert ask("revive", "--queue", "default", "--yes")["revived"] == 1
    assert [app.job(job.id).state.value for job in (culprit, child)] == ["ready", "blocked"]
