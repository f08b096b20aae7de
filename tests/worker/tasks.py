"""The tasks that the worker tests run, in real worker processes: `worker.tasks:app`."""

from __future__ import annotations

import asyncio
import ctypes
import functools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from logging import getLogger
from pathlib import Path
from typing import Any

from headrace import Headrace, MoveTo, Retry, current, inject
from headrace.retry import Backoff
from processes import tell
from worker import behaviours

app = Headrace("sqlite:///:memory:", backoff=Backoff(first=0.01, limit=0.05))


def of_three_kinds(name: str, function: Callable[..., Any], **options: Any) -> tuple[Any, Any, Any]:
    """Tasks that do the same: a plain function, one in a process of its own, and a coroutine function."""

    @functools.wraps(function)
    async def coroutine(*args: Any) -> Any:
        return function(*args)

    plain = app.task(name=name, **options)(function)
    isolated = app.task(name=f"{name}_isolated", isolate=True, **options)(function)
    return plain, isolated, app.task(name=f"{name}_async", **options)(coroutine)


# -- jobs that end well --


@app.task
def nothing(number: int = 0) -> int:
    return number


_meeting = threading.Barrier(4)


@app.task
def meet() -> str:
    """Ends when four of them run at once."""
    _meeting.wait(timeout=15)
    return "met"


gate = threading.Event()


@app.task
def wait_at_the_gate() -> str:
    """Ends when somebody opens the gate."""
    assert gate.wait(timeout=30)
    return "through"


@app.task
def work(number: int, seconds: float = 0.0) -> int:
    """What most tests run: says when it starts and when it ends."""
    tell("start", str(number))
    if seconds:
        time.sleep(seconds)
    tell("end", str(number))
    return number


@app.task
def marked(note: str, seconds: float) -> None:
    """Says what it is when it starts and when it ends."""
    tell("start", note)
    time.sleep(seconds)
    tell("end", note)


@app.task
async def work_async(number: int, seconds: float = 0.0) -> int:
    tell("start", str(number))
    await asyncio.sleep(seconds)
    tell("end", str(number))
    return number


@app.task(isolate=True)
def work_isolated(number: int, seconds: float = 0.0) -> int:
    tell("start", str(number))
    time.sleep(seconds)
    tell("end", str(number))
    return number


@app.task
def wait_for(path: str) -> None:
    """Runs until a file appears: the test decides when."""
    tell("start")
    while not os.path.exists(path):
        time.sleep(0.005)
    tell("end")


@app.task
async def wait_for_async(path: str) -> None:
    tell("start")
    while not os.path.exists(path):
        await asyncio.sleep(0.005)
    tell("end")


@app.task(isolate=True)
def wait_for_isolated(path: str) -> None:
    tell("start")
    while not os.path.exists(path):
        time.sleep(0.005)
    tell("end")


def _log(line: str) -> None:
    getLogger("shop").info(line)


logging = app.task(name="logging")(_log)
logging_isolated = app.task(name="logging_isolated", isolate=True)(_log)


# -- jobs that kill --


@app.task
def killer(how: str, times: int = 1000) -> str:
    """Takes its process with it, so many times."""
    tell("start")
    if current().crashes < times:
        behaviours.die(how)
    tell("end")
    return "survived"


@app.task(isolate=True)
def killer_isolated(how: str, times: int = 1000) -> str:
    tell("start")
    if current().crashes < times:
        behaviours.die(how)
    return "survived"


memory_hog = app.task(name="memory_hog", isolate=True, max_crashes=1)(behaviours.hog_memory)


@app.task
def hold_the_lock(seconds: float) -> None:
    """Sits in C code without letting go of the interpreter."""
    tell("start")
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))
    tell("end")


@app.task(timeout=0.2)
def deaf(seconds: float) -> None:
    """Far past its time-out in a call that can't be interrupted."""
    tell("start")
    time.sleep(seconds)
    tell("end")


