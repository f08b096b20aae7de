"""What is asked costs the same however many jobs there are: commands, entries and steps are counted."""

from __future__ import annotations

from collections.abc import Callable

from conformance.helpers import Worker, new, outcome
from headrace.clock import ManualClock
from headrace.job import Kind
from headrace.stats import DAY
from headrace.store.redis import RedisStore

from .servers import commands_inside_scripts


def commands(program: str, store: RedisStore, act: Callable[[], object]) -> list[str]:
    """With the names of their keys, without the namespace."""
    return [
        f"{command.upper()} {words[0].removeprefix(store.keys.prefix) if words else ''}"
        for command, *words in commands_inside_scripts(program, act, store)
    ]


def end(store: RedisStore, clock: ManualClock, number: int, kind: Kind = Kind.DONE) -> None:
    """So many jobs that have ended."""
    worker = Worker(store, clock, f"ends {number}")
    for first in range(0, number, 1_000):
        ids = [f"{kind} {i} of {number}" for i in range(first, min(first + 1_000, number))]
        store.run(store.put([new(job_id) for job_id in ids]))
        worker.exchange([outcome(lease, kind) for lease in worker.take(1_000)])


# -- statistics --


def test_statistics_are_there_when_they_are_asked_for(store: RedisStore, clock: ManualClock, program: str) -> None:
    def ask() -> object:
        return store.run(store.stats("default", clock.now() // DAY))

    end(store, clock, 10)
    end(store, clock, 5, Kind.FAILED)
    few = commands(program, store, ask)
    end(store, clock, 3_000)
    end(store, clock, 2_000, Kind.FAILED)
    assert commands(program, store, ask) == few
    assert len(few) < 6
    told = store.run(store.stats("default", clock.now() // DAY))
    assert (told.run.count, told.failed) == (3_010, 2_005)


def test_a_batch_of_ended_jobs_is_summed_up_with_two_commands(
    store: RedisStore, clock: ManualClock, program: str
) -> None:
    worker = Worker(store, clock)
    end(store, clock, 1)
    store.run(store.put([new(f"job {i}") for i in range(1_000)]))
    outcomes = [outcome(lease) for lease in worker.take(1_000)]
    day = f"stat:{clock.now() // DAY}:default"
    settled = commands(program, store, lambda: worker.exchange(outcomes))
    assert [command for command in settled if "stat" in command] == [f"HMGET {day}", f"HSET {day}"]
