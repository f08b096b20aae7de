"""Schedules of an app as recurring entries: a payload whose cron names more than one second is a schedule.

What a schedule says beyond its cron (its name, its own words for the rule, the app that declares it) stands in the
payload's field `headrace`, which peers pass over. A recurring job of another program is a schedule named by its id.
Two keys hold no index of names, so a name is found by a walk through the payloads, in bounded steps.

The payload makes the id, so a schedule that changes is another entry. The script that replaces one checks that the old
entry is still there: of two changes to the same entry one counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from headrace.dialects.on_redis import Stepwise
from headrace.errors import Unsupported
from headrace.policies import Overlap
from headrace.records import Definition, NewJob, ScheduleRecord, spec_of
from headrace.schedule import Repeat, ScheduleError, restore
from headrace.schedule.workkit import cron7_of
from headrace.store.facets import ScheduleLook

from .handlers import wire_name
from .payload import Payload, as_bytes, by_name, by_position, canonical, job_id, read_payload
from .times import CUCKOO, PUBLISHED, in_order, in_reach, next_time, read_cron
from .wire import NewEntry

if TYPE_CHECKING:
    from .store import WorkKitStore

ONE_TIME = {PUBLISHED: r"^%d+ %d+ %d+ %* %d+ %d+ %d+$", CUCKOO: r"^%d+ %d+ %d+ %d+ %d+ %* %d+$"}
"""Crons of one second, as Lua has patterns."""
_ONE_TIME = {order: re.compile(pattern.replace("%", "\\")) for order, pattern in ONE_TIME.items()}
_NATIVE = "Leave it out, or keep this schedule in a native store."
_REFUSED = {
    "misfire": "runs that no listener was there for are made good once, with the latest",
    "limit": "runs that no listener was there for are made good once, with the latest",
    "grace": "runs that no listener was there for are made good once, with the latest",
    "jitter": "jobs run at the times of their cron",
    "end": "a cron has no end but its last year",
    "offset": "jobs run at the times of their cron",
    "max_runs": "runs are not counted",
    "carry_data": "a payload is the same for every run",
}
"""Options of a schedule that no payload carries, and why."""
_PLAIN = Definition(rule="", task="", body=b"")


class Kept(Struct, omit_defaults=True, frozen=True):
    """What the field `headrace` of a schedule's payload says."""

    schedule: str
    rule: str
    queue: str = "default"
    overlap: Overlap = Overlap.ALLOW
    start: int | None = None
    max_crashes: int = 3
    declared_by: str | None = None
    body: str | None = None
    """The arguments by name, where those by position do not give them back to the byte."""


_decode_kept = msgspec.json.Decoder(Kept).decode
_SHARED = ("rule", "queue", "overlap", "start", "max_crashes", "declared_by")


def _shared(record: Definition | Kept) -> dict[str, Any]:
    """The fields that a definition and what is kept of it have in common, to make one of the other."""
    return {name: getattr(record, name) for name in _SHARED}


def recurs(payload: Payload, order: str) -> bool:
    return not _ONE_TIME[order].fullmatch(payload.cron)


def name_of(payload: Payload, identity: str) -> str:
    """The name of the schedule that a recurring entry is."""
    kept = _kept(payload)
    return identity if kept is None else kept.schedule


def _kept(payload: Payload) -> Kept | None:
    try:
        return _decode_kept(payload.headrace)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


# -- storing --


def text_of(store: WorkKitStore, record: ScheduleRecord) -> bytes:
    """The payload of a schedule. What no payload carries is refused."""
    definition = record.definition
    store.refuse_put([NewJob(id="", **spec_of(definition))])
    if record.paused:
        raise Unsupported("A WorkKit schedule can't be paused: delete it, and store it again when it is to go on.")
    if definition.overlap not in (Overlap.ALLOW, Overlap.SKIP):
        raise Unsupported(
            f"overlap={definition.overlap.value!r}: a run of a WorkKit schedule that is due while the one before goes "
            f"on is skipped. {_NATIVE}"
        )
    for name, why in _REFUSED.items():
        if getattr(definition, name) != getattr(_PLAIN, name):
            option = "runs" if name == "max_runs" else name
            raise Unsupported(f"{option}: in a WorkKit schedule {why}. {_NATIVE}")
    if record.next is None:
        raise Unsupported(f"'{definition.rule}' never comes again: nothing was stored.")
    task, job = store.tasks.get(definition.task), wire_name(definition.task)
    cron = in_order(_cron(definition.rule), store.settings.cron_order)
    args = by_position(task, definition.body)
    plain = read_payload(canonical(job, cron, args))
    given_back = plain is not None and by_name(task, plain.arguments) == definition.body
    kept_body = None if given_back else definition.body.decode()
    kept = Kept(schedule=record.name, body=kept_body, **_shared(definition))
    return canonical(job, cron, args, msgspec.to_builtins(kept))


