"""`headrace worker --metrics`: real processes, scraped over HTTP."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.metrics import routes
from headrace.metrics.table import METRICS, Source
from headrace.store import open_store
from headrace.worker.meter import Board, Pool
from processes import Witness, WorkerProcess, environment, eventually, worker_process

from . import tasks
from .scraping import get, names, parse, parse_openmetrics, scrape, url_of, value

PATIENCE = 60.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[str]:
    url = f"sqlite:///{tmp_path}/jobs.db"
    tasks.app.url = url
    tasks.app.use_store(open_store(url))
    yield url
    tasks.app.close()


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    return Witness(tmp_path / "witness")


@pytest.fixture
def worker(store: str, tmp_path: Path, witness: Witness) -> Iterator[WorkerProcess]:
    env = {"HEADRACE_WITNESS": str(witness.path)}
    options = ("--metrics", "127.0.0.1:0", "-p", "2", "-q", 'default,a "queue"\\ #é')
    with worker_process("metrics.tasks:app", store, *options, log=tmp_path / "log", env=env) as process:
        yield process


def done(url: str, task: str = "add") -> float:
    return value(scrape(url), "headrace_job_outcomes_total", task=task, outcome="done")


def await_done(url: str, number: int, task: str = "add") -> None:
    eventually(lambda: done(url, task) >= number, f"{number} jobs counted", PATIENCE)
    assert done(url, task) == number


def test_outcomes_waits_and_runs_are_counted_by_queue_and_task(worker: WorkerProcess) -> None:
    url = url_of(worker)
    tasks.app.enqueue_many([tasks.add.call(i) for i in range(300)])
    tasks.hostile.enqueue()
    tasks.stumble.using(retries=0).enqueue()
    tasks.snooze.enqueue(1)
    await_done(url, 300)
    await_done(url, 1, tasks.hostile.name)
    eventually(lambda: value(scrape(url), "headrace_job_outcomes_total") == 303, "all", PATIENCE)
    found = scrape(url)
    labels = {"queue": "default", "task": "add"}
    for metric in ("headrace_job_wait_seconds", "headrace_job_run_seconds"):
        assert value(found, f"{metric}_count", **labels) == value(found, f"{metric}_bucket", **labels, le="+Inf") == 300
        assert value(found, f"{metric}_count") == 303
    assert value(found, "headrace_job_wait_seconds_sum", **labels) > 0
    assert value(found, "headrace_job_outcomes_total", task="stumble", outcome="failed") == 1
    assert value(found, "headrace_job_outcomes_total", task="snooze", outcome="deferred") == 1
    hostile = {"queue": 'a "queue"\\ #é', "task": tasks.hostile.name}
    assert value(found, "headrace_job_outcomes_total", **hostile, outcome="done") == 1
    status, kind, text = get(f"{url}/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert (status, kind.split(";")[0]) == (200, "application/openmetrics-text")
    assert list(parse_openmetrics(text))


def test_all_metrics_of_the_table_are_exposed_and_no_others(worker: WorkerProcess) -> None:
    _, _, text = get(f"{url_of(worker)}/metrics")
    assert names(text) == {name for name, metric in METRICS.items() if metric.source is Source.WORKER}


def test_counters_survive_the_kill_of_their_process_and_never_go_backwards(worker: WorkerProcess) -> None:
    url = url_of(worker)
    tasks.app.enqueue_many([tasks.add.call(i) for i in range(200)])
    await_done(url, 200)
    eventually(lambda: len(worker.children()) == 2, "both processes", PATIENCE)
    for pid in worker.children():
        os.kill(pid, signal.SIGKILL)
    before = 200.0

    def buried() -> bool:
        nonlocal before
        found = scrape(url)
        now = value(found, "headrace_job_outcomes_total", task="add", outcome="done")
        assert now >= before, "a counter went backwards"
        before = now
        return value(found, "headrace_worker_process_deaths_total") == 2

    eventually(buried, "both deaths", PATIENCE)
    assert done(url) == 200
    tasks.app.enqueue_many([tasks.add.call(i) for i in range(50)])
    await_done(url, 250)
    starts = "headrace_worker_process_starts_total"
    eventually(lambda: value(scrape(url), starts) >= 4, "both processes again", PATIENCE)


def test_a_job_that_kills_its_process_is_counted_as_crashed(worker: WorkerProcess) -> None:
    url = url_of(worker)
    tasks.die.enqueue()
    crashed = {"task": "die", "queue": "default", "outcome": "crashed"}
    eventually(lambda: value(scrape(url), "headrace_job_outcomes_total", **crashed) == 1, "the crash", PATIENCE)


def test_slots_in_use_and_readiness(worker: WorkerProcess, witness: Witness) -> None:
    url = url_of(worker)
    assert get(f"{url}/healthz")[0] == 200
    eventually(lambda: get(f"{url}/readyz")[0] == 200, "readiness", PATIENCE)
    tasks.hold.enqueue()
    witness.wait("holds", patience=PATIENCE)
    found = scrape(url)
    assert (value(found, "headrace_worker_slots_used"), value(found, "headrace_worker_slots")) == (1, 16)
    assert value(found, "headrace_worker_processes") == value(found, "headrace_worker_processes_wanted") == 2
    assert value(found, "headrace_worker_memory_bytes") > 1e6


class Supervising:
    """A supervisor's processes, as a test wants them."""

    def __init__(self, **figures: float) -> None:
        usual = {"wanted": 2, "up": 2, "slots": 16, "running": 0, "memory": 1, "starts": 2, "deaths": 0, "silence": 0.1}
        self._pool = Pool(**{**usual, **figures})

    def pool(self) -> Pool:
        return self._pool


