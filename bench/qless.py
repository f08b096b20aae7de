"""How fast the Qless script and its client are, beside bare scripts that issue the same Redis commands without checks.

    PYTHONPATH=src:tests python -m bench.qless [--quick]

What is pipelined keeps the server busy all the time, so its rate is one over the processor time that the server spends:
that is what is measured, in short rounds taken in turn. Shares are the median over the rounds, each of ours with the
bare one beside it, so that a busy machine does not decide. Starts its own server.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import redis

from bench.tools import Report
from headrace.dialects.qless import Client, script
from store.redis.servers import Server

QUICK = "--quick" in sys.argv
ROUNDS = 12 if QUICK else 40
BATCH = 100
JOBS = 1_000
"""Per round."""
MANY = 100_000 if QUICK else 1_000_000

# The bare scripts: the same commands with the same kinds of arguments (a score that has to be computed is a number, not
# a text that is there already; a key that is made of arguments is), but nothing is read from a reply, nothing decided,
# nothing refused.
PUT = """
local key, queue, now = 'ql:j:' .. ARGV[5], ARGV[4], tonumber(ARGV[2])
redis.call('HMGET', key, 'jid', 'state', 'queue', 'worker', 'priority', 'retries', 'tags', 'failure', 'history')
redis.call('HMSET', key, 'jid', ARGV[5], 'klass', ARGV[6], 'data', ARGV[7], 'priority', '0', 'tags', '{}',
  'state', 'waiting', 'worker', '', 'expires', '0', 'queue', queue, 'retries', '5', 'remaining', '5',
  'time', '1384387200.25000000000000000000')
redis.call('PUBLISH', 'ql:log', '{"jid":"' .. ARGV[5] .. '","event":"put","queue":"q"}')
redis.call('RPUSH', key .. '-history', '[1384387200,"put",{"q":"q"}]')
redis.call('ZADD', 'ql:q:' .. queue .. '-work', 0 - now / 10000000000, ARGV[5])
redis.call('ZADD', 'ql:queues', 'NX', now, queue)
redis.call('ZSCORE', 'ql:tracked', ARGV[5])
return ARGV[5]
"""

POP = """
local call, prefix, now = redis.call, 'ql:q:' .. ARGV[3], tonumber(ARGV[2])
call('SISMEMBER', 'ql:paused_queues', ARGV[3])
call('ZADD', 'ql:workers', now, ARGV[4])
call('HMGET', 'ql:config', 'q-max-concurrency', 'q-heartbeat', 'heartbeat-q', 'heartbeat', 'grace-period',
  'max-job-history')
call('ZRANGEBYSCORE', prefix .. '-locks', '-inf', now, 'LIMIT', 0, ARGV[5])
call('ZRANGEBYSCORE', prefix .. '-recur', 0, now, 'WITHSCORES', 'LIMIT', 0, ARGV[5])
call('ZRANGEBYSCORE', prefix .. '-scheduled', 0, now, 'LIMIT', 0, ARGV[5])
local jids = call('ZREVRANGE', prefix .. '-work', 0, ARGV[5] - 1)
local jobs, scores = {}, {}
for i, jid in ipairs(jids) do
  jobs[i] = call('HMGET', 'ql:j:' .. jid, 'jid', 'klass', 'state', 'queue', 'worker', 'priority', 'expires',
    'retries', 'remaining', 'data', 'tags', 'failure', 'spawned_from_jid', 'history', 'time')
end
call('ZCARD', 'ql:tracked')
for i, jid in ipairs(jids) do
  local key = 'ql:j:' .. jid
  call('HMSET', key, 'worker', ARGV[4], 'expires', '1384387270.5', 'state', 'running',
    'time', '1384387200.25000000000000000000')
  call('RPUSH', key .. '-history', '[1384387200,"popped",{"worker":"w"}]')
  scores[2 * i - 1], scores[2 * i] = '1384387270.5', jid
