"""A zygote and its children end quietly when the worker process is gone."""

from __future__ import annotations

import subprocess
import sys

import pytest

from processes import environment

PROGRAM = """
import os, socket, sys
from headrace import Headrace, current
from headrace.records import Lease
from headrace.worker import zygote

ours, theirs = socket.socketpair()
app = Headrace("sqlite:///:memory:")

@app.task(name="task", isolate=True)
def task():
    if {when!r} != "before it starts":
        theirs.close()
    if {when!r} == "before it speaks":
        current().log("a line")
    if {when!r} == "before it asks":
        current().data
    print("went on", flush=True)

if {when!r} == "unread":
    zygote.send(ours, zygote.Ended(1, 0))
    theirs.close()
    zygote._serve(app, ours)
lease = Lease(ref=1, token=1, id="a", task="task", queue="default", body=task.call().new.body)
zygote.send(theirs, zygote.Request(lease, None))
if {when!r} == "before it starts":
    theirs.close()
zygote._child(app, ours)
"""


@pytest.mark.parametrize(
    ("when", "code", "went_on"),
    [
        ("before it starts", 1, False),
        ("before it speaks", 1, False),
        ("before it asks", 1, False),
        ("before it ends", 1, True),
        ("unread", 0, False),
    ],
)
def test_the_end_of_the_worker_process_is_no_traceback(when: str, code: int, went_on: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(when=when)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (done.returncode, done.stderr, "went on" in done.stdout) == (code, "", went_on)