def _cron(rule: str) -> str:
    schedule = restore(rule)
    if isinstance(schedule, Repeat):
        raise Unsupported(
            f"'{rule}' is a repeat rule: a WorkKit cron knows nothing of the run before. Write every(...) or "
            "cron(...), or keep this schedule in a native store."
        )
    try:
        return cron7_of(schedule, rule)
    except ScheduleError as error:
        raise Unsupported(f"{error}.") from None


def put(store: WorkKitStore, record: ScheduleRecord, expected: int | None, text: bytes) -> Stepwise[bool]:
    found = yield from _named(store, record.name)
    known = next(iter(found.values()), None)
    if (None if known is None else known.version) != expected:
        return False
    due = record.next
    times = (record.definition.rule, record.definition.start)
    if known is not None and (known.definition.rule, known.definition.start) == times:
        due = known.next  # which may have passed on since it was looked at
    assert due is not None
    if not (yield store.wire.replace(NewEntry(job_id(text), text, due), list(found))):
        return False
    if not found:
        # Two programs may have stored a schedule of one name at the same time: all of them keep the same one.
        named = yield from _named(store, record.name)
        if len(named) > 1:
            yield store.wire.remove(list(named)[1:])
    return True


def delete(store: WorkKitStore, name: str) -> Stepwise[bool]:
    found = yield from _named(store, name)
    removed = (yield store.wire.remove(list(found))) if found else []
    return any(removed)


# -- looking --


def look(store: WorkKitStore, names: Sequence[str] | None, after: str, limit: int) -> Stepwise[ScheduleLook]:
    if names is not None and not names:
        return ScheduleLook(now=(yield from store.ask_time()), records=[])
    found = yield from _all(store)
    named = {record.name: record for record in reversed(found.values())}
    now = store.timekeeper.now()
    if names is not None:
        return ScheduleLook(now=now, records=[named[name] for name in names if name in named])
    later = sorted((name for name in named if as_bytes(name) > as_bytes(after)), key=as_bytes)
    return ScheduleLook(now=now, records=[named[name] for name in later[:limit]], more=len(later) > limit)


def _named(store: WorkKitStore, name: str) -> Stepwise[dict[str, ScheduleRecord]]:
    found = yield from _all(store)
    return {identity: record for identity, record in found.items() if record.name == name}


def _all(store: WorkKitStore) -> Stepwise[dict[str, ScheduleRecord]]:
    """By id, in order. A walk sees everything that is there all the time."""
    found: dict[str, ScheduleRecord] = {}
    order = store.settings.cron_order
    cursor = b"0"
    while True:
        cursor, some = yield store.wire.recurring(cursor, ONE_TIME[order])
        for identity, text, score in some:
            payload = read_payload(text)
            if payload is not None and recurs(payload, order):
                found[identity] = _record(store, payload, identity, score)
        if cursor == b"0":
            return dict(sorted(found.items()))


def _record(store: WorkKitStore, payload: Payload, identity: str, score: float | None) -> ScheduleRecord:
    job, arguments = payload.call
    task = store.handlers.find(job) or job
    body = by_name(store.tasks.get(task), arguments)
    kept = _kept(payload)
    try:
        cron = read_cron(payload.cron, store.settings.cron_order)
        rule = str(cron)
    except ScheduleError:
        cron, rule = None, payload.cron
    if kept is None:
        name, definition = identity, Definition(rule=rule, task=task, body=body)
    else:
        body = body if kept.body is None else kept.body.encode()
        name, definition = kept.schedule, Definition(task=task, body=body, **_shared(kept))
    due = None if score is None else int(in_reach(score))
    if cron is not None and (due is None or due % 1000):  # it runs
        due = next_time(cron, store.timekeeper.now())
    version = int(job_id(as_bytes(identity))[:13], 16)  # its content's, as the id is
    return ScheduleRecord(name=name, definition=definition, version=version, next=due)
