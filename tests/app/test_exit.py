"""A program that ends without `app.close()` ends without a warning."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from processes import environment
from store.postgres import servers as postgres_servers
from store.redis import servers as redis_servers

PROGRAM = """
from headrace import Headrace

app = Headrace({url!r})

@app.task(name="task")
def task() -> None: ...

{act}
"""
ACTS = {
    "enqueue": "task.enqueue()",
    "work": "job = task.enqueue(); app.worker().run_until_empty(); job.result()",
    "wait": "with app.worker(): task.enqueue().result(timeout=20)",
    "async": "import asyncio; asyncio.run(task.aenqueue(), debug=False)",
    "listen": "events = app.events(); task.enqueue(); next(events)",
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("store", ["sqlite", "redis", "postgres"])
def test_a_program_that_does_not_close_its_app_gets_no_warning(store: str, act: str, tmp_path: Path) -> None:
    if store == "postgres" and not postgres_servers.INSTALLED:
        pytest.skip("there is no PostgreSQL")
    urls = {
        "sqlite": lambda: f"sqlite:///{tmp_path}/jobs.db",
        "redis": redis_servers.fresh_url,
        "postgres": postgres_servers.fresh_url,
    }
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", PROGRAM.format(url=urls[store](), act=ACTS[act])],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
