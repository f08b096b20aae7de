"""A client and a worker written from the GearMonkey document alone, with raw Redis commands; nothing of headrace.

Each step has the document's sentence beside it. `python peer.py SOCKET DATABASE work FN [FN...]` runs the worker.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import redis

SCRIPT = (
    "local item = redis.call('ZRANGEBYSCORE', KEYS[1], 0, ARGV[1], 'LIMIT', 0, 1); if (#item > 0) then "
    "redis.call('ZREM', KEYS[1], item[1]); return { KEYS[1],  item[1] }; end"
)
SHA = "5231827cd49b540660ef44969b38cc858f157824"

Raw = Callable[..., Any]


def connect(socket: str, database: int) -> Raw:
    """Nothing but commands and what the server answers, as text."""
    client = redis.Redis(unix_socket_path=socket, db=database, protocol=2, decode_responses=True)
    client.response_callbacks.clear()
    return client.execute_command


class PeerClient:
    """`Client.run` and `Client.get`."""

    def __init__(self, command: Raw) -> None:
        self.command = command

    def run(
        self,
        fn: str,
        given: str,
        prio: str = "normal",
        *,
        blocking: bool = False,
        rollcall: bool = False,
        timeout: int = 0,
        scheduled: int = 0,
    ) -> str:
        command = self.command
        if rollcall:
            # "(OPT_ROLLCALL only) Count registered workers. Raise an error when the result does not >= 1"
            count = command("GET", f"count:{fn}")
            if count is None or not count.lstrip("-").isdecimal() or int(count) < 1:
                raise LookupError("no workers")
        # "Generate a job ID"
        number = str(command("INCR", f"uid:{fn}"))
        # "Insert the job into a Redis hashmap."
        command("HMSET", f"job:{fn}:{number}", "status", "idle", "input", given)
        # "Publish a created event to the channel."
        command("PUBLISH", f"channel:{fn}", f"create:{number}")
        # "Insert the job ID into the queue."
        if prio == "scheduled":
            command("ZADD", f"queue:{fn}:{prio}", scheduled, number)
        else:
            command("LPUSH", f"queue:{fn}:{prio}", number)
        # "(OPT_BLOCKING only) Run a blocking Pop call on a custom list."
        if blocking and command("BRPOP", f"lock:{fn}:{number}", timeout) is None:
            raise TimeoutError(number)
        return number

    def get(self, fn: str, number: str | int) -> dict[str, str]:
        # "Client.get will always return the full job hash"
        flat = self.command("HGETALL", f"job:{fn}:{number}")
        return flat if isinstance(flat, dict) else dict(zip(flat[::2], flat[1::2], strict=True))


class PeerWorker:
    """`Worker.accept`, `Worker.work`, `Worker.update`."""

    def __init__(self, command: Raw, work: Callable[[str, str, PeerWorker], str]) -> None:
        self.command = command
        self.work = work
        self.functions: list[str] = []
        self.job = ""

    def accept(self, fn: str) -> None:
        # "must accept multiple calls to Worker.accept"
        self.functions.append(fn)

    def start(self) -> None:
        # "NOTE: Always check if the sha1 hash matches SCRIPT LOAD's output value."
        assert self.command("SCRIPT", "LOAD", SCRIPT) == SHA == hashlib.sha1(SCRIPT.encode()).hexdigest()
        for fn in self.functions:
            # "INCR count:{FN}"
            self.command("INCR", f"count:{fn}")

    def stop(self) -> None:
        for fn in self.functions:
            # "On worker exit: DECR count:{FN}"
            self.command("DECR", f"count:{fn}")

    def take(self) -> tuple[str, str] | None:
        """Once around the main loop."""
        for fn in self.functions:
            # "Run these in an endless loop; only run BRPOP if EVALSHA returns a nil value."
            due = self.command("EVALSHA", SHA, 1, f"queue:{fn}:scheduled", int(time.time()))
            if due:
                return fn, due[1]
            popped = self.command("BRPOP", f"queue:{fn}:high", f"queue:{fn}:normal", f"queue:{fn}:low", 1)
            if popped:
                return fn, popped[1]
        return None

    def begin(self, fn: str, number: str) -> str:
        self.job = f"job:{fn}:{number}"
        # "Publish a 'start' event"
        self.command("PUBLISH", f"channel:{fn}", f"start:{number}")
        # "Update the job status"
        self.command("HMSET", self.job, "status", "busy")
        return str(self.command("HGET", self.job, "input"))

    def update(self, dividend: int, divisor: int) -> None:
        # "Sending intermediate status updates"
        self.command("HMSET", self.job, "status:dividend", dividend, "status:divisor", divisor)

    def complete(self, fn: str, number: str, status: str, output: str) -> None:
        for step in self.completing(fn, number, status, output):
            self.command(*step)

    @staticmethod
    def completing(fn: str, number: str, status: str, output: str) -> Iterator[tuple[Any, ...]]:
        # "Update the job hash"
        yield "HMSET", f"job:{fn}:{number}", "status", status, "output", output
        # "Set the hash to expire in 25 hours"
        yield "EXPIRE", f"job:{fn}:{number}", 90000
        # "Publish a 'finish' event"
        yield "PUBLISH", f"channel:{fn}", f"finish:{number}"
        # "Push to the lock list (to finish any blocking calls) with an expire of 10 seconds"
        yield "LPUSH", f"lock:{fn}:{number}", "OK"
        yield "EXPIRE", f"lock:{fn}:{number}", 10

    def step(self) -> bool:
        """Take one job, if there is one, and do it."""
        taken = self.take()
        if taken is None:
            return False
        fn, number = taken
        given = self.begin(fn, number)
        try:
            # "This custom function must return a value on success, or raise an error"
            status, output = "success", self.work(fn, given, self)
        except Exception as error:
            status, output = "error", str(error)
        self.complete(fn, number, status, output)
        return True


def shout(_: str, given: str, worker: PeerWorker) -> str:
    """What the peer does for a living."""
    if given.startswith("fail"):
        raise ValueError(f"cannot {given}")
    worker.update(1, 2)
    return given.upper()


if __name__ == "__main__":
    socket, database, _, *functions = sys.argv[1:]
    peer = PeerWorker(connect(socket, int(database)), shout)
    for name in functions:
        peer.accept(name)
    peer.start()
    while True:
        peer.step()