end
call('ZADD', 'ql:w:' .. ARGV[4] .. ':jobs', unpack(scores))
call('ZADD', prefix .. '-locks', unpack(scores))
call('ZREM', prefix .. '-work', unpack(jids))
call('HMGET', 'ql:s:wait:1384387200:q', 'total', 'mean', 'vk')
call('HMSET', 'ql:s:wait:1384387200:q', 'total', 1, 'mean', now / 7, 'vk', now / 3)
call('HINCRBY', 'ql:s:wait:1384387200:q', 's1', 1)
local reply = {}
for i, jid in ipairs(jids) do
  local key, job = 'ql:j:' .. jid, jobs[i]
  -- The reply is JSON: without it the two would not do the same.
  reply[i] = {jid = job[1], klass = job[2], state = 'running', queue = job[4], worker = ARGV[4], tracked = false,
    priority = 0, expires = 1384387270.5, retries = 5, remaining = 5, data = job[10], tags = {}, failure = {},
    spawned_from_jid = false, history = call('LRANGE', key .. '-history', 0, -1),
    dependents = call('SMEMBERS', key .. '-dependents'), dependencies = call('SMEMBERS', key .. '-dependencies')}
end
return cjson.encode(reply)
"""

COMPLETE = """
local call, jid, worker, queue, now = redis.call, ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[2])
local key = 'ql:j:' .. jid
call('HMGET', key, 'state', 'worker', 'queue', 'priority', 'retries', 'time', 'history', 'grace')
call('HMGET', 'ql:config', 'max-job-history', 'jobs-history', 'jobs-history-count')
call('HMSET', key, 'data', ARGV[6], 'state', 'complete', 'worker', '', 'failure', '{}', 'queue', '', 'expires', '0',
  'remaining', '5', 'time', '1384387200.25000000000000000000')
