"""The registry of stores under test, dialects included. A new one is one more entry.

A module of the suite runs on every store that claims its facet (`MODULES`), and each of its tests on those that claim
the facets and traits it `needs`. What the wire of a dialect lacks is in the entry's `lacks`, with the row of its page;
the few tests that differ though it has their traits are in `differs`. Those run, and fail or are refused as it says.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from headrace.dialects.bedrock.store import BedrockStore
from headrace.dialects.gearmonkey import GearMonkeyStore
from headrace.dialects.hworker import HworkerStore
from headrace.dialects.qless.store import QlessStore
from headrace.dialects.workkit import WorkKitStore
from headrace.store.contract import Facet, Store
from headrace.store.redis.store import RedisStore
from headrace.store.sqlite.store import SqliteStore
from headrace.values.clock import Clock
from store.postgres import servers as postgres_servers
from store.redis import servers

from . import dialects
from .differences import DIFFERS, LACKS
from .model import Model
from .traits import Difference, Trait

Claim = Facet | Trait | str

CORE = "core"
"""What all stores share."""
SESSIONS = "sessions"
"""What stores share where a lease lives as long as its session."""
NATIVE = "native"
"""What only the native stores promise: whole histories, steps of several processes, the shape of a wait."""
TRANSACTIONS = "transactions"
"""What stores share that can take part in a transaction of their caller."""

MODULES: dict[str, Claim] = {
    "test_ages": Facet.AGES,
    "test_attempts": NATIVE,
    "test_audit": NATIVE,
    "test_blocks": Facet.BLOCKS,
    "test_cancel_delete_revive": CORE,
    "test_chosen_ids": Facet.CHOSEN_IDS,
    "test_circumstances": Facet.WHY,
    "test_completion": TRANSACTIONS,
    "test_concurrency": NATIVE,
    "test_core": CORE,
    "test_culprits": Facet.RELATIONS,
    "test_data_and_moves": CORE,
    "test_delay": Facet.DELAY,
    "test_depend": Facet.RELATIONS,
    "test_dependants": Facet.RELATIONS,
    "test_editing": Facet.EDIT,
    "test_events": Facet.EVENTS,
    "test_expiry": Facet.EXPIRY,
    "test_failing": NATIVE,
    "test_fence": CORE,
    "test_find_counts": CORE,
    "test_histories": NATIVE,
    "test_lane_rules": Facet.LANES,
    "test_lanes": Facet.LANES,
    "test_mutants": NATIVE,
    "test_needed": Facet.RETENTION,
    "test_outside": Facet.OUTSIDE,
    "test_priority_and_order": CORE,
    "test_queues": Facet.QUEUES,
    "test_rates": Facet.LANES,
    "test_relations": Facet.RELATIONS,
    "test_relations_ends": Facet.RELATIONS,
    "test_report_history": CORE,
    "test_restoring": NATIVE,
    "test_renewals": SESSIONS,
    "test_request_numbers": SESSIONS,
    "test_requeue": NATIVE,
    "test_retention": Facet.RETENTION,
    "test_roll_call": Facet.ROLL_CALL,
    "test_schedule_histories": NATIVE,
    "test_schedule_policies": Facet.SCHEDULES,
    "test_schedules": Facet.SCHEDULES,
    "test_sessions": SESSIONS,
    "test_settings": Facet.SETTINGS,
    "test_small_world": NATIVE,
    "test_statistics": Facet.STATISTICS,
    "test_stopping": NATIVE,
    "test_tags": Facet.TAGS,
    "test_throughput": Facet.THROUGHPUT,
    "test_unique": Facet.UNIQUE,
    "test_waiting": NATIVE,
    "test_weights": Facet.LANES,
}
"""What each module of the suite is about. Single tests may need more: `@pytest.mark.needs(Facet...)`."""


@dataclass(frozen=True)
class Entry:
    """How to make a store for one test. `options` are `keep_done` and `keep_failed`, milliseconds."""

    name: str
    make: Callable[..., Store]
    facets: frozenset[Facet]
    rows: Callable[[Any], dict[str, int]] = lambda _: {}
    """What there is in the store's own terms, sessions left out: to see that nothing remains."""
    lacks: Mapping[Trait, Difference] = field(default_factory=dict)
    """What its wire has no place for."""
    refuses: Mapping[str, str] = field(default_factory=dict)
    """Options and operations that it refuses, with the sentence."""
    differs: Mapping[str, Difference] = field(default_factory=dict)
    """Names of single tests that can't pass on this wire, with or without their parameters."""
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """Modules that another file of tests runs for this store."""
    native: bool = True
    sessions: bool = True
    """Whether a lease lives as long as its session."""
    server: bool = False
    """Whether it needs a server, so that `make quick` leaves it out."""
    quick: bool = True
    """Whether `make quick` runs it, if it needs no server: not if it is like another one."""
    tasks: tuple[str, ...] = ("task",)
    """What the worker of a test knows: some stores hand out nothing else."""
    transactions: bool = False
    """Whether it can take part in a transaction of its caller."""
    shared: bool = False
    """Whether another store with the same URL, in any process, has the same jobs."""
    everywhere: frozenset[str] = frozenset()
    """Modules that run on every redis-server there is here: a script that one accepts another may refuse."""
    histories: int = 20
    """How many random histories to play, times `HEADRACE_VOLUME`."""
    depth: int = 2
    """How many acts deep to look into the small world; each one more takes four to five times as long."""

    @property
    def marks(self) -> list[pytest.MarkDecorator]:
        return [*[pytest.mark.server] * self.server, *[pytest.mark.slow] * (not self.quick)]

    def __call__(self, directory: Path, clock: Clock, **options: Any) -> Store:
        return self.make(directory, clock, **options)

    @functools.cached_property
    def claims(self) -> set[Claim]:
        """What a test may need."""
        traits = set(Trait) - set(self.lacks)
        further = {NATIVE: self.native, SESSIONS: self.sessions, TRANSACTIONS: self.transactions}
        return {*self.facets, *traits, CORE, *(name for name, claimed in further.items() if claimed)}

    def runs(self, module: str, needs: set[Claim]) -> bool:
        """Whether a test is for this store."""
        return module not in self.elsewhere and {*needs, MODULES[module]} <= self.claims

    def variants(self, module: str) -> list[Entry]:
        """The entry, and the same on the other servers there are."""
        others = list(servers.programs())[1:] if module in self.everywhere else []
        return [
            self,
            *(replace(self, name=f"{self.name}@{other}", make=partial(self.make, program=other)) for other in others),
        ]

    def difference(self, test: str, witnessed: Sequence[Trait]) -> Difference | None:
        """What a test does here instead of passing; None: it must pass."""
        lacking = [self.lacks[trait] for trait in witnessed if trait in self.lacks]
        return next(iter(lacking), self.differs.get(test) or self.differs.get(test.partition("[")[0]))


