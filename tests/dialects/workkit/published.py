"""A WorkKit inserter and listener written from the published document alone: the two algorithms, step by step.

Run as programs of their own; nothing of headrace is imported. Of cron they know what the tests use: numbers and `*`.

    python published.py insert SOCKET SCHEDULE CRON JOB [ARGUMENT-AS-JSON…]
    python published.py listen SOCKET SCHEDULE WITNESS [crash-after-pop | crash-in-run]
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

import redis


def next_run(cron: str, start: datetime) -> datetime | None:
    """The first second from `start` on that fits. Looks at a minute's worth of seconds: enough for these tests."""
    fields = cron.split()
    moment = start.replace(microsecond=0)
    if all(field.isdigit() for field in fields[:3] + fields[4:]):
        year, month, day, _, hour, minute, second = fields
        once = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second), tzinfo=UTC)
        return once if once >= moment else None
    for _ in range(62):
        values = (
            moment.year,
            moment.month,
            moment.day,
            moment.isoweekday() % 7,
            moment.hour,
            moment.minute,
            moment.second,
        )
        if all(field in ("*", str(value)) for field, value in zip(fields, values, strict=True)):
            return moment
        moment += timedelta(seconds=1)
    return None


def milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def insert(client: redis.Redis, schedule: str, cron: str, job: str, args: list[object]) -> str:
    # 1. First generate the JSON payload for the job, then run a SHA1 digest on that string to get the job ID.
    payload = json.dumps({"args": args, "cron": cron, "job": job}, sort_keys=True, separators=(",", ":"))
    payload = payload.replace("/", "\\/")
    job_id = hashlib.sha1(payload.encode()).hexdigest()
    # 2. Try to insert the JSON payload into the "S:jobs" hash. 3. If 0 values were added, stop, without error.
    if not client.hsetnx(f"{schedule}:jobs", job_id, payload):
        return job_id
    # 4. Calculate the next time the job should run. 5. Add the job ID to the "S:next" sorted set.
    when = next_run(cron, datetime.now(UTC))
    assert when is not None
    client.zadd(f"{schedule}:next", {json.dumps({"id": job_id}, separators=(",", ":")): milliseconds(when)})
    return job_id


class Listener:
    """`crash` names the step after which it dies of kill -9."""

    def __init__(self, client: redis.Redis, schedule: str, witness: str, crash: str = "") -> None:
        self.client, self.schedule, self.witness, self.crash = client, schedule, witness, crash

    def listen(self) -> None:
        while True:
            if not self.process():
                time.sleep(0.01)

    def process(self) -> bool:
        # 1. Read the first value from the "S:next" queue and remove it from the set, atomically.
        with self.client.pipeline(transaction=True) as pipe:
            pipe.zrange(f"{self.schedule}:next", 0, 0, withscores=True)
            pipe.zremrangebyrank(f"{self.schedule}:next", 0, 0)
            first, _ = pipe.execute()
        if not first:
            return False
        ((member, score),) = first
        if self.crash == "crash-after-pop":
            os.kill(os.getpid(), 9)
        now = milliseconds(datetime.now(UTC))
        # 2. and 3. If the score is later than the current time, return the job with the same score, then stop.
        if score > now:
            self.client.zadd(f"{self.schedule}:next", {member: score})
            return False
        # 4. Read the job payload from "S:jobs".
        job_id = json.loads(member)["id"]
        text = self.client.hget(f"{self.schedule}:jobs", job_id)
        if text is None:
            return True
        payload = json.loads(text)
        # 5. Calculate the next time, and place it back on the queue, if it should run again.
        again = next_run(payload["cron"], datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1))
        if again is not None:
            self.client.zadd(f"{self.schedule}:next", {member: milliseconds(again)})
        threading.Thread(target=self.run, args=(job_id, payload, again is not None)).start()
        return True

    def run(self, job_id: str, payload: dict[str, object], again: bool) -> None:
        # 6. Evaluate "job" and "args", catching any exceptions. 7. If it does not need to run again, remove its entry.
        self.tell("begin", job_id)
        if self.crash == "crash-in-run":
            os.kill(os.getpid(), 9)
        time.sleep(0.02)
        self.tell("end", job_id)
        if not again:
            self.client.hdel(f"{self.schedule}:jobs", job_id)

    def tell(self, what: str, job_id: str) -> None:
        line = f"{what}\t{job_id}\tpublished-{os.getpid()}\t{time.monotonic()}\n"
        with open(self.witness, "ab", buffering=0) as witness:
            witness.write(line.encode())


if __name__ == "__main__":
    act, socket, schedule, *rest = sys.argv[1:]
    client = redis.Redis(unix_socket_path=socket, protocol=2)
    if act == "insert":
        cron, job, *args = rest
        print(insert(client, schedule, cron, job, [json.loads(argument) for argument in args]))
    else:
        Listener(client, schedule, *rest).listen()
