"""No queue at all: what Redis and Python allow. Bare redis-py, one script per call, nothing checked, nothing kept.

A job is JSON in one hash, its place in line is in a sorted set, and another one has what is leased: the least that a
reliable queue with priorities can do. Workers take and acknowledge 100 at a time by one script. Latency is a BLPOP.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from redis import Redis

from bench.peers import witness

REQUIREMENTS: list[str] = []
PACKAGES = ["redis"]
PACE = 70_000
SETTINGS = "one EVALSHA per call; 100 jobs per script for take and acknowledge; BLPOP for latency"

BATCH = 100
FILLER = 70 * "."
KEYS = ("jobs", "ready", "leased")

PUT = """
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
local line, score = {}, tonumber(ARGV[1])
for i = 2, #ARGV, 2 do
  line[i - 1], line[i] = score, ARGV[i]
  score = score + 1
end
redis.call('ZADD', KEYS[2], unpack(line))
"""

EXCHANGE = """
if ARGV[3] then
  redis.call('ZREM', KEYS[3], unpack(ARGV, 3))
  redis.call('HDEL', KEYS[1], unpack(ARGV, 3))
end
local popped = redis.call('ZPOPMIN', KEYS[2], ARGV[1])
if not popped[1] then
  return {}
end
local ids, leases = {}, {}
for i = 1, #popped, 2 do
  ids[#ids + 1] = popped[i]
  leases[i], leases[i + 1] = ARGV[2], popped[i]
end
redis.call('ZADD', KEYS[3], unpack(leases))
return {ids, redis.call('HMGET', KEYS[1], unpack(ids))}
"""

client = Redis.from_url(os.environ["BENCH_URL"], protocol=2)
_put = ""
_number = 0


def prepare() -> None:
    global _put  # noqa: PLW0603
    _put = client.script_load(PUT)


def _job(task: str, argument: Any) -> tuple[str, str]:
    """An id and the job as text: the least that any queue must make of a call, about 180 bytes of it."""
    global _number  # noqa: PLW0603
    _number += 1
    job = {"task": task, "queue": "default", "arguments": [argument], "attempts": 0, "created": 0, "filler": FILLER}
    return f"{_number:032x}", json.dumps(job)


def enqueue(task: str, argument: Any) -> None:
    if task == "stamp":
        client.rpush("wake", argument)
    else:
        client.evalsha(_put, 3, *KEYS, _number, *_job(task, argument))


def enqueue_many(task: str, arguments: list[Any]) -> None:
    """In calls of 100, which is what `../shared/peers.md` calls the ceiling."""
    for first in range(0, len(arguments), BATCH):
        parts: list[Any] = [_number]
        for argument in arguments[first : first + BATCH]:
            parts += _job(task, argument)
        client.evalsha(_put, 3, *KEYS, *parts)


def workers(purpose: str) -> list[list[str]]:
    return [[sys.executable, "-m", "bench.peers.adapters.raw", purpose]] * (2 if purpose in {"drain", "crash"} else 1)


def drain() -> None:
    exchange = client.script_load(EXCHANGE)
    ended: list[str] = []
    while answer := client.evalsha(exchange, 3, *KEYS, BATCH, 0, *ended):
        ended, blobs = answer
        for blob in blobs:
            witness.count(*json.loads(blob)["arguments"])


def listen() -> None:
    while True:
        witness.stamp(client.blpop("wake")[1])


if __name__ == "__main__":
    if sys.argv[1] == "latency":
        listen()
    else:
        drain()