def model(_: Path, clock: Clock, **options: Any) -> Store:
    return Model(clock=clock, **options)


def sqlite_memory(_: Path, clock: Clock, **options: Any) -> Store:
    return SqliteStore("sqlite:///:memory:", clock=clock, **options)


def sqlite_file(directory: Path, clock: Clock, **options: Any) -> Store:
    return SqliteStore(f"sqlite:///{directory}/jobs.db", clock=clock, **options)


def redis(_: Path, clock: Clock, **options: Any) -> Store:
    return RedisStore(servers.fresh_url(), clock=clock, **options)


def postgres(_: Path, clock: Clock, **options: Any) -> Store:
    return postgres_store()(postgres_servers.fresh_url(), clock=clock, **options)


def postgres_store() -> type[Any]:
    from headrace.store.postgres.store import PostgresStore

    return PostgresStore


def postgres_entries() -> list[Entry]:
    """The store, where its driver is installed."""
    if not postgres_servers.INSTALLED:
        return []
    facets = postgres_store().facets
    return [
        Entry(
            "postgres",
            postgres,
            facets,
            postgres_servers.rows,
            transactions=True,
            shared=True,
            server=True,
            histories=5,
        )
    ]


def model_rows(store: Model) -> dict[str, int]:
    parts = {"jobs": store.jobs, "edges": store.edges, "ended": store.ended, "lanes": store.known_lanes}
    return {name: len(part) for name, part in parts.items()}


def sqlite_rows(store: SqliteStore) -> dict[str, int]:
    def count(connection: Any) -> dict[str, int]:
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        own = {"session", "sqlite_sequence", "seq_floor", "setting", "progress", "stat", "failing", "gone"}
        names = sorted({name for (name,) in tables} - own)
        return {name: connection.execute(f"SELECT count(*) FROM {name}").fetchall()[0][0] for name in names}

    return store._db.read(count)


def _dialect(name: str, make: Callable[..., Any], store: type[Any], **options: Any) -> Entry:
    return Entry(
        name,
        make,
        store.facets,
        refuses=store.REFUSES,
        lacks=LACKS[name],
        differs=DIFFERS[name],
        native=False,
        sessions=not store.leases_in_jobs,
        server=True,
        **options,
    )


STORES = [
    Entry("model", model, Model.facets, model_rows, transactions=True),
    Entry("sqlite-memory", sqlite_memory, SqliteStore.facets, sqlite_rows, transactions=True, histories=50, depth=3),
    Entry("sqlite-file", sqlite_file, SqliteStore.facets, sqlite_rows, transactions=True, shared=True, quick=False),
    Entry("redis", redis, RedisStore.facets, servers.rows, shared=True, server=True),
    *postgres_entries(),
    _dialect(
        "bedrock",
        dialects.bedrock,
        BedrockStore,
        tasks=("task", "t", "other", "special", "stage 2"),
        elsewhere=dict.fromkeys(
            ["test_schedules", "test_schedule_policies"], "tests/dialects/bedrock/test_schedule_contract.py"
        ),
    ),
    _dialect(
        "gearmonkey",
        dialects.gearmonkey,
        GearMonkeyStore,
        tasks=("task", "t"),
        everywhere=frozenset(
            {"test_core", "test_cancel_delete_revive", "test_fence", "test_find_counts", "test_sessions"}
        ),
    ),
    _dialect("hworker", dialects.hworker, HworkerStore),
    _dialect(
        "qless",
        dialects.qless,
        QlessStore,
        everywhere=frozenset({"test_core", "test_fence"}),
        elsewhere=dict.fromkeys(
            ["test_schedules", "test_schedule_policies"], "tests/dialects/qless/test_schedule_contract.py"
        ),
    ),
    _dialect(
        "workkit",
        dialects.workkit,
        WorkKitStore,
        elsewhere=dict.fromkeys(
            ["test_schedules", "test_schedule_policies"], "tests/dialects/workkit/test_schedule_contract.py"
        ),
    ),
]
