"""Jobs pass through a PostgreSQL store, and what they leave behind stays the same. python -m bench.housekeeping.

One process puts, takes, settles and sweeps as workers do, on a private server with its usual autovacuum; the last
`KEPT` done jobs are kept. `--jobs`, or $HOUSEKEEPING_JOBS, says how many pass through: ten million take an hour. Each
tenth of them is a row of the table. The bars compare the last tenth with the third, when vacuum has found its pace.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import NamedTuple

from tests.store.postgres.servers import Server

from bench.tools import Report
from headrace.records import Charge, Kind, NewJob, Outcome, SessionInfo, Take
from headrace.store.postgres.store import PostgresStore

KEPT = 10_000
TOGETHER = 2_000
"""So many wait at a time: put in one call, taken and settled 500 at a time."""
FLAT = 1.25
FACTS = """
SELECT pg_relation_size(relid), pg_indexes_size(relid), n_dead_tup,
    heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read
FROM pg_stat_user_tables JOIN pg_statio_user_tables USING (relid)
WHERE relid = 'headrace.job'::regclass
"""


class Facts(NamedTuple):
    """Of the table `job`: its bytes, those of its indexes, its dead rows, and buffers looked at since it exists."""

    table: int
    indexes: int
    dead: int
    buffers: int


class Tenth(NamedTuple):
    """A tenth of the jobs: how fast they passed, buffers for each, and what there was in the end."""

    rate: float
    buffers: float
    table: int
    indexes: int
    dead: int


class Passage:
    """A worker's session through which jobs pass."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._put = self._requests = 0
        store.run(store.open(SessionInfo(id="passage", name="passage")))

    def pass_through(self, jobs: int) -> None:
        store = self._store
        first, self._put = self._put, self._put + jobs
        store.run(
            store.put(
                [NewJob(id=f"{number:032x}", task="noop", body=b"[[1],{}]") for number in range(first, self._put)]
            )
        )
        outcomes: list[Outcome] = []
        while True:
            self._requests += 1
            leases = store.run(store.exchange("passage", self._requests, outcomes, Take(("default",), 500))).leases
            if not leases:
                break
            outcomes = [
                Outcome(ref=lease.ref, token=lease.token, id=lease.id, kind=Kind.DONE, charge=Charge.ATTEMPT)
                for lease in leases
            ]
        while store.run(store.sweep()).more:
            pass


def measure(server: Server, jobs: int) -> list[Tenth]:
    store = PostgresStore(server.url(), keep_count=KEPT)

    def facts() -> Facts:
        store.database.borrow(lambda wire: wire.query("SELECT pg_stat_force_next_flush()"))
        return Facts(*server.sql(FACTS)[0])

    passage, tenths, before = Passage(store), [], facts()
    for number in range(1, 11):
        start = time.perf_counter()
        for _ in range(jobs // 10 // TOGETHER):
            passage.pass_through(TOGETHER)
        passed, seconds = jobs // 10 // TOGETHER * TOGETHER, time.perf_counter() - start
        now = facts()
        tenths.append(
            Tenth(passed / seconds, (now.buffers - before.buffers) / passed, now.table, now.indexes, now.dead)
        )
        before = now
        print(f"  {number}/10: {tenths[-1]}", file=sys.stderr, flush=True)
    store.close()
    return tenths


def judge(tenths: list[Tenth], report: Report) -> None:
    for number, tenth in enumerate(tenths, 1):
        sizes = f"table {tenth.table / 1e6:.1f} MB, indexes {tenth.indexes / 1e6:.1f} MB, {tenth.dead:,} dead rows"
        report.add(f"tenth {number}: {tenth.rate:,.0f} jobs/s, {sizes}; buffers per job", tenth.buffers, "")
    third, last = tenths[2], tenths[-1]
    for what, value in (
        ("buffers per job", last.buffers / third.buffers),
        ("table", last.table / third.table),
        ("indexes", last.indexes / third.indexes),
    ):
        report.add(f"{what}: the last tenth, in parts of the third", value, "x", FLAT, at_most=True)
    report.add("dead rows after the last tenth, for each row that is kept", last.dead / KEPT, "x", 10.0, at_most=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.housekeeping", description=__doc__)
    size = int(os.environ.get("HOUSEKEEPING_JOBS", "10_000_000"))
    parser.add_argument("--jobs", type=int, default=size, help="how many pass through")
    options = parser.parse_args()
    server = Server("synchronous_commit=off", "shared_buffers=512MB", "max_wal_size=4GB", "autovacuum_naptime=5s")
    try:
        report = Report(f"{options.jobs:,} jobs through a PostgreSQL store (python -m bench.housekeeping)")
        judge(measure(server, options.jobs), report)
    finally:
        server.close()
    return report.show()


if __name__ == "__main__":
    sys.exit(main())
