"""A store implements the contract and the facets that it claims. Never run: `mypy --strict` reads it.

`tests/conformance/test_registry.py` compares what is returned here with what each store claims.
"""

from __future__ import annotations

from headrace.dialects.bedrock.store import BedrockStore
from headrace.dialects.gearmonkey import GearMonkeyStore
from headrace.dialects.hworker import HworkerStore
from headrace.dialects.qless.store import QlessStore
from headrace.dialects.workkit import WorkKitStore
from headrace.store.ages import Aging
from headrace.store.blocking import Blocking
from headrace.store.contract import Custodian, Store
from headrace.store.facets import (
    Editing,
    Events,
    Explaining,
    Queues,
    Relations,
    Schedules,
    Settings,
    Sql,
    Statistics,
    Tags,
)
from headrace.store.lanes import Lanes
from headrace.store.outside import Outside
from headrace.store.redis.store import RedisStore
from headrace.store.sqlite.store import SqliteStore
from headrace.store.throughput import Measuring


def sqlite(
    s: SqliteStore,
) -> tuple[
    Store,
    Schedules,
    Relations,
    Queues,
    Blocking,
    Lanes,
    Editing,
    Outside,
    Tags,
    Statistics,
    Measuring,
    Aging,
    Settings,
    Events,
    Explaining,
    Sql,
]:
    return s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s


def redis(
    s: RedisStore,
) -> tuple[
    Store,
    Schedules,
    Relations,
    Queues,
    Blocking,
    Lanes,
    Editing,
    Outside,
    Tags,
    Statistics,
    Measuring,
    Aging,
    Settings,
    Events,
    Explaining,
]:
    return s, s, s, s, s, s, s, s, s, s, s, s, s, s, s


def qless(
    s: QlessStore,
) -> tuple[Store, Schedules, Relations, Queues, Editing, Outside, Tags, Statistics, Settings, Explaining]:
    return s, s, s, s, s, s, s, s, s, s


def gearmonkey(s: GearMonkeyStore) -> tuple[Store]:
    return (s,)


def bedrock(s: BedrockStore) -> tuple[Store, Custodian, Schedules]:
    return s, s, s


def hworker(s: HworkerStore) -> tuple[Store, Custodian]:
    return s, s


def workkit(s: WorkKitStore) -> tuple[Store, Custodian, Schedules, Aging]:
    return s, s, s, s
