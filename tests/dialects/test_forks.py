"""Workers that dialects bring along: a child that a job's function forks ends where it comes back."""

from __future__ import annotations

import subprocess
import sys

import pytest

from processes import environment

PROGRAM = """
import os, sys
from types import SimpleNamespace

def fork(*_):
    if child := os.fork():
        os.waitpid(child, 0)
    else:
        print("child")

{run}
print("back")
"""
RUNS = {
    "gearmonkey": """
from headrace.dialects.gearmonkey.worker import Loop
from headrace.records import Lease
lease = Lease(ref=1, token=1, id="1", task="f", queue="f", body=b"")
Loop._perform(SimpleNamespace(_works={"f": fork}, _steady=lambda: 0), lease)
""",
    "gearmonkey, strict": """
from headrace.dialects.gearmonkey.strict import StrictLoop
StrictLoop._perform(SimpleNamespace(_works={"f": fork}, _send=lambda *_, **__: b""), "f", "1")
""",
    "hworker": """
from headrace.dialects.hworker.hands import Failure, Hands
Hands(fork, None, Failure)._perform("job")
""",
    "qless": """
from headrace.dialects.qless import running
running.method_of = lambda *_: fork
running.process(SimpleNamespace(jid="1"))
""",
    "qless, async": """
from headrace.dialects.qless import running
async def method(job):
    fork()
running.method_of = lambda *_: method
running.process(SimpleNamespace(jid="1"))
""",
}


@pytest.mark.parametrize("run", RUNS)
def test_a_child_that_comes_back_ends_there(run: str) -> None:
    done = subprocess.run(
        [sys.executable, "-u", "-c", PROGRAM.format(run=RUNS[run])],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.stdout.splitlines() == ["child", "back"], done.stderr
    assert "a child that its task had forked came back from the task, and has been ended" in done.stderr
