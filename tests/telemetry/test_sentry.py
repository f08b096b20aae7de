"""`headrace.sentry.instrument(app)`, with the real SDK and a transport that writes events to a file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from processes import environment

pytest.importorskip("sentry_sdk", reason="sentry-sdk is not installed")

SHOP = """
import json, os
import sentry_sdk
from sentry_sdk.transport import Transport
from headrace import Backoff, Fail, Headrace, current
from headrace.sentry import instrument

class ToFile(Transport):
    def capture_envelope(self, envelope):
        event = envelope.get_event()
        if event is not None:
            descriptor = os.open({events!r}, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(descriptor, (json.dumps(event, default=str) + "\\n").encode())
            os.close(descriptor)

sentry_sdk.init("https://key@sentry.invalid/1", transport=ToFile)
app = Headrace({store!r}, backoff=Backoff(first=0, jitter=0))
instrument(app)
instrument(app)  # once is enough

@app.task(name="flaky", retries=2)
def flaky() -> int:
    if current().attempt < 3:
        raise ConnectionError("not yet")
    return 3

@app.task(name="charge", queue="money", retries=1)
def charge(customer: str) -> None:
    sentry_sdk.set_tag("customer", customer)
    sentry_sdk.add_breadcrumb(message=f"looked up {{customer}}")
    raise LookupError(customer)

@app.task(name="acharge")
async def acharge(customer: str) -> None:
    sentry_sdk.set_tag("customer", customer)
    raise LookupError(customer)

@app.task(name="isolated", isolate=True)
def isolated() -> None:
    raise LookupError("isolated")

@app.task(name="crash", isolate=True, max_crashes=2)
def crash() -> None:
    os._exit(9)

@app.task(name="refuse")
def refuse() -> None:
    raise Fail("no such order", "7")

@app.task(name="wrong")
def wrong() -> int:
    return "text"

@app.task(name="captures")
def captures() -> None:
    sentry_sdk.capture_message("seen in a task")

@app.task(name="captures and raises")
def captures_and_raises() -> None:
    try:
        raise LookupError("captured by the task")
    except LookupError:
        sentry_sdk.capture_exception()
        raise

@app.task(name="kills", max_crashes=1)
def kills() -> None:
    os._exit(9)
"""


class Shop:
    """An app in a folder, and the events that its processes sent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "events.jsonl"
        source = SHOP.format(events=str(self.path), store=f"sqlite:///{folder}/jobs.db")
        (folder / "shop.py").write_text(source, encoding="utf-8")

    def run(self, *command: str) -> None:
        path = f"{environment()['PYTHONPATH']}:{self.folder}"
        done = subprocess.run(
            [sys.executable, *command],
            env=environment(PYTHONPATH=path),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    def work(self, *calls: str) -> None:
        """Enqueue these, and have worker processes run them."""
        self.run("-c", f"import shop; {'; '.join(f'shop.{call}' for call in calls)}")
        self.run("-m", "headrace", "worker", "shop:app", "--burst")

    @property
    def events(self) -> list[dict[str, Any]]:
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        return sorted(map(json.loads, lines), key=lambda event: str(event["tags"]["headrace.task"]))


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_a_failure_is_one_event_with_the_scope_of_its_run_and_a_retry_is_none(shop: Shop) -> None:
    shop.work("flaky.enqueue()", "charge.using(id='job-7').enqueue('ada')", "captures.enqueue()")
    seen, failed = shop.events
    assert failed["tags"] == {
        "customer": "ada",
        "headrace.attempt": 2,
        "headrace.job_id": "job-7",
        "headrace.queue": "money",
        "headrace.task": "charge",
    }
    assert failed["transaction"] == "charge"
    (error,) = failed["exception"]["values"]
    assert (error["type"], error["value"]) == ("LookupError", "ada")
    assert error["stacktrace"]["frames"][-1]["function"] == "charge"
    assert [crumb["message"] for crumb in failed["breadcrumbs"]["values"]] == ["looked up ada"]
    assert (seen["message"], seen["tags"]["headrace.task"]) == ("seen in a task", "captures")


def test_every_way_to_fail_is_one_event(shop: Shop) -> None:
    calls = ("isolated", "crash", "refuse", "wrong", "captures_and_raises")
    shop.work(*(f"{call}.enqueue()" for call in calls))
    assert [(event["tags"]["headrace.task"], event["exception"]["values"][-1]["type"]) for event in shop.events] == [
        ("captures and raises", "LookupError"),
        ("crash", "HeadraceError"),
        ("isolated", "LookupError"),
        ("refuse", "Fail"),
        ("wrong", "ArgumentsError"),
    ]


def test_a_job_that_kills_its_worker_process_is_one_event_beside_those_of_the_process(shop: Shop) -> None:
    shop.work("kills.using(id='killer').enqueue()")
    lines = [json.loads(line) for line in shop.path.read_text(encoding="utf-8").splitlines()]
    found = {event["extra"]["event"]: event.get("tags", {}).get("headrace.job_id") for event in lines}
    assert (found, len(lines)) == ({"process_died": None, "job_failed": "killer"}, 2)


def test_runs_beside_each_other_in_an_embedded_worker_have_scopes_of_their_own(shop: Shop) -> None:
    shop.run(
        "-c",
        "import sentry_sdk, shop\n"
        "sentry_sdk.set_tag('where', 'the program')\n"
        "calls = [task.call(f'{task.name} {n}') for n in range(5) for task in (shop.charge, shop.acharge)]\n"
        "shop.app.enqueue_many(calls)\n"
        "shop.app.worker(slots=10).run_until_empty()\n"
        "assert 'headrace.task' not in sentry_sdk.get_isolation_scope()._tags\n",
    )
    events = shop.events
    expected = sorted(f"{task} {number}" for number in range(5) for task in ("charge", "acharge"))
    assert sorted(event["tags"]["customer"] for event in events) == expected
    assert all(event["exception"]["values"][-1]["value"] == event["tags"]["customer"] for event in events)
    assert all(event["tags"]["customer"].startswith(f"{event['tags']['headrace.task']} ") for event in events)


def test_without_the_sdk_the_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['sentry_sdk'] = None\n"
        "from headrace import ConfigurationError\n"
        "try: import headrace.sentry\n"
        "except ConfigurationError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout == "headrace.sentry needs sentry-sdk: pip install 'headrace[sentry]'.\n"
