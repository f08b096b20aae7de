"""When a schedule ticks, and with which jobs: pure functions of its record and of the store's time.

>>> from headrace.records import Definition, ScheduleRecord
>>> hourly = Definition(rule="every hour UTC", task="report", body=b"{}")
>>> first = first_tick(hourly, now=1_000)
>>> first
3600000
>>> tick = work_out(ScheduleRecord(name="hourly", definition=hourly, next=first), now=3_600_005)
>>> [job.tick for job in tick.jobs], tick.next
([3600000], 7200000)
"""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import blake2b

from headrace.policies import Misfire
from headrace.records import Definition, NewJob, ScheduleRecord, Tick, spec_of
from headrace.schedule import Repeat, Schedule, restore
from headrace.schedule.schedules import EPOCH

AT_ONCE = 100
"""How many jobs one schedule gets in one step. What is left comes with the next."""
STRIDE = 10_000
"""How many missed ticks are walked over in one step, where there is no other way to the present."""

_MILLISECOND = timedelta(milliseconds=1)
_rule = lru_cache(maxsize=1024)(restore)


def first_tick(definition: Definition, now: int) -> int | None:
    """When a schedule that is stored now ticks first. A repeat rule begins at once, or at its start."""
    begin = max(now, definition.start or 0)
    if isinstance(_rule(definition.rule), Repeat):
        return _within(definition, begin + definition.offset)
    return tick_after(definition, begin - 1)


def tick_after(definition: Definition, tick: int) -> int | None:
    """The tick after a tick (or, where ticks do not depend on each other, after any time). None: there is none."""
    rule = _rule(definition.rule)
    before = moment_of(tick - definition.offset)
    found = rule.next(before) if isinstance(rule, Schedule) else _repeated(rule, before, before)
    if found is None:
        return None
    following = _milliseconds(found) + definition.offset
    # A repeat rule may lead nowhere (WEEKDAY 1 on a Monday): ticks grow all the same.
    return _within(definition, following if following > tick else tick + 1_000)


def first_tick_again(record: ScheduleRecord, now: int) -> int | None:
    """When a schedule that was paused goes on: what came meanwhile is passed over."""
    definition, tick = record.definition, record.next
    if tick is None or tick >= now:
        return tick
    if definition.follows:
        return now
    if isinstance(_rule(definition.rule), Schedule):
        return tick_after(definition, now - 1)
    for _ in range(STRIDE):
        if tick is None or tick >= now:
            return tick
        tick = tick_after(definition, tick)
    return now


def work_out(record: ScheduleRecord, now: int) -> Tick:
    """What is to be done about a schedule that is due."""
    definition, name, version = record.definition, record.name, record.version
    if record.next is None or (definition.max_runs is not None and record.runs >= definition.max_runs):
        return Tick(name=name, version=version)
    if record.finished is not None and definition.follows:  # its rule may be another one by now
        return Tick(name=name, version=version, next=_after_the_job(record))
    ticks, following = _due(definition, record.next, now)
    if definition.follows and ticks:
        following = None  # known when the job has ended
    return Tick(
        name=name,
        version=version,
        jobs=tuple(_job(record, tick) for tick in ticks),
        last_tick=ticks[-1] if ticks else None,
        next=following,
    )


def _after_the_job(record: ScheduleRecord) -> int | None:
    """The next tick of a schedule whose job has come to an end."""
    definition = record.definition
    rule = _rule(definition.rule)
    assert isinstance(rule, Repeat)
    assert record.finished is not None
    finished = moment_of(record.finished)
    found = _repeated(rule, finished if record.started is None else moment_of(record.started), finished)
    if found is None:
        return None
    following = _milliseconds(found) + definition.offset
    return _within(definition, following if record.last_tick is None else max(following, record.last_tick + 1_000))


def _repeated(rule: Repeat, started: datetime, finished: datetime) -> datetime | None:
    return rule.next(scheduled=started, started=started, finished=finished)


def _due(definition: Definition, first: int, now: int) -> tuple[list[int], int | None]:
    """The ticks up to now that get jobs, at most `AT_ONCE`, and the tick after these."""
    horizon = now - definition.grace
    tick: int | None = first
    ticks: list[int] = []
    # One that waits for its job to end misses one tick at most: that is the one to run.
    if first < horizon and (not definition.follows or definition.misfire is Misfire.SKIP):
        ticks, tick = _missed(definition, first, horizon)
        if len(ticks) > AT_ONCE:
            return ticks[:AT_ONCE], ticks[AT_ONCE]
        if tick is not None and tick < horizon:
            return [], tick  # on the way to the present
    while tick is not None and tick <= now and len(ticks) < AT_ONCE:
        ticks.append(tick)
        if definition.follows:
            break
        tick = tick_after(definition, tick)
    return ticks, tick


def _missed(definition: Definition, first: int, horizon: int) -> tuple[list[int], int | None]:
    """Those of the missed ticks that get jobs, and the tick to go on with."""
    count = {Misfire.ALL: definition.limit, Misfire.ONCE: 1, Misfire.SKIP: 0}[definition.misfire]
    if isinstance(_rule(definition.rule), Schedule):
        return _newest(definition, first, horizon, count) if count else [], tick_after(definition, horizon - 1)
    kept: deque[int] = deque(maxlen=count)
    tick: int | None = first
    for _ in range(STRIDE):
        if tick is None or tick >= horizon:
            return list(kept), tick
        kept.append(tick)
        tick = tick_after(definition, tick)
    return [], kept[0] if kept else tick


def _newest(definition: Definition, first: int, before: int, count: int) -> list[int]:
    """The latest ticks from `first` on and before another time: found by halving, as there may be millions."""
    found = _some(definition, first, before, count)
    low, high = first, before
    while len(found) > count and high - low > 1:
        middle = (low + high) // 2
        since = _some(definition, middle, before, count)
        if len(since) > count:
            low = middle
        else:
            high = middle
        if len(since) == count:
            return since
    return found if len(found) <= count else _some(definition, high, before, count)


def _some(definition: Definition, since: int, before: int, count: int) -> list[int]:
    """The first ticks from one time on and before another; one more than asked for, if there are."""
    ticks: list[int] = []
    tick = tick_after(definition, since - 1)
    while tick is not None and tick < before and len(ticks) <= count:
        ticks.append(tick)
        tick = tick_after(definition, tick)
    return ticks


def _job(record: ScheduleRecord, tick: int) -> NewJob:
    definition = record.definition
    # The id is made of the tick: whoever puts it, and however often, it is one job.
    digest = blake2b(f"{record.name}\n{record.created}\n{tick}".encode(), digest_size=16).digest()
    late = int.from_bytes(digest[:8]) % (definition.jitter + 1)
    return NewJob(
        id=digest.hex(),
        **spec_of(definition),
        run_at=tick + late,
        schedule=record.name,
        tick=tick,
        data=record.data if definition.carry_data else None,
    )


def job_now(record: ScheduleRecord, job_id: str) -> NewJob:
    """A job like those of a schedule's ticks, due at once. The schedule's next tick and its count stay as they are."""
    data = record.data if record.definition.carry_data else None
    return NewJob(id=job_id, **spec_of(record.definition), schedule=record.name, data=data)


def _within(definition: Definition, tick: int) -> int | None:
    return None if definition.end is not None and tick > definition.end else max(tick, 0)


def moment_of(milliseconds: int) -> datetime:
    """A store's time, exactly."""
    return EPOCH + timedelta(milliseconds=milliseconds)


def _milliseconds(moment: datetime) -> int:
    return (moment - EPOCH) // _MILLISECOND