@pytest.mark.parametrize(
    ("figures", "alive", "ready", "words"),
    [
        ({}, 200, 200, "ok"),
        ({"up": 1}, 200, 503, "1 of 2 worker processes take jobs."),
        ({"silence": 61.0}, 503, 200, "ok"),
    ],
)
def test_probes_tell_a_worker_that_hangs_from_one_that_is_not_ready(
    store: str, figures: dict[str, float], alive: int, ready: int, words: str
) -> None:
    served = routes.of_worker(tasks.app, Supervising(**figures), Board())
    assert served["/healthz"]("").status == alive
    answer = served["/readyz"]("")
    assert (answer.status, answer.body.decode()) == (ready, f"{words}\n")


def test_a_worker_whose_store_does_not_answer_is_not_ready(store: str) -> None:
    tasks.app.use_store(open_store("redis://127.0.0.1:1/0"))
    answer = routes.of_worker(tasks.app, Supervising(), Board())["/readyz"]("")
    assert (answer.status, answer.body) == (503, b"The store does not answer.\n")


def headrace(*arguments: str, before: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"{before}\nfrom headrace.cli import main\nmain()", *arguments],
        env=environment(), capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


def test_an_address_that_makes_no_sense_is_refused_before_a_process_is_started(store: str) -> None:
    for address, words in (("nowhere", "is not an address"), ("127.0.0.1:99999", "is not an address")):
        result = headrace("worker", "metrics.tasks:app", "--store", store, "--metrics", address)
        assert result.returncode != 0
        assert words in result.stderr
        assert "started" not in result.stderr


def test_a_port_that_is_taken_is_refused_in_words(worker: WorkerProcess, store: str) -> None:
    address = url_of(worker).removeprefix("http://")
    result = headrace("worker", "metrics.tasks:app", "--store", store, "--metrics", address)
    assert result.returncode != 0
    assert f"Nothing can listen at {address}" in result.stderr


def test_without_the_library_the_extra_is_named(store: str) -> None:
    missing = "import sys; sys.modules['prometheus_client'] = None"
    for command in (("worker", "metrics.tasks:app", "--metrics", "127.0.0.1:0"), ("metrics",)):
        tasks.add.enqueue(1)  # there is a store
        result = headrace(*command, "--store", store, before=missing)
        assert result.returncode != 0
        assert "pip install 'headrace[metrics]'" in result.stderr


def test_a_worker_without_metrics_imports_nothing_of_them(store: str) -> None:
    tasks.add.enqueue(1)
    missing = "import sys; sys.modules['prometheus_client'] = sys.modules['headrace.metrics'] = None"
    assert headrace("worker", "metrics.tasks:app", "--store", store, "--burst", before=missing).returncode == 0


def test_reloading_and_counting_exclude_each_other(store: str) -> None:
    result = headrace("worker", "metrics.tasks:app", "--store", store, "--metrics", "127.0.0.1:0", "--reload")
    assert "choose one" in result.stderr


def test_the_collector_tells_what_embedded_workers_do(store: str) -> None:
    from prometheus_client import CollectorRegistry, generate_latest

    from headrace.metrics import collector

    registry = CollectorRegistry()
    try:
        registry.register(collector(tasks.app))
        for number in (1, 2):
            tasks.app.enqueue_many([tasks.add.call(i) for i in range(10)])
            tasks.app.worker().run_until_empty()
            found = parse(generate_latest(registry).decode())
            assert value(found, "headrace_job_outcomes_total", task="add", outcome="done") == 10 * number
            assert value(found, "headrace_job_run_seconds_count") == 10 * number
    finally:
        tasks.app.board = None
