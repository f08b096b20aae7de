"""Graphile Worker (Node) on PostgreSQL. Jobs are added by its SQL functions; `graphile.mjs` is its worker.

npm installs it beside the environments of the other peers. Without npm it is left out, and that is reported.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import psycopg

REQUIREMENTS: list[str] = []
PACKAGES = ["psycopg"]
SERVICE = "postgres"
PACE = 5_000
VERSION = "0.17"
SETTINGS = (
    f"graphile-worker {VERSION}, 2 Node processes of 24 jobs at once, local queues of 500, completions in batches of "
    "a millisecond, synchronous_commit off; one process without a local queue for latency; in the crash test the "
    "defaults, by which jobs of dead workers wait for four hours"
)

HERE = Path(__file__).parent
MODULES = HERE.parent.parent / "results" / "envs" / "graphile"
WORKER = MODULES / "graphile.mjs"
MANY = """
SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(
    SELECT json_populate_record(NULL::graphile_worker.job_spec, spec)
    FROM json_array_elements($2::json), LATERAL json_build_object('identifier', $1::text, 'payload', value) AS spec
))
"""

if not shutil.which("npm"):
    raise ImportError("npm is not there")
if not (MODULES / "node_modules" / "graphile-worker").exists():
    MODULES.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        ["npm", "install", "--silent", "--prefix", MODULES, f"graphile-worker@{VERSION}"], check=True, timeout=300
    )
shutil.copy(HERE / "graphile.mjs", WORKER)  # Node looks for packages beside the module
_connections: list[psycopg.Connection[Any]] = []


def prepare() -> None:
    subprocess.run(["node", WORKER, "migrate"], check=True, env={**os.environ})
    _connections.append(
        psycopg.connect(os.environ["BENCH_URL"], autocommit=True, prepare_threshold=1, cursor_factory=psycopg.RawCursor)
    )


def enqueue(task: str, argument: Any) -> None:
    call = "SELECT count(*) FROM graphile_worker.add_job($1::text, $2::json)"
    _connections[0].execute(call, (task, json.dumps({"argument": argument})))


def enqueue_many(task: str, arguments: list[Any]) -> None:
    _connections[0].execute(MANY, (task, json.dumps([{"argument": argument} for argument in arguments])))


def workers(purpose: str) -> list[list[str]]:
    return [["node", str(WORKER), purpose]] * (1 if purpose == "latency" else 2)
