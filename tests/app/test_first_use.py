"""The first use of a store imports nothing: that was done when the app was made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from processes import environment
from store.postgres import servers as postgres_servers
from store.redis import servers as redis_servers

PROGRAM = """
import asyncio, sys
from headrace import Headrace

app = Headrace({url!r})

@app.task(name="task")
def task() -> None: ...

async def enqueue():
    before = set(sys.modules)
    await task.aenqueue()
    return before

before = set(sys.modules)
if {mode!r} == "aenqueue":
    before = asyncio.run(enqueue())
else:
    task.enqueue()
print(*sorted(set(sys.modules) - before - {{"concurrent.futures.thread"}}))
app.close()
"""


@pytest.mark.parametrize("mode", ["enqueue", "aenqueue"])
@pytest.mark.parametrize("store", ["sqlite", "redis", "postgres"])
def test_the_first_call_imports_nothing(store: str, mode: str, tmp_path: Path) -> None:
    if store == "postgres" and not postgres_servers.INSTALLED:
        pytest.skip("there is no PostgreSQL")
    urls = {
        "sqlite": lambda: f"sqlite:///{tmp_path}/jobs.db",
        "redis": redis_servers.fresh_url,
        "postgres": postgres_servers.fresh_url,
    }
    program = PROGRAM.format(url=urls[store](), mode=mode)
    found = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, check=True, timeout=30
    )
    assert found.stdout.split() == []
