"""A client called from a signal handler, in the middle of another call of the same client: both calls work."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from processes import environment
from store.redis.servers import Server

from .bedrock.harness import process as bedrock_process

PROGRAM = Path(__file__).parent / "interrupted.py"
PATIENCE = 60.0
"""Seconds after which a program hangs."""


@pytest.fixture
def place(kind: str, tmp_path: Path) -> Iterator[str]:
    """Where an empty server is."""
    with ExitStack() as stack:
        if kind == "bedrock":
            yield f"127.0.0.1:{stack.enter_context(bedrock_process(tmp_path / 'jobs.db')).port}"
        else:
            yield stack.enter_context(closing(Server())).url


@pytest.mark.parametrize("kind", ["bedrock", "gearmonkey", "hworker", "qless", "workkit"])
def test_a_client_may_be_called_from_a_signal_handler(kind: str, place: str) -> None:
    command = [sys.executable, str(PROGRAM), kind, place]
    done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, text=True, timeout=PATIENCE, check=True)
    told = json.loads(done.stdout)
    assert told["handled"] == told["plain"] - 1 > 50, "a signal for each line, and one call without"
    assert told["jobs"] == told["plain"] + told["handled"]
