"""Threads, coroutines, processes: each way to run a job keeps every promise that it can."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace, Job, JobCancelled, JobFailed, State, Task
from headrace.records import NewJob
from headrace.worker.executors import isolated
from processes import SOURCE, TESTS, Witness, alive, children_of, descendants, eventually

from . import tasks

KINDS = ("", "_async", "_isolated")
"""What the names of otherwise equal tasks end in: on a thread, on the loop, in a process."""


@pytest.fixture(scope="module", autouse=True)
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Headrace]:
    """The app, on a file, with a worker inside this program that all tests of this module share."""
    folder = tmp_path_factory.mktemp("executors")
    witness = folder / "witness"
    witness.touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(SOURCE), str(TESTS)]))
        patch.setenv("HEADRACE_WITNESS", str(witness))
        patch.setattr(tasks.app, "url", f"sqlite:///{folder}/jobs.db")
        tasks.app.use_store(None)
        with tasks.app.worker(slots=8):
            yield tasks.app
        tasks.app.close()


@pytest.fixture
def witness() -> Witness:
    return Witness(Path(os.environ["HEADRACE_WITNESS"]))


def task(name: str, kind: str) -> Task[..., Any]:
    found = getattr(tasks, f"{name}{kind}")
    assert isinstance(found, Task)
    return found


def failure(job: Job[Any]) -> JobFailed:
    with pytest.raises(JobFailed) as caught:
        job.result(timeout=20)
    return caught.value


# -- how a run ends --


@pytest.mark.parametrize("kind", KINDS)
def test_a_returned_value_is_the_result(kind: str) -> None:
    job = task("work", kind).enqueue(7)
    assert job.result(timeout=20) == 7
    assert (job.state, job.attempts, job.crashes) == (State.DONE, 1, 0)
    assert [line.what for line in job.history] == ["created", "started", "done"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("what", "group", "message"),
    [
        ("value", "ValueError", "a bad value"),
        ("awkward", "Awkward", "(its message could not be made: RuntimeError)"),
        ("exit", "SystemExit", "3"),
        ("interrupt", "KeyboardInterrupt", ""),
        ("base", "BaseException", "bottom"),
        ("surrogate", "ValueError", "lone ?"),
    ],
)
def test_an_exception_fails_the_job_with_its_type_as_group(kind: str, what: str, group: str, message: str) -> None:
    error = failure(task("raising", kind).enqueue(what))
    assert (error.group, error.message) == (group, message)
    assert "raise_one" in error.traceback or what == "awkward"
    assert error.kind.endswith(group)


def test_a_long_message_is_cut_in_the_middle() -> None:
    error = failure(tasks.raising.enqueue("long"))
    assert len(error.message) < 17_000
    assert "84,000 characters left out" in error.message


@pytest.mark.parametrize("kind", KINDS)
def test_a_raised_retry_runs_the_job_again(kind: str) -> None:
    job = task("retrying", kind).enqueue(2)
    assert job.result(timeout=20) == 3
    assert (job.attempts, job.crashes) == (3, 0)
    assert [line.what for line in job.history].count("retried") == 2


def test_retry_until_there_are_no_more() -> None:
    job = tasks.retrying.using(retries=1).enqueue(5, 0)
    error = failure(job)
    refused = "not yet: the task asked for another run, but using(retries=1) allows 1 of them"
    assert (error.group, error.message) == ("Retry", refused)
    assert job.attempts == 2


def test_retry_with_a_delay() -> None:
    job = tasks.retrying.enqueue(1, 0.2)
    assert job.result(timeout=20) == 2
    starts = [line.at for line in job.history if line.what == "started"]
    assert (starts[1] - starts[0]).total_seconds() >= 0.2


def test_the_policy_for_exceptions() -> None:
    job = tasks.flaky.enqueue(2)
    assert job.result(timeout=20) == 3
    error = failure(tasks.flaky.enqueue(3))
    assert (error.group, error.message) == ("ValueError", "attempt 3")
    job = tasks.choosy.using(retries=1).enqueue("value")
    assert failure(job).group == "ValueError"
    assert job.attempts == 2
    job = tasks.choosy.enqueue("key")
    assert failure(job).group == "KeyError"
    assert job.attempts == 1, "fail_on: at once"
    job = tasks.picky.enqueue()
    assert failure(job).group == "ValueError"
    assert job.attempts == 1, "not of retry_on"


@pytest.mark.parametrize("kind", KINDS)
def test_a_raised_fail_fails_the_job_in_its_group(kind: str) -> None:
    job = task("failing", kind).enqueue("billing", "the card was refused")
    error = failure(job)
    assert (error.group, error.message) == ("billing", "the card was refused")
    assert (job.attempts, job.data) == (1, {"clue": 7})
    assert str(error) == f"Job {job.id} failed (billing): headrace.signals.Fail: the card was refused"


@pytest.mark.parametrize("kind", KINDS)
def test_snooze_spends_nothing(kind: str) -> None:
    job = task("snoozing", kind).enqueue()
    assert job.result(timeout=20) == 1, "the attempt that counts is the first"
    assert (job.attempts, job.crashes) == (1, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_move_to_the_next_stage(kind: str) -> None:
    job = task("first_stage", kind).enqueue("ha")
    eventually(lambda: job.refresh().state.final, "the second stage")
    assert (job.queue, job.task, job.attempts) == ("second", "worker.tasks:second_stage", 1)
    assert job.result(timeout=1) == "haha"


# -- limits --


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_past_its_timeout_is_stopped(kind: str) -> None:
    began = time.monotonic()
    error = failure(task("slow", kind).enqueue())
    assert (error.group, error.message) == ("Timeout", "the job ran out of time (timeout=0.1 s)")
    assert time.monotonic() - began < 5


def test_time_out_of_a_process_that_ignores_sigterm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "MERCY", 0.1)
    error = failure(tasks.stubborn_isolated.enqueue())
    assert error.group == "Timeout"


def test_time_outs_of_one_call() -> None:
    assert failure(tasks.cancellable.using(timeout=0.05).enqueue()).message.endswith("(timeout=0.05 s)")
    assert tasks.slow_async.using(timeout=None).enqueue(0.2).result(timeout=20) is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_without_heartbeats_is_stopped(kind: str) -> None:
    error = failure(task("silent", kind).enqueue())
    assert (error.group, error.message) == ("Timeout", "the job gave no heartbeat (heartbeat=0.1 s)")


@pytest.mark.parametrize("kind", ["", "_isolated"])
def test_a_run_with_heartbeats_goes_on(kind: str) -> None:
    assert task("lively", kind).enqueue(10).result(timeout=20) == 10


def test_cancellation_of_a_job_that_waits_for_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.job.LOOK_AGAIN", 0.1)
    app = Headrace(f"sqlite:///{tmp_path}/jobs.db")

    @app.task(name="wait")
    def wait() -> None:
        app.job("child").result()

    app.enqueue_many([wait.using(queue="nobody", id="child").call()])
    with app.worker(slots=1):
        job = wait.enqueue()
        eventually(lambda: job.refresh().state is State.RUNNING, "it to run")
        assert job.cancel()
        with pytest.raises(JobCancelled):
            job.result(timeout=20)
    app.close()


@pytest.mark.parametrize("kind", KINDS)
def test_cancellation_of_a_running_job(kind: str) -> None:
    job = task("cancellable", kind).enqueue()
    eventually(lambda: job.refresh().progress is not None, "it to run")
    asked = time.monotonic()
    assert job.cancel()
    with pytest.raises(JobCancelled, match=f"Job {job.id} was cancelled"):
        job.result(timeout=20)
    assert time.monotonic() - asked < 3
    assert job.history[-1].what == "cancelled"


def test_what_a_cancelled_job_returns_counts() -> None:
    job = tasks.polite.enqueue()
    eventually(lambda: job.refresh().progress is not None, "it to run")
    job.cancel()
    assert job.result(timeout=20) == "tidied up"
    assert job.state is State.DONE


# -- the context --


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_run_says(kind: str) -> None:
    job = task("talking", kind).enqueue()
    seen = job.result(timeout=20)
    assert seen == {"id": job.id, "attempt": 1, "token": job.snapshot.token, "cancelled": False, "queue": "default"}
    assert job.progress is not None
    assert (job.progress, job.progress.fraction) == ((1.0, 4.0), 0.25)
    assert job.data == {"page": 1}
    assert [(line.what, line.detail) for line in job.history if line.what == "log"] == [("log", "half-way")]


@pytest.mark.parametrize("kind", ["", "_isolated"])
def test_data_is_carried_to_the_next_attempt(kind: str) -> None:
    assert task("leaves_a_note", kind).enqueue().result(timeout=20) == "read me"


# -- crashes of isolated jobs --


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("segfault", "its process was killed by SIGSEGV"),
        ("kill", "its process was killed by SIGKILL"),
        ("abort", "its process was killed by SIGABRT"),
        ("realtime", "its process was killed by signal 40"),
        ("0", "its process exited with code 0"),
        ("3", "its process exited with code 3"),
    ],
)
def test_a_crash_of_an_isolated_job_is_its_own(how: str, words: str) -> None:
    job = tasks.killer_isolated.using(max_crashes=2).enqueue(how)
    error = failure(job)
    assert (error.group, error.kind, error.message) == ("crashed", "Crashed", words)
    assert (job.attempts, job.crashes) == (0, 2)
    survivor = tasks.killer_isolated.enqueue(how, 1)
    assert survivor.result(timeout=20) == "survived"
    assert (survivor.attempts, survivor.crashes) == (1, 1)
    assert tasks.nothing.enqueue(1).result(timeout=20) == 1


def test_on_failure_after_the_last_crash(app: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(app, "failure_hooks", [lambda context, error: seen.append((context.id, str(error)))])
    job = tasks.killer_isolated.using(max_crashes=2).enqueue("kill")
    failure(job)
    assert seen == [(job.id, "its process was killed by SIGKILL")]


def test_a_memory_hog() -> None:
    assert failure(tasks.memory_hog.enqueue()).message == "its process was killed by SIGKILL"


def test_the_zygote_is_replaced(witness: Witness, tmp_path: Path) -> None:
    job = tasks.wait_for_isolated.enqueue(str(tmp_path / "go"))
    child = witness.wait("start", job.id).pid
    zygote = int(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[1])
    assert zygote in children_of(os.getpid())
    os.kill(zygote, signal.SIGKILL)
    again = witness.wait("start", job.id, count=2)
    assert again.crashes == 1
    assert not alive(child)
    (tmp_path / "go").touch()
    job.result(timeout=20)


# -- what runs leave behind --


def test_a_scratch_directory() -> None:
    job = tasks.in_scratch.enqueue()
    folder, *found = job.result(timeout=20)
    assert found == [], "empty before"
    assert not os.path.exists(folder), "gone after"
    assert Path(folder).name.startswith("headrace-job-")
    crashing = tasks.in_scratch.using(max_crashes=2).enqueue(fail=True)
    failure(crashing)
    assert not list(Path(tempfile.gettempdir()).glob(f"headrace-job-{crashing.id.encode().hex()}*"))


def test_a_scratch_directory_of_a_killed_worker_is_cleaned_up() -> None:
    """The next attempt of the job finds nothing of the one before, wherever that was killed."""
    job = tasks.in_scratch.using(run_after=0.3).enqueue()
    leftover = Path(tempfile.mkdtemp(prefix=f"headrace-job-{job.id.encode().hex()}-"))
    (leftover / "litter").touch()
    job.result(timeout=20)
    assert not leftover.exists()


def test_grandchildren_end_with_the_job(tmp_path: Path) -> None:
    grandchild = tasks.with_grandchild.enqueue(str(tmp_path / "started")).result(timeout=20)
    eventually(lambda: not alive(grandchild), "the grandchild to be ended")


def test_a_job_that_changes_directory_harms_nobody(tmp_path: Path) -> None:
    before = os.getcwd()
    try:
        assert tasks.moves_house.enqueue(str(tmp_path)).result(timeout=20) == str(tmp_path)
        assert tasks.work_isolated.enqueue(3).result(timeout=20) == 3
        assert tasks.nothing.enqueue(4).result(timeout=20) == 4
        assert os.listdir(tmp_path) == [], "no database was opened in the new place"
    finally:
        os.chdir(before)


def test_a_rude_isolated_job_harms_nobody() -> None:
    before = (os.getcwd(), signal.getsignal(signal.SIGTERM))
    first, second = (tasks.rude_isolated.enqueue().result(timeout=20) for _ in range(2))
    assert first != second
    assert "RUDE" not in os.environ
    assert (os.getcwd(), signal.getsignal(signal.SIGTERM)) == before
    assert tasks.work_isolated.enqueue(3).result(timeout=20) == 3


# -- payloads and results --


def put(app: Headrace, task: str, body: bytes, **options: Any) -> Job[Any]:
    job_id = f"raw-{time.monotonic_ns()}"
    app.store.run(app.store.put([NewJob(id=job_id, task=task, body=body, **options)]))
    return app.job(job_id)


@pytest.mark.parametrize("name", ["nothing", "work_async", "work_isolated"])
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "Input data was truncated"),
        (b"\xff\xfe", "JSON is malformed"),
        (b'{"number": "one"}', "Expected `int"),
        (b'{"number": 1, "more": 2}', "Object contains unknown field `more`"),
        (b"[1]", "Expected `object`, got `array`"),
        (b"[" * 100_000, ""),
    ],
)
def test_a_broken_payload_is_quarantined(app: Headrace, name: str, body: bytes, reason: str) -> None:
    job = put(app, f"worker.tasks:{name}", body)
    error = failure(job)
    assert error.group == "broken"
    assert error.message.startswith(f"the arguments do not fit worker.tasks:{name}: ")
    assert reason in error.message
    assert job.attempts == 0
    assert bytes(job.snapshot.body) == body, "kept as it came"


def test_options_that_cannot_be_read_are_ignored(app: Headrace) -> None:
    assert put(app, "worker.tasks:nothing", b'{"number": 2}', options=b"?").result(timeout=20) == 2


def test_an_unknown_task_is_put_off(app: Headrace) -> None:
    job = put(app, "no such task", b"{}")
    eventually(lambda: job.refresh().snapshot.deferred_since is not None, "it to be put off")
    assert (job.state, job.attempts, job.crashes) == (State.SCHEDULED, 0, 0)
    job.delete()


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("lambda", "its result cannot be encoded: Encoding objects of type function is unsupported."),
        ("lock", "its result cannot be encoded: Encoding objects of type object is unsupported."),
        ("large", "The result: 2,000,002 bytes are more than the limit of 1,048,576."),
    ],
)
def test_results_that_cannot_be_kept(what: str, words: str) -> None:
    job = tasks.returns.enqueue(what)
    error = failure(job)
    assert error.group == "result"
    assert words in error.message
    assert job.attempts == 1, "it has run: it is not run again"


def test_results_that_can() -> None:
    assert tasks.returns.enqueue("nothing").result(timeout=20) is None
    assert tasks.returns.enqueue("number").result(timeout=20) == 2**70


@pytest.mark.parametrize("kind", KINDS)
def test_injected_values(kind: str) -> None:
    assert task("injected", kind).enqueue(3).result(timeout=20) == "hello 8"


# -- how many threads --


def test_slow_jobs_after_quick_ones_run_beside_each_other() -> None:
    """Quick jobs are left to one thread; these four would wait for each other in vain."""
    quick = [tasks.nothing.call(number) for number in range(300)]
    jobs = tasks.app.enqueue_many([*quick, *(tasks.meet.call() for _ in range(4))])
    assert [job.result(timeout=20) for job in jobs[-4:]] == ["met"] * 4


def test_a_slow_job_holds_up_neither_quick_ones_nor_their_outcomes() -> None:
    tasks.gate.clear()
    quick = [tasks.nothing.call(number) for number in range(600)]
    jobs = tasks.app.enqueue_many([*quick[:300], tasks.wait_at_the_gate.call(), *quick[300:]])
    assert [job.result(timeout=20) for job in (*jobs[:300], *jobs[301:])] == list(range(600))
    assert jobs[300].refresh().state is State.RUNNING
    tasks.gate.set()
    assert jobs[300].result(timeout=20) == "through"


def isolated_processes() -> list[int]:
    """What the zygotes of this process have started and is still there."""
    zygotes = [pid for pid in descendants(os.getpid()) if isolated.ENTRY in command_line(pid)]
    return [child for zygote in zygotes for child in children_of(zygote)]


def command_line(pid: int) -> list[str]:
    """How a process was started; nothing of one that has ended meanwhile."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


def test_no_process_is_left_behind(app: Headrace) -> None:
    """The last test of this module: of all the processes that zygotes started none is left."""
    eventually(lambda: not isolated_processes(), "processes to end")