call('RPUSH', key .. '-history', '[1384387200,"done"]')
call('ZREM', 'ql:q:' .. queue .. '-locks', jid)
call('ZREM', 'ql:w:' .. worker .. ':jobs', jid)
call('HMGET', 'ql:s:run:1384387200:q', 'total', 'mean', 'vk')
call('HMSET', 'ql:s:run:1384387200:q', 'total', 1, 'mean', now / 7, 'vk', now / 3)
call('HINCRBY', 'ql:s:run:1384387200:q', 's1', 1)
call('ZSCORE', 'ql:tracked', jid)
call('PUBLISH', 'ql:log', '{"jid":"' .. jid .. '","event":"completed","queue":"q"}')
call('ZADD', 'ql:completed', now, jid)
call('ZRANGEBYSCORE', 'ql:completed', 0, now - 604800, 'LIMIT', 0, 1000)
call('ZCARD', 'ql:completed')
call('SMEMBERS', key .. '-dependents')
return 'complete'
"""

DATA = '{"to": "ada@example.org", "subject": "hello"}'
NOW = 1384387200.25


class Pipeline:
    """Sends many requests at once and tells what they cost the server: microseconds of processor time each."""

    def __init__(self, server: Server) -> None:
        self.client = server.client()
        self.connection = redis.UnixDomainSocketConnection(path=server.socket)
        self.connection.connect()

    def _spent(self) -> float:
        used = self.client.info("cpu")
        return float(used["used_cpu_user"] + used["used_cpu_sys"])

    def cost(self, requests: Sequence[tuple[Any, ...]]) -> float:
        packed = self.connection.pack_commands(requests)
        before = self._spent()
        self.connection.send_packed_command(packed)
        for _ in requests:
            self.connection.read_response()
        return (self._spent() - before) / len(requests) * 1e6


def pipelined(pipeline: Pipeline, report: Report) -> None:
    """put, pop and complete beside the bare scripts."""
    client = pipeline.client
    ours = client.script_load(script())
    bare = {"put": client.script_load(PUT), "pop": client.script_load(POP), "complete": client.script_load(COMPLETE)}
    costs: dict[tuple[str, str], list[float]] = {}
    for _ in range(ROUNDS):
        for kind in ("ours", "bare"):
            for command, cost in _round(pipeline, ours, bare if kind == "bare" else {}).items():
                costs.setdefault((command, kind), []).append(cost)
    for command in ("put", "pop", "complete"):
        jobs = BATCH if command == "pop" else 1
        words = f"{command}, pipelined" + (f", {BATCH} jobs at once" if jobs > 1 else "")
        report.add(words, 1e6 * jobs / min(costs[command, "ours"]), "jobs/s")
        share = median(
            bare_cost / our_cost
            for our_cost, bare_cost in zip(costs[command, "ours"], costs[command, "bare"], strict=True)
        )
        report.add(f"{words}: share of a bare script's rate", share, "%", 0.70)


def _round(pipeline: Pipeline, ours: str, bare: dict[str, str]) -> dict[str, float]:
    client = pipeline.client
    client.flushdb()
    # Queue, statistics and history are there already, as they are on every call but a day's first.
    for command in (("put", NOW, "w", "q", "first", "K", DATA, 0), ("pop", NOW, "q", "w", 1)):
        client.evalsha(ours, 0, *command)
    client.evalsha(ours, 0, "complete", NOW, "first", "w", "q", DATA)
    jids = [f"{i:032x}" for i in range(JOBS)]

    def call(command: str, *arguments: object) -> tuple[Any, ...]:
        return ("EVALSHA", bare.get(command, ours), 0, command, *arguments)

    costs = {
        "put": pipeline.cost([call("put", NOW + i / 1000, "w", "q", jid, "K", DATA, 0) for i, jid in enumerate(jids)]),
        "pop": pipeline.cost([call("pop", NOW + 20, "q", "w", BATCH)] * (JOBS // BATCH)),
        "complete": pipeline.cost([call("complete", NOW + 21, jid, "w", "q", DATA) for jid in jids]),
    }
    assert client.zcard("ql:completed") == JOBS + 1
    return costs


def ordinary(server: Server, report: Report) -> None:
    """The Python API beside bare round trips of redis-py, by the clock."""
    raw = server.client()
    sha = raw.script_load(script())
    client = Client(server.url)
    queue = client.queues["q"]

    def put_bare(i: int) -> None:
        options = ("priority", 0, "tags", "[]", "retries", 5, "depends", "[]")
        raw.evalsha(sha, 0, "put", repr(time.time()), "w", "q", f"{i:032x}", "K", DATA, 0, *options)

    def put_ours(_: int) -> None:
        queue.put("K", {"to": "ada@example.org", "subject": "hello"})

    def pop_bare(_: int) -> None:
        raw.evalsha(sha, 0, "pop", repr(time.time()), "q", "w", 1)

    def pop_ours(_: int) -> None:
        queue.pop()

    acts = {"put bare": put_bare, "pop bare": pop_bare, "put ours": put_ours, "pop ours": pop_ours}
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        raw.flushdb()
        for name, act in acts.items():
            best[name] = max(_rate(act, JOBS // 5), best.get(name, 0))
    for name in ("put", "pop"):
        report.add(f"queue.{name}()", best[f"{name} ours"], "jobs/s")
        share = best[f"{name} ours"] / best[f"{name} bare"]
        report.add(f"queue.{name}(): share of bare EVALSHA round trips", share, "%", 0.80)
    client.close()


def _rate(act: Callable[[int], object], number: int) -> float:
    began = time.perf_counter()
    for i in range(number):
        act(i)
    return number / (time.perf_counter() - began)


def growth(pipeline: Pipeline, report: Report) -> None:
    """What queues, pop and put cost with few and with many jobs waiting."""
    sha = pipeline.client.script_load(script())
    pipeline.client.flushdb()
    filled = 0
    costs: dict[str, list[float]] = {"put": [], "pop": [], "queues": []}
    for waiting in (1_000, MANY):
        while filled < waiting:
            more = range(filled, min(filled + 10_000, waiting))
            pipeline.cost([("EVALSHA", sha, 0, "put", i, "w", "q", f"j{i}", "K", DATA, 0) for i in more])
            filled = more.stop
        best: dict[str, float] = {}
        for turn in range(ROUNDS):
            puts = [
                ("EVALSHA", sha, 0, "put", 2e6, "w", "q", f"{waiting}-{turn}-{i}", "K", DATA, 0) for i in range(200)
            ]
            pops = [("EVALSHA", sha, 0, "pop", 2e6, "q", "w", 1)] * 200
            looks = [("EVALSHA", sha, 0, "queues", 2e6, "q")] * 200
            for name, requests in (("put", puts), ("pop", pops), ("queues", looks)):
                best[name] = min(pipeline.cost(requests), best.get(name, 1e9))
        for name, cost in best.items():
            costs[name].append(cost)
    for name, (few, many) in costs.items():
        report.add(f"{name} with 1,000 waiting", few, "µs")
        # Allows for a deeper zset and colder caches; what grows with the number would be a hundredfold and more.
        report.add(f"{name} with {MANY:,} waiting, times that", many / few, "times", 2.0, at_most=True)


def main() -> int:
    server = Server()
    report = Report(f"Qless on Redis {server.client().info('server')['redis_version']}")
    try:
        pipeline = Pipeline(server)
        pipelined(pipeline, report)
        ordinary(server, report)
        growth(pipeline, report)
    finally:
        server.close()
    return report.show()


if __name__ == "__main__":
    sys.exit(main())
