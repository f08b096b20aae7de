"""What tasks do in more than one kind of executor, as plain functions."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
from typing import Any

from headrace import Fail, Job, MoveTo, Snooze, State, WaitFor, current
from headrace.signals import Signal


def snooze() -> int:
    run = current()
    count = (run.data or 0) + 1
    if count <= 3:
        raise Snooze(0.001, data=count)
    return run.attempt


def fail(group: str, message: str) -> None:
    raise Fail(group, message, data={"clue": 7})


class Awkward(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def raise_one(what: str) -> None:
    raise {
        "value": ValueError("a bad value"),
        "awkward": Awkward(),
        "exit": SystemExit(3),
        "interrupt": KeyboardInterrupt(),
        "base": BaseException("bottom"),
        "surrogate": ValueError("lone \udc80"),
        "long": ValueError("x" * 100_000),
    }[what]


# -- jobs that say what they should not --


def misbehave(how: str) -> None:
    name = "caf\udce9.txt"  # what os.listdir() makes of a name that is not UTF-8
    if how == "log":
        current().log(name)
    elif how == "group":
        raise Fail(name)
    elif how == "long group":
        raise Fail("x" * 100_000)
    elif how == "wait":
        raise WaitFor(name)


class Wayward(Signal):
    """A signal that nobody knows what to do about."""

    def __init__(self) -> None:
        pass

    @property
    def data(self) -> Any:
        raise RuntimeError("no data")


def spoil(wish: str) -> None:
    spoilt: Any = Wayward()
    if wish == "group":
        spoilt = Fail("fine")
        spoilt.group = 404
    elif wish == "call":
        spoilt = MoveTo("second")
        spoilt.call = 5
    elif "queue" in wish:
        spoilt = MoveTo("second")
        spoilt.queue = 5 if wish == "no queue" else "caf\udce9"
    elif wish == "delay":
        spoilt = Snooze(1)
        spoilt.delay = object()
    elif wish == "data":
        spoilt = Fail("fine", data=object())
    raise spoilt


# -- what a run says and sees --


def talk() -> dict[str, Any]:
    run = current()
    run.progress(1, 4)
    run.update({"page": 1})
    run.log("half-way")
    run.heartbeat()
    assert isinstance(run.job, Job)
    assert run.job.state is State.RUNNING
    return {
        "id": run.job.id,
        "attempt": run.attempt,
        "token": run.token,
        "cancelled": run.cancelled,
        "queue": run.queue,
    }


class _Undecided(type):
    def __instancecheck__(cls, instance: object) -> bool:
        raise RuntimeError("neither yes nor no")


class Undecided(Exception, metaclass=_Undecided):
    pass


def die(how: str) -> None:
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "segfault":
        ctypes.string_at(0)
    elif how == "realtime":
        os.kill(os.getpid(), 40)
    elif how == "abort":
        os.abort()
    else:
        os._exit(int(how))


def hog_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (600_000_000, 600_000_000))
    hoard = []
    try:
        while True:
            hoard.append(bytearray(50_000_000))
    except MemoryError:
        os.kill(os.getpid(), signal.SIGKILL)  # what the kernel's OOM killer does
