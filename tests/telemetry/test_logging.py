"""`headrace.logging`: the current job in the lines of any handler, and the recipes of docs/telemetry.md."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.logging import JobFilter, job_fields
from processes import environment

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/telemetry.md").read_text(encoding="utf-8")


class Lines(logging.Handler):
    """Keeps the line that a format makes of each record."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(JobFilter())
        self.setFormatter(logging.Formatter("%(message)s|%(job_id)s|%(task)s|%(attempt)s|%(queue)s"))
        self.kept: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.kept.append(self.format(record).partition("\n")[0])  # without its traceback


@pytest.fixture
def lines() -> Iterator[Lines]:
    handler, root = Lines(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel("INFO")
    yield handler
    root.removeHandler(handler)
    root.setLevel(level)


def test_any_handler_gets_the_job_of_each_line(lines: Lines) -> None:
    app = Headrace("sqlite:///:memory:")

    @app.task(name="charge", queue="money", retries=1)
    def charge() -> None:
        logging.getLogger("a.library").info("inside")
        raise LookupError("none")

    with app.testing() as t:
        job = charge.enqueue()
        t.run_all()
        t.advance("1 day")
        t.run_all(raise_errors=False)
    logging.getLogger("a.library").info("outside")
    first, again, second, failed, outside = lines.kept
    assert first == f"inside|{job.id}|charge|1|money"
    assert again.endswith(f"|{job.id}|charge|1|money")
    assert second == f"inside|{job.id}|charge|2|money"
    assert failed.endswith(f"|{job.id}|charge|2|money")
    assert outside == "outside||||"


def test_a_line_about_another_job_keeps_what_it_says(lines: Lines) -> None:
    app = Headrace("sqlite:///:memory:")

    @app.task(name="watch")
    def watch() -> None:
        logging.getLogger("shop").info("late", extra={"job_id": "another"})
        logging.getLogger("shop").info("full", extra={"queue": "mine"})

    with app.testing() as t:
        job = watch.enqueue()
        t.run_all()
    assert lines.kept == ["late|another|||", f"full|{job.id}|watch|1|mine"]


def test_no_job_runs_where_headrace_was_not_imported_and_the_filter_imports_nothing() -> None:
    program = (
        "import logging, sys\n"
        "from headrace.logging import JobFilter\n"
        "record = logging.makeLogRecord({})\n"
        "assert JobFilter().filter(record) and record.job_id == record.attempt == ''\n"
        "print(*sorted(name for name in sys.modules if name.startswith('headrace')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["headrace", "headrace.errors", "headrace.logging"]
    assert job_fields() == {}


# -- recipes --


def test_the_recipe_for_structlog_names_the_job_in_every_line(tmp_path: Path) -> None:
    pytest.importorskip("structlog", reason="structlog is not installed")
    (recipe,) = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "import structlog" in block]
    (tmp_path / "shop.py").write_text(recipe, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "shop.py"], cwd=tmp_path, env=environment(), capture_output=True, text=True, check=True
    )
    charging, failed = map(json.loads, done.stderr.splitlines())
    assert (charging["event"], charging["order"], charging["level"]) == ("charging", 7, "info")
    assert failed["event"].endswith("failed: LookupError: no such order")
    assert (failed["happening"], failed["level"]) == ("job_failed", "error")
    assert "raise LookupError" in failed["exception"]
    fields = {"job_id", "task", "attempt", "queue"}
    assert {name: charging[name] for name in fields} == {name: failed[name] for name in fields}
    assert (charging["attempt"], charging["queue"]) == (1, "default")
