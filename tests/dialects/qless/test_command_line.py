"""`headrace qless script` and `headrace qless worker`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from headrace import Headrace, current
from headrace.cli import cli
from headrace.cli.qless import qless_command
from headrace.dialects.qless import Client, Job, library, queues, script
from headrace.errors import Unsupported
from headrace.records import Filter, State
from processes import children_of, environment, eventually, worker_process
from store.redis.servers import Server

from .recorder import Recorder
from .working import MODULE


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with closing(Client(server.url, hostname="peer")) as client:
        yield client


def test_script() -> None:
    assert CliRunner().invoke(qless_command, ["script"]).output == script()
    assert CliRunner().invoke(qless_command, ["script", "--lib"]).output == library()


def test_contradictions() -> None:
    answer = CliRunner().invoke(qless_command, ["worker", "-q", "q", "-g", "3", "--fork-per-job"])
    assert answer.exit_code == 2
    assert "choose one" in answer.output


@pytest.mark.parametrize("kind", [[], ["-g", "2"], ["--fork-per-job"]], ids=["serial", "coroutines", "per job"])
def test_worker(qless: Recorder, server: Server, tmp_path: Path, kind: list[str]) -> None:
    code = "from headrace.cli.qless import qless_command; qless_command()"
    options = [
        "worker",
        "--host",
        server.url,
        "-q",
        "q",
        "--allow",
        MODULE,
        "-w",
        "1",
        "-i",
        "0.05",
        "-d",
        str(tmp_path),
    ]
    testimony = tmp_path / "testimony"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *options, "-l", str(tmp_path / "log"), "-m", "no.such.module", *kind],
        env=environment(QLESS_TESTIMONY=str(testimony)),
        stderr=subprocess.DEVNULL,
    )
    try:
        with closing(Client(server.url, hostname="me")) as client:
            jids = [client.queues["q"].put(f"{MODULE}.{name}", {}) for name in ("Plain", "Litter")]
            foreign = client.queues["q"].put("subprocess.Popen", {})

            def states() -> list[str]:
                jobs = [client.jobs[jid] for jid in (*jids, foreign)]
                return [job.state for job in jobs if isinstance(job, Job)]

            eventually(lambda: states() == ["complete", "complete", "failed"], "all three")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        assert "no.such.module" in (tmp_path / "log").read_text()
    finally:
        for pid in children_of(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.kill()
        process.wait()


def test_the_ordinary_worker_program(qless: Recorder, server: Server, tmp_path: Path) -> None:
    """`headrace worker APP --store qless+…`: a peer's jobs, and a process that dies under one of them."""
    app = "dialects.qless.app_for_tests:app"
    with (
        worker_process(app, f"qless+{server.url}", "--queues", "q", log=tmp_path / "log") as worker,
        closing(Client(server.url, hostname="peer")) as client,
    ):
        jid = client.queues["q"].put("shop.Double", {"number": 4})
        crashing = client.queues["q"].put("shop.Crash", {})

        def found(name: str) -> Job:
            job = client.jobs[name]
            assert isinstance(job, Job)
            return job

        eventually(lambda: found(jid).state == found(crashing).state == "complete", "both")
        assert found(jid).data == {"number": 4, "data": {"doubled": 8}}
        assert worker.stop() == 0
        eventually(lambda: client.workers.counts == [], "the end of all sessions")


def test_short_locks_are_renewed_in_time(qless: Recorder, server: Server, tmp_path: Path) -> None:
    """A lock that is shorter than the time after which sessions are renewed, and no grace period."""
    with (
        closing(Client(server.url, hostname="peer")) as client,
        worker_process(
            "dialects.qless.app_for_tests:app", f"qless+{server.url}", "--queues", "q", log=tmp_path / "log"
        ),
    ):
        client.config.update({"q-heartbeat": 2, "grace-period": 0})
        jid = client.queues["q"].put("shop.Hold", {"until": str(tmp_path / "end")})

        def job() -> Job:
            found = client.jobs[jid]
            assert isinstance(found, Job)
            return found

        began = eventually(lambda: job().expires_at, "the lock")
        eventually(lambda: job().expires_at >= began + 4, "renewals")
        (tmp_path / "end").touch()
        eventually(lambda: job().state == "complete", "the end")
        assert [entry["what"] for entry in job().history] == ["put", "popped", "done"]


