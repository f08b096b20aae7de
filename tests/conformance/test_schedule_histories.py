"""Random lives of schedules and their jobs, told to a store and to the model: both must say the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import asdict, replace

from headrace.policies import Misfire, Overlap
from headrace.records import Definition, Filter, Kind, ScheduleRecord
from headrace.schedule.next_runs import first_tick, work_out
from headrace.store.contract import Facet, Store
from headrace.store.facets import Schedules, facet
from headrace.values.clock import ManualClock
from volume import volume

from .helpers import Worker, outcome
from .model import Model
from .test_schedules import DAY, MINUTE, NOON

pytestmark = pytest.mark.needs(Facet.SCHEDULES)

NAMES = ("a", "b", "c")
RULES = (
    "every minute UTC",
    "every 5 minutes UTC",
    "SCHEDULED, +1 MINUTE",
    "STARTED, +2 MINUTES",
    "FINISHED, +1 MINUTE",
)


class Twins:
    """A store and the model, which are asked the same at the same time."""

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.clock = clock
        self.stores = (store, Model(clock=clock, keep_done=30 * DAY))
        self.workers = [Worker(store, clock, timeout=1_000 * DAY) for store in self.stores]
        self.leases: list[tuple[Any, Any]] = []
        self.looks: list[list[ScheduleRecord]] = []

    def ask(self, describe: Callable[[Any], Any]) -> Any:
        answer, expected = (store.run(describe(store)) for store in self.stores)
        assert answer == expected
        return answer

    def settle(self, pair: tuple[Any, Any], kind: Kind, **fields: Any) -> None:
        turns = [
            worker.exchange([outcome(lease, kind, **fields)]) for worker, lease in zip(self.workers, pair, strict=True)
        ]
        assert list(turns[0].verdicts) == list(turns[1].verdicts)
        assert turns[0].next_tick == turns[1].next_tick

    def take(self) -> None:
        turns = [worker.exchange(take=worker.asks(2)) for worker in self.workers]
        pairs = list(zip(*(turn.leases for turn in turns), strict=True))
        assert [(a.id, a.extras.tick, a.data) for a, _ in pairs] == [(b.id, b.extras.tick, b.data) for _, b in pairs]
        assert turns[0].next_tick == turns[1].next_tick
        self.leases += pairs

    def compare(self) -> None:
        self.ask(lambda store: store.schedules(limit=10))
        self.ask(lambda store: store.due_schedules(10))
        self.ask(lambda store: store.sweep())
        for name in NAMES:
            pages = [store.run(store.find(Filter(schedule=name, limit=1_000))) for store in self.stores]
            seen = [
                [{k: v for k, v in asdict(job).items() if k != "worker"} for job in page.jobs] for page in pages
            ]  # fmt: skip
            assert seen[0] == seen[1]


def define(chance: random.Random, policies: list[Overlap]) -> Definition:
    return Definition(
        rule=chance.choice(RULES),
        task="task",
        body=b"B",
        overlap=chance.choice(policies),
        misfire=chance.choice(list(Misfire)),
        limit=3,
        max_runs=chance.choice([None, None, 2, 5]),
        carry_data=chance.random() < 0.5,
        jitter=chance.choice([0, 20_000]),
        end=chance.choice([None, None, NOON + 20 * MINUTE]),
    )


@pytest.mark.parametrize("seed", range(volume(12)))
def test_a_store_lives_as_the_model_does(make_store: Callable[..., Store], seed: int) -> None:
    clock, chance = ManualClock(NOON), random.Random(seed)
    twins = Twins(make_store(clock, keep_done=30 * DAY), clock)
    schedules = facet(twins.stores[0], Schedules)
    related = Facet.RELATIONS in twins.stores[0].facets
    policies = list(Overlap) if related else [policy for policy in Overlap if policy is not Overlap.QUEUE]
    for _ in range(100):
        name = chance.choice(NAMES)
        found = twins.stores[0].run(schedules.schedules([name])).records
        known = found[0] if found else None
        job = known.last_job if known is not None and known.last_job else "nobody"
        match chance.randrange(12):
            case 0 | 1:
                definition = define(chance, policies)
                base = known or ScheduleRecord(name=name, definition=definition)
                record = replace(base, definition=definition, next=first_tick(definition, clock.now()))
                expected = chance.choice([None if known is None else known.version] * 4 + [3])
                twins.ask(lambda store, r=record, e=expected: store.put_schedule(r, e))
            case 2:
                if known is not None:
                    record = replace(known, paused=not known.paused)
                    twins.ask(lambda store, r=record: store.put_schedule(r, r.version))
            case 3:
                if chance.random() < 0.3:
                    twins.ask(lambda store, n=name: store.delete_schedule(n))
            case 4 | 5 | 6:
                if chance.random() < 0.7 or not twins.looks:
                    twins.looks.append(twins.ask(lambda store: store.due_schedules(2)).records)
                if chance.random() < 0.3:
                    continue  # who has looked ticks later, when much may have changed
                records = twins.looks.pop(chance.randrange(len(twins.looks)))
                ticks = [work_out(record, clock.now()) for record in records]
                twins.ask(lambda store, t=ticks: store.tick(t))
            case 7 | 8:
                twins.take()
            case 9:
                if twins.leases:
                    pair = twins.leases.pop(chance.randrange(len(twins.leases)))
                    kind = chance.choice([Kind.DONE, Kind.DONE, Kind.FAILED, Kind.RELEASED, Kind.CRASHED, Kind.AGAIN])
                    twins.settle(pair, kind, data=chance.choice([None, b"D%d" % clock.now(), b"L" * 3_000]))
            case 10:
                act = chance.choice(["cancel", "delete", "revive"])
                twins.ask(lambda store, a=act, j=job: getattr(store, a)([j]))
            case _:
                clock.advance(chance.choice([1, MINUTE, 3 * MINUTE]))
                clock.jump(chance.choice([0, 0, 0, -30_000, 30_000]))
        twins.compare()
