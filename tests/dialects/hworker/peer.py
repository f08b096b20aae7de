"""A peer: hworker in raw Redis commands, written from its document, each sentence beside what it became.

Shares no code with headrace. As a program: `python peer.py SOCKET NAME work|monitor LOG [TIMEOUT]`; every job run is a
line in LOG.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import redis

# "When a worker wants to do work, the following happens: now = TIME; MULTI; v = RPOP hworker-jobs-name; if v
#  HSET hworker-progress-name v now; EXEC; v"  ("actually implemented with lua and EVAL")
TAKE = """
local v = redis.call('RPOP', KEYS[1])
if v then
  redis.call('HSET', KEYS[2], v, ARGV[1])
end
return v
"""

# The flaw of released workers: "on an *empty* queue they still write to the progress hash, a field named `false`".
TAKE_AS_RELEASED = """
local v = redis.call('RPOP', KEYS[1])
redis.call('HSET', KEYS[2], tostring(v), ARGV[1])
return v
"""

# "If the job returned Retry, the following occurs: LPUSH hwork-jobs v; HDEL hwork-progress".
# And the specification: "HDEL comes first and guards the rest."
RETRY = """
if redis.call('HDEL', KEYS[2], ARGV[1]) == 1 then
  redis.call('LPUSH', KEYS[1], ARGV[1])
end
"""

# "hworker-failed-queue: a record of the jobs that failed (limited in size based on config)."
FAILURE = """
if redis.call('HDEL', KEYS[2], ARGV[1]) == 1 then
  redis.call('LPUSH', KEYS[4], ARGV[1])
  redis.call('LTRIM', KEYS[4], 0, ARGV[2] - 1)
end
"""

# "hworker-broken-name: a hash of jobs to time that couldn't be deserialized"
BROKEN = """
if redis.call('HDEL', KEYS[2], ARGV[1]) == 1 then
  redis.call('HSET', KEYS[3], ARGV[1], ARGV[2])
end
"""

# "if started < TIME - timeout: MULTI; RPUSH hwork-jobs v; HDEL hwork-progress v; EXEC"
# "the monitor puts jobs on the front of the queue, whereas Retry puts them on the back"
GIVE_BACK = """
local n = redis.call('HDEL', KEYS[2], ARGV[1])
if n == 1 then
  redis.call('RPUSH', KEYS[1], ARGV[1])
end
return n
"""


def stamp(moment: datetime | None = None, digits: int = 12) -> str:
    """A time as peers write it: a JSON string, up to picoseconds."""
    moment = moment or datetime.now(UTC)
    fraction = f"{moment.microsecond:06}000000"[:digits]
    return json.dumps(moment.strftime("%Y-%m-%dT%H:%M:%S") + (f".{fraction}" if digits else "") + "Z")


def read_stamp(text: bytes) -> datetime:
    """A released monitor crashes on a time that it cannot read; so does this one."""
    whole, _, fraction = json.loads(text).removesuffix("Z").partition(".")
    moment = datetime.strptime(whole, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=UTC)
    return moment + timedelta(microseconds=int(fraction.ljust(6, "0")[:6]))


class Peer:
    """One program on one queue. `handler(payload)` answers with "success", "retry" or "failure"."""

    def __init__(
        self,
        client: Any,
        name: str,
        handler: Callable[[Any], str] = lambda _: "success",
        *,
        timeout: float = 120.0,
        failed_size: int = 1000,
        released: bool = False,
    ) -> None:
        self.client = client
        self.handler = handler
        self.timeout = timeout
        self.failed_size = failed_size
        self._take = TAKE_AS_RELEASED if released else TAKE
        # "Under the hood, we will have the following data structures in redis"
        self.keys = [f"hworker-{kind}-{name}" for kind in ("jobs", "progress", "broken", "failed")]
        self.jobs, self.progress, self.broken, self.failed = self.keys

    def _eval(self, script: str, *arguments: Any) -> Any:
        return self.client.eval(script, 4, *self.keys, *arguments)

    def queue(self, payload: Any) -> bytes:
        """`LPUSH jobs raw`: a compact array of a fresh UUID and the payload."""
        raw = json.dumps([str(uuid.uuid4()), payload], separators=(",", ":")).encode()
        self.client.lpush(self.jobs, raw)
        return raw

    def take(self) -> bytes | None:
        return self._eval(self._take, stamp())

    def work_one(self) -> bool:
        """One round of a worker. False: there was nothing."""
        raw = self.take()
        if raw is None:
            return False
        try:
            job_id, payload = json.loads(raw)
            assert isinstance(job_id, str)
        except (ValueError, TypeError, AssertionError):
            self._eval(BROKEN, raw, stamp())
            return True
        self.settle(raw, self.handler(payload))
        return True

    def settle(self, raw: bytes, outcome: str) -> None:
        if outcome == "success":
            # "When it completes the job, it does the following: v = JOB; HDEL hwork-progress v"
            self.client.hdel(self.progress, raw)
        elif outcome == "retry":
            self._eval(RETRY, raw)
        else:
            self._eval(FAILURE, raw, self.failed_size)

    def sweep(self) -> int:
        """ "keys = HKEYS (or HSCAN) hwork-progress; for keys as v: started = HGET hwork-progress v"."""
        now = datetime.now(UTC)
        given_back = 0
        for raw in self.client.hkeys(self.progress):
            started = self.client.hget(self.progress, raw)
            if started is not None and now - read_stamp(started) > timedelta(seconds=self.timeout):
                given_back += self._eval(GIVE_BACK, raw)
        return given_back


def main() -> None:
    socket, name, role, log, *timeout = sys.argv[1:]

    def note(payload: Any) -> str:
        with open(log, "a", encoding="utf-8") as lines:
            lines.write(json.dumps(payload) + "\n")
        return "success"

    peer = Peer(redis.Redis(unix_socket_path=socket), name, note, timeout=float(timeout[0]) if timeout else 120.0)
    while True:
        if role == "work":
            peer.work_one() or time.sleep(0.01)  # "The pause in released peers is 10 ms."
        else:
            peer.sweep()
            time.sleep(peer.timeout / 10)


if __name__ == "__main__":
    main()