def test_the_ordinary_command_line(qless: Recorder, server: Server, client: Client) -> None:
    """Tags, tracking, failures and jobs of an installation, as of any other store."""

    def headrace(*arguments: str) -> str:
        answer = CliRunner().invoke(cli, [*arguments, "--store", f"qless+{server.url}"])
        assert answer.exit_code == 0, answer.output
        return answer.output

    queue = client.queues["q"]
    jids = [queue.put("shop.Double", {}, tags=["new"]) for _ in range(3)]
    for job in queue.pop(2):
        job.fail("no stock", "none left")
    assert [line.split() for line in headrace("failures").splitlines()][1][:3] == ["no", "stock", "2"]
    assert jids[0] in headrace("failures", "no stock")
    assert "0 done, 0 retried, 2 failed (2 of them still)" in headrace("stats", "q")
    headrace("tag", jids[2], "--add", "urgent", "--remove", "new")
    assert job_tags(client, jids[2]) == ["urgent"]
    assert "urgent" in headrace("tags")
    assert jids[2] in headrace("jobs", "--tag", "urgent")
    headrace("track", jids[1])
    assert [job.jid for job in client.jobs.tracked()["jobs"]] == [jids[1]]
    assert jids[1] in headrace("jobs", "--tracked")
    headrace("queues", "pause", "q")
    headrace("queues", "limit", "q", "3")
    assert (queue.pop(), client.config["q-max-concurrency"]) == (None, 3)
    assert "paused, at most 3 at once" in " ".join(headrace("queues").split())
    headrace("queues", "resume", "q")
    headrace("edit", jids[2], "--priority", "9", "--data", "[1]")
    assert jids[2] in headrace("peek", "q")
    job = queue.pop()
    assert (job.jid, job.priority, job.data) == (jids[2], 9, {"data": [1]})
    headrace("take-back", jids[2])
    assert client.queues["q"].peek().jid == jids[2]
    again = queue.pop()
    again.complete()
    shown = " ".join(headrace("stats", "q").split())
    assert "1 done, 0 retried, 2 failed (2 of them still)" in shown
    assert "0 ms to 1 s 1 █" in shown
    headrace("revive", "--group", "no stock", "--yes")
    assert client.jobs.failed() == {}


def job_tags(client: Client, jid: str) -> list[str]:
    job = client.jobs[jid]
    assert isinstance(job, Job)
    return job.tags


def test_a_recurring_job_of_a_task(qless: Recorder, server: Server, client: Client) -> None:
    seen: list[tuple[int, str | None]] = []
    with closing(Headrace(f"qless+{server.url}")) as app:

        @app.task(name="shop.Tidy", queue="q")
        def tidy(depth: int) -> None:
            job = app.job(current().id)
            seen.append((depth, job.snapshot.schedule))

        recurring = client.queues["q"].recur("shop.Tidy", {"depth": 3}, interval=60, retries=2)
        app.worker(queues=["q"]).run_until_empty()
        assert seen == [(3, recurring)]
        (job,) = app.store.run(app.store.find(Filter(schedule=recurring))).jobs
        assert (job.id, job.state, job.tick) == (f"{recurring}-1", State.DONE, job.created)


Answer = Callable[..., Result]


@pytest.fixture
def headrace(server: Server) -> Answer:
    """The command line on the installation."""
    return lambda *arguments: CliRunner().invoke(cli, [*arguments, "--store", f"qless+{server.url}"])


def many(qless: Recorder, jobs: int, *ending: str) -> None:
    """Jobs of one queue that have all come to the same end."""
    pipe = qless.redis.pipeline(transaction=False)
    for number in range(jobs):
        pipe.evalsha(qless._sha, 0, "put", 1_700_000_000, "w", "q", f"j{number}", "K", "{}", 0)
    pipe.execute()
    qless.redis.evalsha(qless._sha, 0, "pop", 1_700_000_000, "q", "w", jobs)
    command, *rest = ending
    for number in range(jobs):
        pipe.evalsha(qless._sha, 0, command, 1_700_000_000 + number, f"j{number}", "w", *rest)
    pipe.execute()
    qless._published()


@pytest.mark.parametrize("jobs", [3, 700, 2_500])
def test_purge_deletes_all_that_fit(qless: Recorder, headrace: Answer, jobs: int) -> None:
    many(qless, jobs, "fail", "g", "m")
    assert headrace("purge", "--state", "failed", "--yes").output == f"{jobs:,} deleted.\n"
    assert qless.redis.keys("ql:j:*") == []