@app.task
def large(size: int, path: str) -> str:
    """Returns something large once a file appears."""
    tell("start")
    while not os.path.exists(path):
        time.sleep(0.005)
    return "x" * size


_hoard: list[bytearray] = []


@app.task
def hoard(megabytes: int) -> None:
    """Leaks."""
    _hoard.append(bytearray(b"x") * (megabytes * 1_000_000))


@app.task
def orphan(path: str) -> int:
    """Starts a process and forgets it; it ends when the file appears."""
    code = f"import os, time\nwhile not os.path.exists({path!r}): time.sleep(0.01)"
    starter = f"import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', {code!r}], stdout=2).pid)"
    return int(subprocess.run([sys.executable, "-c", starter], stdout=subprocess.PIPE, check=True).stdout)


# -- jobs that decide their own fate --


@app.task(retries=3)
def retrying(until: int, delay: float | None = None) -> int:
    tell("start")
    run = current()
    if run.attempt <= until:
        raise Retry("not yet", delay=delay, data={"attempt": run.attempt})
    assert run.data == {"attempt": until}
    return run.attempt


@app.task(isolate=True, retries=3)
def retrying_isolated(until: int) -> int:
    run = current()
    if run.attempt <= until:
        raise Retry("not yet", delay=0, data={"attempt": run.attempt})
    assert run.data == {"attempt": until}
    return run.attempt


@app.task(retries=3)
async def retrying_async(until: int) -> int:
    run = current()
    if run.attempt <= until:
        raise Retry("not yet", delay=0, data={"attempt": run.attempt})
    assert run.data == {"attempt": until}
    return run.attempt


snoozing, snoozing_isolated, snoozing_async = of_three_kinds("snoozing", behaviours.snooze)
failing, failing_isolated, failing_async = of_three_kinds("failing", behaviours.fail, retries=5)


def _move_on(word: str) -> str:
    raise MoveTo("second", call=second_stage.call(word, 2), data={"from": word})


first_stage, first_stage_isolated, first_stage_async = of_three_kinds("first_stage", _move_on)


@app.task(queue="second")
def second_stage(word: str, times: int) -> str:
    assert current().data == {"from": word}
    return word * times


raising, raising_isolated, raising_async = of_three_kinds("raising", behaviours.raise_one)


@app.task(retries=2)
def flaky(until: int) -> int:
    if current().attempt <= until:
        raise ValueError(f"attempt {current().attempt}")
    return current().attempt


@app.task(retries=5, fail_on=KeyError)
def choosy(name: str) -> None:
    raise {"key": KeyError("gone"), "value": ValueError("bad")}[name]


@app.task(retries=5, retry_on=ConnectionError)
def picky() -> None:
    raise ValueError("not a connection error")


misbehaving, misbehaving_isolated, misbehaving_async = of_three_kinds("misbehaving", behaviours.misbehave)
spoilt, spoilt_isolated, spoilt_async = of_three_kinds("spoilt", behaviours.spoil)


@app.task(retries=1, retry_on=behaviours.Undecided)
def undecided() -> None:
    raise ValueError("a bad value")


@app.task
def chatty(lines: int) -> None:
    for number in range(lines):
        current().log(f"line {number}")


@app.task
def progressing(done: str) -> None:
    current().progress(float(done))


# -- time-outs, heartbeats, cancellation --


@app.task(timeout=0.1)
def slow() -> None:
    for _ in range(10_000):
        time.sleep(0.001)


@app.task(timeout=0.1)
async def slow_async(seconds: float = 20.0) -> None:
    await asyncio.sleep(seconds)


@app.task(timeout=0.1, isolate=True)
def slow_isolated() -> None:
    time.sleep(20)


@app.task(timeout=0.1, isolate=True)
def stubborn_isolated() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(20)


@app.task(heartbeat=0.1)
def silent() -> None:
    for _ in range(10_000):
        time.sleep(0.001)


@app.task(heartbeat=0.1)
async def silent_async() -> None:
    await asyncio.sleep(20)


