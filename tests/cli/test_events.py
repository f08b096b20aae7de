"""`headrace events`: a line per event, until Ctrl-C."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace import Headrace
from headrace.cli import exits
from processes import environment, eventually

from .conftest import Run


@contextmanager
def listening(app: Headrace, url: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    """`headrace events` in a process of its own, which listens already."""
    with subprocess.Popen(
        [sys.executable, "-m", "headrace", "events", "--store", url, *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
    ) as process:  # fmt: skip
        try:
            # It is told of what comes after the moment when it has its ear, which is the last thing that it gets.
            folder = Path(f"{url.removeprefix('sqlite:///')}-run")
            eventually(lambda: any(folder.glob("waiter-*")), "a listener")
            yield process
        finally:
            process.kill()


def test_a_line_per_event_until_ctrl_c(app: Headrace, url: str) -> None:
    app.store.run(app.store.counts())
    with listening(app, url) as process:
        job = app.tasks["cli.shop:add"].enqueue(1, 2)
        app.worker().run_until_empty()
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == exits.INTERRUPTED
    for line, what in zip(lines, ("created", "started", "done"), strict=True):
        assert re.match(rf"\d\d:\d\d:\d\d\.\d\d\d \S+  {what} +{job.id}  cli.shop:add  default", line), line


def test_a_job_is_named_by_part_of_its_id(app: Headrace, url: str) -> None:
    jobs = [app.tasks["cli.shop:add"].using(id=name).enqueue(1, 2) for name in ("order:7", "order:8")]
    with listening(app, url, "--json", "--job", "der:8", "--timeout", "1s") as process:
        app.worker().run_until_empty()
        out, _ = process.communicate(timeout=30)
    assert {json.loads(line)["job"] for line in out.splitlines()} == {jobs[1].id}


def test_json_lines_and_what_is_wanted(app: Headrace, url: str) -> None:
    app.store.run(app.store.counts())
    with listening(app, url, "--json", "--what", "failed,done", "--queue", "d*", "--timeout", "1s") as process:
        app.tasks["cli.shop:send"].enqueue("ada")
        failed = app.tasks["cli.shop:fail"].enqueue("no\x1b[2Jway")
        app.worker().run_until_empty()
        out, _ = process.communicate(timeout=30)
        assert process.returncode == 0
    (event,) = map(json.loads, out.splitlines())
    assert {name: event[name] for name in ("what", "job", "task", "queue", "detail", "tracked")} == {
        "what": "failed", "job": failed.id, "task": "cli.shop:fail", "queue": "default", "detail": "ValueError",
        "tracked": False,
    }  # fmt: skip


def test_nothing_happens(app: Headrace, run: Run) -> None:
    app.store.run(app.store.counts())
    assert run("events", "--timeout", "1s").output == ""


@pytest.mark.parametrize("arguments", [("--what", "exploded"), ("--timeout", "soon")])
def test_nonsense_is_refused(app: Headrace, run: Callable[..., Any], arguments: tuple[str, ...]) -> None:
    app.store.run(app.store.counts())
    assert run("events", *arguments).exit_code == exits.USAGE
