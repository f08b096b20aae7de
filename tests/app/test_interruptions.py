"""Enqueueing from a signal handler: it works, or it is refused at once in words, whatever it interrupts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dialects.bedrock.harness import process as bedrock_process
from processes import environment
from store.redis import servers

PROGRAM = Path(__file__).parent / "interrupted.py"
PATIENCE = 60.0
"""Seconds after which a program hangs."""


def play(url: str, rounds: int = 400) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), url, str(rounds)],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def check(told: dict[str, Any], rounds: int = 400) -> None:
    assert told["plain"] == 11 * rounds
    assert told["handled"] > 0
    assert told["missing"] == []
    assert told["twice"] == 0
    assert told["slowest"] < 5.0  # a handler that waited for its own transaction would take ten
    assert all("this very thread, which this code interrupts" in words for words in told["refused"])


@pytest.mark.parametrize("path", ["{}/jobs.db", ":memory:"], ids=["file", "memory"])
def test_on_sqlite(path: str, tmp_path: Path) -> None:
    told = play(f"sqlite:///{path.format(tmp_path)}")
    check(told)
    assert told["refusals"] > 0


def test_on_redis() -> None:
    check(play(servers.fresh_url()))


def test_on_bedrock(tmp_path: Path) -> None:
    with bedrock_process(tmp_path / "jobs.db") as server:
        check(play(f"bedrock://127.0.0.1:{server.port}", 50), 50)


@pytest.mark.parametrize("dialect", ["qless+{}", "gearmonkey+{}", "workkit+{}?schedule=shop", "hworker+{}?name=shop"])
def test_on_the_dialects_of_redis(dialect: str) -> None:
    server = servers.Server()
    try:
        check(play(dialect.format(server.url)))
    finally:
        server.close()