@app.task(heartbeat=0.1, isolate=True)
def silent_isolated() -> None:
    time.sleep(20)


@app.task(heartbeat=0.3)
def lively(beats: int) -> int:
    for _ in range(beats):
        time.sleep(0.05)
        current().heartbeat()
    return beats


@app.task(heartbeat=0.4, isolate=True)
def lively_isolated(beats: int) -> int:
    for _ in range(beats):
        time.sleep(0.05)
        current().heartbeat()
    return beats


@app.task
def cancellable() -> None:
    run = current()
    run.progress(0, 1)
    while True:
        time.sleep(0.002)
        run.check()


@app.task
async def cancellable_async() -> None:
    current().progress(0, 1)
    await asyncio.sleep(60)


@app.task(isolate=True)
def cancellable_isolated() -> None:
    current().progress(0, 1)
    time.sleep(60)


@app.task
def polite() -> str:
    """Looks at `cancelled` and returns: what it returns counts."""
    run = current()
    run.progress(0, 1)
    while not run.cancelled:
        time.sleep(0.002)
    return "tidied up"


talking, talking_isolated, talking_async = of_three_kinds("talking", behaviours.talk)


@app.task(retries=1)
def leaves_a_note() -> str:
    run = current()
    if run.attempt == 1:
        run.replace("read me")
        raise ValueError("first time")
    return str(run.data)


@app.task(retries=1, isolate=True)
def leaves_a_note_isolated() -> str:
    run = current()
    if run.attempt == 1:
        run.replace("read me")
        raise ValueError("first time")
    return str(run.data)


# -- what runs leave behind --


@app.task(isolate=True, scratch=True)
def in_scratch(fail: bool = False) -> list[str]:
    found = [os.getcwd(), *os.listdir()]
    Path("litter").write_text("x")
    if fail:
        os._exit(9)
    return found


@app.task(isolate=True)
def with_grandchild(path: str) -> int:
    """Starts a process that outlives it."""
    child = subprocess.Popen([sys.executable, "-c", f"import time; open({path!r}, 'w'); time.sleep(60)"])
    while not os.path.exists(path):
        time.sleep(0.005)
    return child.pid


@app.task
def moves_house(folder: str) -> str:
    os.chdir(folder)
    return os.getcwd()


@app.task(isolate=True)
def rude_isolated() -> int:
    """Changes all it can reach: in its own process only."""
    os.chdir("/")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)
    os.environ["RUDE"] = "1"
    sys.setrecursionlimit(100)
    return os.getpid()


# -- results --


@app.task
def returns(what: str) -> Any:
    return {"lambda": lambda: None, "large": "x" * 2_000_000, "lock": object(), "nothing": None, "number": 2**70}[what]


# -- hooks, middleware, injected values --

events: list[str] = []


@app.on_start
def _start() -> None:
    events.append("start")
    if "HEADRACE_BAD_START" in os.environ:
        raise OSError("the database is down")


@app.on_stop
async def _stop_async() -> None:
    await asyncio.sleep(0)
    events.append("stop, async")


@app.on_stop
def _stop() -> None:
    events.append("stop")


@app.provide("pool")
def _pool() -> Iterator[dict[str, int]]:
    events.append("pool made")
    yield {"size": 5}
    events.append("pool closed")


@app.provide("greeting")
async def _greeting() -> str:
    await asyncio.sleep(0)
    return "hello"


def _use(number: int, pool: dict[str, int]) -> int:
    return number + pool["size"]


@app.task
def injected(number: int, pool: Any = inject("pool"), greeting: Any = inject("greeting")) -> str:
    return f"{greeting} {_use(number, pool)}"


@app.task(isolate=True)
def injected_isolated(number: int, pool: Any = inject("pool"), greeting: Any = inject("greeting")) -> str:
    return f"{greeting} {_use(number, pool)}"


@app.task
async def injected_async(number: int, pool: Any = inject("pool"), greeting: Any = inject("greeting")) -> str:
    return f"{greeting} {_use(number, pool)}"
