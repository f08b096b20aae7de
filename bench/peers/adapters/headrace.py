"""headrace on Redis or PostgreSQL, with the defaults that a user gets."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from bench.peers import witness
from headrace import Headrace
from headrace.records import State
from headrace.store.sql.codes import DONE

REQUIREMENTS: list[str] = []
PACKAGES = ["redis"]
PACE = 40_000
SETTINGS = "`headrace worker --processes 2` (one for latency), and the defaults"

ON_POSTGRES = os.environ["BENCH_URL"].startswith("postgresql:")
COUNT_SETTLINGS = f"""
CREATE TABLE headrace.settling (seq bigint NOT NULL);
CREATE FUNCTION headrace.count_settling() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO headrace.settling (seq) VALUES (new.seq);
    RETURN NULL;
END $$;
CREATE TRIGGER settled AFTER UPDATE OF state ON headrace.job FOR EACH ROW WHEN (new.state = {DONE})
EXECUTE FUNCTION headrace.count_settling();
"""

app = Headrace(os.environ["BENCH_URL"])


@app.task
def noop(argument: Any) -> None:
    witness.count(argument)


@app.task
def stamp(sent: float) -> None:
    witness.stamp(sent)


@app.task
def slow(number: int) -> None:
    witness.begin(number)
    time.sleep(witness.NAP)
    witness.mark(number)


TASKS = {"noop": noop, "stamp": stamp, "slow": slow}


def prepare() -> None:
    app.store.run(app.store.counts())
    if ON_POSTGRES and os.environ["BENCH_PURPOSE"] == "crash":
        _query(COUNT_SETTLINGS)


def _query(statement: str) -> Any:
    import psycopg

    with psycopg.connect(os.environ["BENCH_URL"], autocommit=True) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else None


def enqueue(task: str, argument: Any) -> None:
    TASKS[task].enqueue(argument)


def enqueue_many(task: str, arguments: list[Any]) -> None:
    """By a task, or no-op jobs in a hundred lanes."""
    if task == "lanes":
        app.enqueue_many([noop.using(lane=f"lane {number % 100}", limit=10).call(number) for number in arguments])
    else:
        call = TASKS[task].call
        app.enqueue_many([call(argument) for argument in arguments])


def settled() -> int:
    """How many times a job was settled as done.

    On Redis by the store's own count, which every settling raises by one. PostgreSQL counts rows: there a trigger does.
    """
    if ON_POSTGRES:
        return int(_query("SELECT count(*) FROM headrace.settling")[0][0])
    return sum(counts.by_state.get(State.DONE, 0) for counts in app.store.run(app.store.counts()))


def workers(purpose: str) -> list[list[str]]:
    size = ["--processes", "2" if purpose in {"drain", "crash"} else "1"]
    command = [sys.executable, "-m", "headrace", "worker", "bench.peers.adapters.headrace:app"]
    return [[*command, *size, "--log-level", "warning"]]
