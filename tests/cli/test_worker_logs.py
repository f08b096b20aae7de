"""What a worker logs, and how it gets along with an app that has set up logging itself."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from processes import environment

SHOP = """
import logging, os
from headrace import Headrace, Retry, Snooze, current
{set_up}
app = Headrace("sqlite:///{folder}/jobs.db")

@app.task
def charge(card: str) -> int:
    logging.getLogger("shop").info("charging %s", card, extra={{"customer": 42}})
    return len(card)

@app.task
def refund(card: str) -> None:
    raise LookupError("no such \\x1b[31mcard")

@app.task(isolate=True)
def audit() -> None:
    raise LookupError("gone")

@app.task
def again() -> None:
    if current().attempt == 1:
        raise Retry("not yet", delay=0)

@app.task
def nap() -> None:
    if not current().data:
        raise Snooze(0, data="rested")

@app.task(max_crashes=2)
def crash() -> None:
    os._exit(9)

@app.task(max_crashes=1)
def crash_once() -> None:
    os._exit(9)
"""

Work = Callable[..., str]


@pytest.fixture
def work(tmp_path: Path) -> Work:
    """Enqueue a call in one process, work it off in another: answers with what the worker wrote to standard error."""

    def run(set_up: str, call: str, *options: str) -> str:
        (tmp_path / "shop.py").write_text(SHOP.format(set_up=set_up, folder=tmp_path))
        put = f"import shop; shop.{call}; shop.app.close()"
        env = environment(PYTHONPATH=f"{environment()['PYTHONPATH']}:{tmp_path}")
        subprocess.run([sys.executable, "-c", put], env=env, cwd=tmp_path, check=True)
        command = [sys.executable, "-m", "headrace", "worker", "shop:app", "--burst", *options]
        done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stderr

    return run


def test_the_handlers_of_an_app_are_kept(work: Work) -> None:
    log = work(
        'logging.basicConfig(level="INFO", format="MINE %(name)s %(message)s [%(job_id)s]")', 'charge.enqueue("visa")'
    )
    assert re.search(r"^MINE shop charging visa \[[0-9a-f]{32}\]$", log, re.MULTILINE)
    assert re.search(r"^MINE headrace.worker queues default", log, re.MULTILINE)
    assert all(line.startswith("MINE ") for line in log.splitlines()), "nothing is logged twice, or in another format"


def test_an_app_without_handlers_gets_one(work: Work) -> None:
    log = work("", 'charge.enqueue("visa")')
    assert re.search(
        r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d I \d+ \[[0-9a-f]{32} shop:charge\] charging visa$",
        log,
        re.MULTILINE,
    )


@pytest.mark.parametrize("call", ['refund.enqueue("visa")', "audit.enqueue()"])
def test_a_failure_is_logged_with_its_traceback(work: Work, call: str) -> None:
    log = work("", call)
    assert " failed: LookupError: " in log
    assert "Traceback (most recent call last):" in log
    assert re.search(r'File ".*shop.py", line \d+, in (refund|audit)', log)
    assert "\x1b" not in log


def test_json_lines_have_an_event_and_what_was_given_as_extra(work: Work) -> None:
    charged = [json.loads(line) for line in work("", 'charge.enqueue("visa")', "--log-json", "--log-jobs").splitlines()]
    (own,) = [line for line in charged if line["logger"] == "shop"]
    assert own["customer"] == 42
    (done,) = [line for line in charged if line.get("event") == "job_done"]
    assert (done["task"], done["level"], done["took_ms"] >= 0) == ("shop:charge", "info", True)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", done["time"])
    refunded = [json.loads(line) for line in work("", 'refund.enqueue("visa")', "--log-json").splitlines()]
    (failed,) = [line for line in refunded if line.get("event") == "job_failed"]
    assert "in refund" in failed["traceback"]


@pytest.mark.parametrize(
    ("call", "events"),
    [
        ("again.enqueue()", ["retry_asked"]),
        ("nap.enqueue()", ["job_snoozed"]),
        ("audit.enqueue()", ["job_failed"]),
        ("crash.enqueue()", ["job_crashed", "job_crashed", "job_failed"]),
        ("crash_once.enqueue()", ["job_crashed", "job_failed"]),
    ],
)
def test_json_lines_about_a_job_name_it(work: Work, call: str, events: list[str]) -> None:
    lines = [json.loads(line) for line in work("", call, "--log-json").splitlines()]
    of_job = [line for line in lines if line.get("event") in {*events, "attempt_failed", "job_failed", "job_crashed"}]
    assert [line["event"] for line in of_job] == events
    task = f"shop:{call.partition('.')[0]}"
    assert {(line["task"], len(line["job_id"])) for line in of_job} == {(task, 32)}
    assert ["traceback" in line for line in of_job] == [call == "audit.enqueue()"] * len(events)


@pytest.mark.parametrize(
    ("options", "logged"),
    [((), False), (("--log-jobs",), True), (("--log-level", "debug"), True), (("--no-log-jobs",), False)],
)
def test_a_line_per_finished_job(work: Work, options: tuple[str, ...], logged: bool) -> None:
    log = work("", 'charge.enqueue("visa")', *options)
    assert bool(re.search(r"job [0-9a-f]{32} \(shop:charge\) done in \d+ ms", log)) is logged
