"""Recurring jobs from the shell."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace import Enqueuing, Headrace, Veto
from headrace.cli import exits
from headrace.ops import schedules
from headrace.worker.reconcile import reconcile

from . import shop

Ask = Callable[..., Any]
Run = Callable[..., Any]


@pytest.fixture
def two(app: Headrace) -> None:
    shop.add.every("every day at 4am", name="nightly", start="in 2 days").enqueue(1, b=3)
    shop.send.using(tags=["red"], retries=2).every(
        "every 2nd Sunday at 9am", tz="Europe/Zurich", name="sunday", overlap="skip", runs=3
    ).enqueue("ada")


def test_the_list(two: None, run: Run, ask: Ask) -> None:
    lines = run("schedules").stdout.splitlines()
    assert lines[0].split("\t")[0] == "NAME"
    assert re.match(r"nightly\tevery day at 04:00 UTC\tin \d days\t0\tcli\.shop:add\t?$", lines[1])
    assert "every 2nd Sunday (the 2nd and 4th of a month) at 09:00 in Europe/Zurich" in lines[2]
    nightly, sunday = ask("schedules")["schedules"]
    assert (nightly["name"], nightly["arguments"], nightly["state"]) == ("nightly", {"a": 1, "b": 3}, "ticking")
    assert (sunday["tags"], sunday["options"], sunday["max_runs"]) == (["red"], {"retries": 2}, 3)
    assert len(sunday["upcoming"]) == 3
    assert nightly["next"] == nightly["upcoming"][0]


def test_the_list_fits_a_narrow_terminal(two: None, run: Run) -> None:
    for width in ("60", "80"):
        lines = run("schedules", env={"COLUMNS": width}).stdout.splitlines()
        assert len(lines) == 3
        assert all(len(line) <= int(width) for line in lines)
        assert re.search(r"^nightly .* in \d+ (days|h) ", lines[1])


def test_an_empty_list_and_a_store_that_is_not_there(app: Headrace, run: Run, tmp_path: Path) -> None:
    assert run("schedules").stdout == "No schedules.\n"
    assert run("schedules", store=f"sqlite:///{tmp_path}/nothing.db").exit_code == exits.STORE


def test_show(two: None, run: Run, ask: Ask) -> None:
    shown = run("schedules", "show", "sunday").stdout
    for words in (
        "every 2nd Sunday (the 2nd and 4th of a month) at 09:00 in Europe/Zurich",
        "0 of 3",
        '{"to":"ada"}',
        "red",
        "skip",
        "once (after 60 s)",
    ):
        assert words in shown
    assert ask("schedules", "show", "sunday")["overlap"] == "skip"
    missing = run("schedules", "show", "nobody")
    assert (missing.exit_code, missing.stderr) == (
        exits.NOT_DONE,
        "headrace: There is no schedule 'nobody': it never existed, or was deleted.\n",
    )


def test_pause_resume_delete(app: Headrace, two: None, run: Run, ask: Ask) -> None:
    result = run("schedules", "pause", "nightly", "nobody")
    assert (result.exit_code, result.stdout, result.stderr) == (
        exits.NOT_DONE,
        "nightly  paused\n",
        "nobody  not found\n",
    )
    assert app.schedules("nightly")[0].paused
    assert "paused" in run("schedules").stdout
    assert ask("schedules", "resume", "nightly")["schedules"][0]["ok"]
    assert not app.schedules("nightly")[0].paused
    assert run("schedules", "delete", "nightly").stdout == "nightly  deleted\n"
    assert run("schedules", "delete", "nightly").exit_code == exits.NOT_DONE
    assert [schedule.name for schedule in app.schedules()] == ["sunday"]


def test_a_paused_schedule_says_since_when_and_by_whom(
    app: Headrace, two: None, run: Run, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_OPERATOR", "ada")
    run("schedules", "pause", "nightly")
    monkeypatch.setenv("HEADRACE_OPERATOR", "bob")
    run("schedules", "pause", "nightly")
    shown = ask("schedules", "show", "nightly")
    assert (shown["paused"], shown["paused_by"], shown["paused_at"] is not None) == (True, "ada", True)
    assert "paused by ada" in run("schedules").stdout
    run("schedules", "resume", "nightly")
    shown = ask("schedules", "show", "nightly")
    assert (shown["paused"], shown["paused_by"], shown["paused_at"]) == (False, None, None)


def test_run_puts_a_job_and_leaves_the_schedule_as_it_is(app: Headrace, two: None, run: Run, ask: Ask) -> None:
    before = app.schedules("nightly")[0].record
    acted = ask("schedules", "run", "nightly")["schedules"][0]
    (job,) = app.jobs()
    assert (acted["outcome"], job.state) == (f"put as job {job.id}", "ready")
    found = ask("job", job.id)
    assert (found["schedule"], found["tick"], found["task"]) == ("nightly", None, before.definition.task)
    assert app.schedules("nightly")[0].record == before
    assert run("schedules", "run", "nobody").exit_code == exits.NOT_DONE
    assert ask("audit")["acts"][0]["about"] == "schedule nightly"


def test_a_schedule_that_is_run_now_passes_the_hooks_of_its_app(app: Headrace, two: None) -> None:
    @app.on_enqueue
    def stamp(call: Enqueuing) -> None:
        if call.schedule == "sunday":
            raise Veto("Not on a Sunday.")
        call.headers["by"] = str(call.schedule)

    schedules.run_now(app, ["nightly"])
    assert [job.headers for job in app.jobs()] == [{"by": "nightly"}]
    with pytest.raises(Veto, match=r"Not on a Sunday\."):
        schedules.run_now(app, ["sunday"])


def test_options_of_the_group_count_for_its_commands(two: None, run: Run, url: str) -> None:
    assert run("schedules", "show", "sunday", "--store", url, store=None).exit_code == exits.OK
    assert run("schedules", "pause", "sunday", "--json").stdout.startswith("{")


def test_a_declared_one_that_is_deleted_says_that_it_comes_back(app: Headrace, run: Run) -> None:
    app.schedule("declared", shop.add.every("every hour"), 1)
    reconcile(app)
    app.declared.clear()
    assert "cli.shop:app" in run("schedules").stdout
    assert "until a worker of cli.shop:app starts" in run("schedules", "delete", "declared").stdout


def test_edit(app: Headrace, two: None, run: Run, ask: Ask) -> None:
    said = run("schedules", "edit", "nightly", "--every", "every day at 5am", "--tz", "Asia/Tokyo", "--queue", "slow")
    assert said.stdout.startswith("every day at 05:00 in Asia/Tokyo; next: ")
    document = ask(
        "schedules", "edit", "nightly", "--priority", "4", "--retries", "9", "--tag", "a", "--tag", "b", "--runs", "7",
        "--jitter", "5s", "--overlap", "replace", "--misfire", "all",
    )  # fmt: skip
    assert (document["queue"], document["priority"], document["tags"]) == ("slow", 4, ["a", "b"])
    assert (document["options"], document["max_runs"], document["jitter"]) == ({"retries": 9}, 7, 5_000)
    assert (document["overlap"], document["misfire"]) == ("replace", "all")
    arguments = ("--argument", "5", "--argument", "b=6", "--app", "cli.shop:app")
    assert ask("schedules", "edit", "nightly", *arguments)["arguments"] == {"a": 5, "b": 6}
    other = ask("schedules", "edit", "nightly", "--task", "touch", "--argument", "/tmp/x", "--app", "cli.shop:app")
    assert (other["task"], other["arguments"]) == ("cli.shop:touch", {"path": "/tmp/x"})
    assert ask("schedules", "edit", "nightly", "--cron", "0 9 * * 1-5")["rule"] == "every weekday at 09:00 UTC"
    assert ask("schedules", "edit", "nightly", "--repeat", "daily")["rule"] == "FINISHED, +1 DAY"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "What should change?"),
        (("--every", "every blue moon"), "'blue' could not be placed"),
        (("--every", "every hour", "--cron", "* * * * *"), "One rule at a time"),
        (("--tz", "UTC"), "write the rule, too"),
        (("--cron", "every day"), "or say it in words with every(...) or --every"),
        (("--every", "FINISHED, +1 HOUR"), "say it with task.repeat(...) or --repeat"),
        (("--argument", "x"), "Say --app"),
        (("--argument", "x", "--app", "cli.shop:app"), "at `$.a`"),
        (("--overlap", "both"), "Invalid value"),
    ],
)
def test_an_edit_that_makes_no_sense(two: None, run: Run, options: tuple[str, ...], words: str) -> None:
    result = run("schedules", "edit", "nightly", *options)
    assert result.exit_code == exits.USAGE
    assert words in result.output


@pytest.mark.parametrize("name", ["show", "pause", "resume", "delete", "edit"])
def test_each_command_teaches_with_an_example(run: Run, name: str) -> None:
    output = run("schedules", name, "--help").stdout
    assert f"headrace schedules {name}" in output


def test_names_from_outside_do_not_reach_the_terminal_as_they_are(app: Headrace, run: Run) -> None:
    from headrace.records import Definition, ScheduleRecord

    definition = Definition(rule="every hour UTC", task="t\x1b[2J", body=b"{}")
    app.store.run(app.store.put_schedule(ScheduleRecord(name="x\x1b[2J", definition=definition, next=5), None))
    assert "\x1b" not in run("schedules").stdout
    assert "\x1b" not in run("schedules", "pause", "x\x1b[2J").stdout