def test_purge_finds_done_jobs_though_nobody_counts_them(qless: Recorder, headrace: Answer) -> None:
    many(qless, 2_500, "complete", "q", "{}")
    # The newest are not old enough: all others are behind them.
    qless.redis.zadd("ql:completed", {f"j{number}": time.time() for number in range(1_200)})
    for number in range(1_200):
        qless.redis.rpush(f"ql:j:j{number}-history", json.dumps([int(time.time()), "done"]))
    answer = headrace("purge")
    assert "Nobody is there to be asked" in answer.output
    assert headrace("purge", "--older-than", "1 hour", "--yes").output == "1,300 deleted.\n"
    assert qless.redis.zcard("ql:completed") == 1_200
    assert headrace("purge", "--yes").output == "1,200 deleted.\n"
    assert headrace("purge", "--yes").output == "0 deleted.\n"


def test_purge_leaves_what_others_wait_for(qless: Recorder, headrace: Answer) -> None:
    many(qless, 5, "fail", "g", "m")
    qless("put", 0, "w", "q", "child", "K", "{}", 0, "depends", '["j2"]')
    answer = headrace("purge", "--state", "failed", "--yes")
    assert answer.output == "4 deleted. 1 kept: other jobs wait for them.\n"
    assert answer.exit_code == 0
    assert sorted(qless.redis.zrange("ql:q:q-depends", 0, -1)) == ["child"]
    assert qless.redis.lrange("ql:f:g", 0, -1) == ["j2"]


def test_revive_revives_all_that_fit(qless: Recorder, headrace: Answer) -> None:
    many(qless, 2_500, "fail", "g", "m")
    assert headrace("revive", "--group", "g", "--yes").output == "2,500 jobs revived.\n"
    assert qless.redis.zcard("ql:q:q-work") == 2_500


def test_all_jobs_are_found_page_by_page(qless: Recorder, server: Server) -> None:
    many(qless, 2_500, "fail", "g", "m")
    with closing(Headrace(f"qless+{server.url}")) as app:
        assert {job.id for job in app.jobs(state="failed")} == {f"j{number}" for number in range(2_500)}


def test_cancelling_what_another_job_waits_for(qless: Recorder, headrace: Answer) -> None:
    qless("put", 0, "w", "q", "a", "K", "{}", 0)
    qless("put", 0, "w", "q", "b", "K", "{}", 0, "depends", '["a"]')
    answer = headrace("cancel", "a")
    assert answer.exit_code == 1
    assert answer.output == (
        "headrace: Job b waits for job a, and would do so for ever if that were gone. "
        "Cancel b first, or both at once. Nothing was changed.\n"
    )
    assert headrace("cancel", "a", "b").exit_code == 0


def test_settings_are_those_that_qless_has(qless: Recorder, server: Server, headrace: Answer) -> None:
    names = {entry["name"] for entry in json.loads(headrace("settings", "--json").output)["settings"]}
    assert names == set(queues.UNITS)
    assert "failed-history" not in headrace("settings").output
    for arguments in (["failed-history"], ["failed-history", "3 days"], ["failed-history", "--unset"]):
        answer = headrace("settings", *arguments)
        assert answer.exit_code == 1
        assert "Qless has no option that does what failed-history says" in answer.output
    with closing(Headrace(f"qless+{server.url}")) as app:
        assert set(app.settings) == set(queues.UNITS)
        assert len(app.settings) == len(queues.UNITS)
        with pytest.raises(Unsupported, match="Qless has no option"):
            app.settings["results-history"]


def test_a_jid_that_is_not_there_is_not_found(qless: Recorder, headrace: Answer) -> None:
    answer = headrace("job", "nope")
    assert answer.exit_code == 1
    assert "There is no job 'nope'" in answer.output


def test_percentiles_say_no_more_than_the_bars_do(qless: Recorder, headrace: Answer) -> None:
    now, day = 1_700_000_000, "2023-11-14"
    qless("config.set", now, "histogram-history", 100_000)  # days
    for length in (0.0001, 0.0002, 75):
        qless("put", now, "w", "q", "a", "K", "{}", 0)
        qless("pop", now, "q", "w", 1)
        qless("complete", now + length, "a", "w", "q", "{}")
    assert "p50 <1 s  p90 <2 min  p99 <2 min" in headrace("stats", "q", "--day", day).output
    qless("put", now, "w", "q", "b", "K", "{}", 0)
    _, row = headrace("stats", "--day", day).output.splitlines()
    assert " ".join(row.split()) == "q 3 <1 s <1 s <1 s <2 min 0 0"
    (found,) = json.loads(headrace("stats", "--json", "--day", day).output)["queues"]
    assert found["run"]["p50"] == pytest.approx(749.25)
