"""A process dies at each place that has a name; the jobs finish all the same, each settled once."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace import Headrace, State
from headrace.crashpoints import DRAINING, POINTS
from processes import SOURCE, Witness, environment, eventually

from . import tasks
from .conftest import StartWorker
from .test_kills import all_jobs, unfinished

CLIENT = ("put.before", "put.after")
TICKS = ("tick.before", "tick.after")
PASSES = {"commit.before": 12, "commit.after": 12, "run.begin": 3, "run.end": 3, "exchange.before": 2}
"""Which pass is the interesting one, where it is not the first."""


def test_every_place_in_the_code_is_listed() -> None:
    named = set()
    for file in (SOURCE / "headrace").rglob("*.py"):
        named |= set(re.findall(r'crashpoints\.(?:reach|passing)\("([a-z.]+)"\)', file.read_text(encoding="utf-8")))
    assert named == {*POINTS, *DRAINING}


@pytest.mark.parametrize("point", [point for point in POINTS if point not in CLIENT + TICKS])
def test_a_worker_that_dies_at_any_point_loses_nothing(
    point: str, app: Headrace, witness: Witness, start_worker: StartWorker, tmp_path: Path
) -> None:
    app.enqueue_many(
        [
            *(tasks.work.using(max_crashes=10).call(number, 0.002) for number in range(8)),
            tasks.work_isolated.using(max_crashes=10).call(100, 0.0),
            tasks.talking.using(max_crashes=10).call(),
            tasks.killer.using(max_crashes=10, priority=-1).call("kill", 1),
        ]
    )
    mark = tmp_path / "died here"
    env = {"HEADRACE_CRASH": f"{point}:{PASSES.get(point, 1)}", "HEADRACE_CRASH_MARK": str(mark)}
    victim = start_worker("--slots", "2", "--session-timeout", "1s", env=env)

    def reached() -> bool:
        return mark.exists()

    eventually(reached, f"{point} to be reached:\n{victim.log}")
    started = False

    def finished() -> bool:
        nonlocal started
        if victim.process.poll() is not None and not started:
            started = True
            start_worker("--slots", "2", "--session-timeout", "1s")
        return unfinished(app) == 0

    try:
        eventually(finished, "the jobs to finish elsewhere")
    except AssertionError as error:
        logs = "\n".join(log.read_text(encoding="utf-8") for log in sorted(tmp_path.glob("*.log")))
        raise AssertionError(f"{error}\n{all_jobs(app)}\n{logs}") from None
    for job in all_jobs(app):
        assert (job.state, job.attempts) == (State.DONE, 1)
        ends = [mark.token for mark in witness.marks("end", job.id)]
        assert not ends or job.token in ends


@pytest.mark.parametrize("point", CLIENT)
def test_a_client_that_dies_at_any_point_loses_nothing_acknowledged(
    point: str, app: Headrace, witness: Witness, tmp_path: Path
) -> None:
    """What was acknowledged is there; what was not, may be."""
    app.store.run(app.store.counts())  # creates the file
    code = (
        f"from worker import tasks\ntasks.app.url = {app.url!r}\n"
        "for number in range(5):\n    print(tasks.nothing.enqueue(number).id, flush=True)"
    )
    mark = tmp_path / "died here"
    client = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(HEADRACE_CRASH=f"{point}:3", HEADRACE_CRASH_MARK=str(mark)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (client.returncode, mark.exists()) == (137, True), client.stderr
    acknowledged = client.stdout.split()
    kept = {job.id for job in all_jobs(app)}
    assert len(acknowledged) == 2
    assert kept >= set(acknowledged)
    assert len(kept) == (2 if point == "put.before" else 3)
    app.worker().run_until_empty()
    assert {job.state for job in all_jobs(app)} == {State.DONE}


@pytest.mark.parametrize("point", TICKS)
def test_a_ticker_that_dies_around_a_tick_gives_it_one_job(
    point: str, app: Headrace, witness: Witness, start_worker: StartWorker, tmp_path: Path
) -> None:
    """Whoever dies around a tick: it has one job, which runs."""
    mark = tmp_path / "died here"
    env = {"HEADRACE_CRASH": f"{point}:2", "HEADRACE_CRASH_MARK": str(mark)}
    victim = start_worker(env=env)
    # It is there before the schedule: one that comes after four seconds gives all ticks their jobs in one pass.
    first = tasks.nothing.enqueue()
    assert first.result(timeout=60) == 0
    first.delete()
    schedule = tasks.work.every("every second", misfire="all", runs=4).enqueue(1)
    eventually(mark.exists, f"{point} to be reached:\n{victim.log}")
    eventually(lambda: schedule.refresh().next is None and unfinished(app) == 0, "the jobs to finish")
    ticks = sorted(job.tick or 0 for job in all_jobs(app))
    assert ticks == list(range(ticks[0], ticks[0] + 4_000, 1_000))
