"""`headrace metrics`: the figures of a store."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from headrace import Headrace
from headrace.cli import cli
from headrace.metrics import families, routes
from headrace.metrics import store as module
from headrace.metrics.store import StoreLook
from headrace.metrics.table import METRICS, Source
from headrace.records import NewJob
from processes import environment
from store.postgres import servers as postgres
from store.redis import servers as redis

from .scraping import Samples, get, names, parse, scrape, value


@pytest.fixture(params=["sqlite", "redis", "postgres"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Headrace]:
    if request.param == "postgres" and not postgres.INSTALLED:
        pytest.skip("psycopg is not installed")
    urls = {
        "redis": redis.fresh_url,
        "postgres": postgres.fresh_url,
        "sqlite": lambda: f"sqlite:///{tmp_path}/a.db",
    }
    app = Headrace(urls[request.param]())
    yield app
    app.close()


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Headrace]:
    app = Headrace(f"sqlite:///{tmp_path}/jobs.db")
    put(app, "here")
    yield app
    app.close()


def put(app: Headrace, *queues: str) -> None:
    app.store.run(
        app.store.put([NewJob(id=f"{n} {queue}", task="t", queue=queue, body=b"{}") for n, queue in enumerate(queues)])
    )


def exposed(app: Headrace) -> Samples:
    return parse(families.rendered(families.of_store(StoreLook(app)()), "")[0].decode())


def test_all_metrics_of_the_table_are_exposed_and_no_others(app: Headrace) -> None:
    put(app, "mail")
    text = families.rendered(families.of_store(StoreLook(app)()), "")[0].decode()
    assert names(text) == {name for name, metric in METRICS.items() if metric.source is Source.STORE}


def test_jobs_ages_and_rates_are_told_by_queue(app: Headrace) -> None:
    put(app, "mail", "mail", "other")
    app.queue("other").pause()
    found = exposed(app)
    assert value(found, "headrace_store_up") == 1
    assert value(found, "headrace_queue_jobs", queue="mail", state="ready") == 2
    assert value(found, "headrace_queue_jobs") == 3
    assert 0 <= value(found, "headrace_queue_oldest_ready_age_seconds", queue="mail") < 60
    assert value(found, "headrace_queue_in_per_second", queue="mail") > 0
    assert value(found, "headrace_queue_paused") == value(found, "headrace_queue_paused", queue="other") == 1
    assert value(found, "headrace_workers") == 0


@pytest.mark.parametrize("name", ['a "b"\\', "é{le='1'}", "x" * 200])
def test_hostile_names_of_queues_are_escaped(local: Headrace, name: str) -> None:
    put(local, name)
    assert value(exposed(local), "headrace_queue_jobs", queue=name, state="ready") == 1


def test_the_queues_are_bounded_and_keep_their_names(local: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "QUEUES", 3)
    look = StoreLook(local)
    put(local, "large", "large", "large")
    assert {line.queue for line in look().queues} == {"here", "large"}
    put(local, *(f"q{n}" for n in range(9) for _ in range(n)))
    lines = {line.queue: line for line in look().queues}
    assert set(lines) == {"here", "large", "q8", "_other"}
    assert lines["_other"].jobs["ready"] == sum(range(8))
    assert {line.queue for line in look().queues} == set(lines)


def test_a_store_that_does_not_answer_is_down(local: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "KEPT", 0.0)
    monkeypatch.setattr(routes, "SHARE", 0.0)
    served = routes.of_store(local)
    assert served["/readyz"]("").status == 200
    local.use_store(Headrace("redis://127.0.0.1:1/0").store)
    answer = served["/metrics"]("")
    assert parse(answer.body.decode()) == {("headrace_store_up", frozenset()): 0.0}
    assert (served["/readyz"]("").status, served["/healthz"]("").status) == (503, 200)


def test_the_command_prints_them_once(local: Headrace) -> None:
    result = CliRunner().invoke(cli, ["metrics", "--store", local.url])
    assert value(parse(result.output), "headrace_queue_jobs", queue="here", state="ready") == 1
    document = json.loads(CliRunner().invoke(cli, ["metrics", "--store", local.url, "--json"]).output)
    assert [line["queue"] for line in document["queues"]] == ["here"]
    assert "leave --json or --listen out" in CliRunner().invoke(cli, ["metrics", "--json", "--listen", "1"]).output


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["metrics", "--store", f"sqlite:///{tmp_path}/nothing.db"])
    assert result.exit_code != 0
    assert "There is no store at" in result.output


def test_the_command_serves_them_until_it_is_told_to_stop(local: Headrace) -> None:
    command = [sys.executable, "-m", "headrace", "metrics", "--store", local.url, "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            where = process.stderr.readline().split()[2].removesuffix("/metrics,")
            assert value(scrape(where), "headrace_queue_jobs", queue="here", state="ready") == 1
            assert (get(f"{where}/healthz")[0], get(f"{where}/readyz")[0]) == (200, 200)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
