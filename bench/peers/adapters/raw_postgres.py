"""No queue at all: what PostgreSQL and psycopg allow. Bare statements, nothing checked.

A job is a row of one table: a number, a state and its text. Workers settle their last batch and take the next, 500 at a
time, in one pipelined transaction; as in headrace, jobs that are done stay. Latency is a NOTIFY with the INSERT.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import psycopg

from bench.peers import witness

REQUIREMENTS: list[str] = []
PACKAGES = ["psycopg"]
SERVICE = "postgres"
PACE = 25_000
SETTINGS = "one prepared INSERT per call; 500 jobs per transaction for settle and take; LISTEN and NOTIFY for latency"

BATCH = 500
CREATE = """
CREATE TABLE job (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, state integer NOT NULL DEFAULT 0, body text);
CREATE INDEX ready ON job (number) WHERE state = 0;
"""
PUT = "INSERT INTO job (body) VALUES (%s)"
PUT_MANY = "INSERT INTO job (body) SELECT unnest(%s::text[])"
PUT_AND_WAKE = "WITH put AS (INSERT INTO job (body) VALUES (%s)) SELECT pg_notify('wake', %s)"
LISTENERS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query = 'LISTEN wake'"
SETTLE = "UPDATE job SET state = 2 WHERE number = ANY (%s)"
TAKE = f"""
UPDATE job SET state = 1 WHERE number IN (
    SELECT number FROM job WHERE state = 0 ORDER BY number LIMIT {BATCH} FOR UPDATE SKIP LOCKED
) RETURNING number, body
"""

connection = psycopg.connect(os.environ["BENCH_URL"], autocommit=True, prepare_threshold=1)
for _kind in ("seqscan", "hashjoin", "mergejoin"):  # the planner knows nothing of a table that has just been filled
    connection.execute(f"SET enable_{_kind} = off")
_listened = False


def prepare() -> None:
    connection.execute(CREATE)


def _job(task: str, argument: Any) -> str:
    """The least that any queue must make of a call, in about as many bytes as headrace keeps of it."""
    job = {"id": f"{argument:032x}", "task": task, "queue": "default", "arguments": [argument], "attempts": 0}
    return json.dumps(job)


def enqueue(task: str, argument: Any) -> None:
    if task == "stamp":
        _await_listener()
        connection.execute(PUT_AND_WAKE, (str(argument), str(argument)))
    else:
        connection.execute(PUT, (_job(task, argument),))


def enqueue_many(task: str, arguments: list[Any]) -> None:
    connection.execute(PUT_MANY, ([_job(task, argument) for argument in arguments],))


def _await_listener() -> None:
    """A NOTIFY that comes before the LISTEN is lost. (The first sample, which waits here, is not counted.)"""
    global _listened  # noqa: PLW0603
    while not _listened:
        _listened = connection.execute(LISTENERS).fetchone() != (0,)
        time.sleep(0.05)


def workers(purpose: str) -> list[list[str]]:
    command = [sys.executable, "-m", "bench.peers.adapters.raw_postgres", purpose]
    return [command] * (2 if purpose == "drain" else 1)


def drain() -> None:
    taken: list[tuple[int, str]] = []
    while True:
        with connection.pipeline(), connection.transaction():
            connection.execute(SETTLE, ([number for number, _ in taken],))
            cursor = connection.execute(TAKE)
            taken = cursor.fetchall()
        if not taken:
            return
        for _, body in taken:
            witness.count(*json.loads(body)["arguments"])


def listen() -> None:
    connection.execute("LISTEN wake")
    for notice in connection.notifies():
        witness.stamp(float(notice.payload))


if __name__ == "__main__":
    if sys.argv[1] == "latency":
        listen()
    else:
        drain()
