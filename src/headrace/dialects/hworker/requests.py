"""Requests to bytes and answers to values: what each script is sent. The formats are those of the headers in lua/."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headrace.dialects.hworker.options import Options
from headrace.dialects.hworker.wire import read_time
from headrace.dialects.on_redis import Stepwise
from headrace.store.redis.operation import Reply, Script

JOBS, PROGRESS, BROKEN, FAILED = 1, 2, 3, 4
"""What each queue has, as the scripts number it."""

PIECE = 1_000
"""How many entries of a list a script looks at: a fraction of a millisecond."""
BATCH = 100
"""How many jobs are given back in one step."""

SUCCESS, RETRY, FAILURE, IS_BROKEN, GIVE_BACK = b"s", b"r", b"f", b"b", b"g"
"""What becomes of a job, as the script `exchange` calls it."""


class Record(NamedTuple):
    """One hand-out of a job: the value that the take (or the last renewal) wrote tells it from any other."""

    name: str
    raw: bytes
    value: bytes


class Answer(NamedTuple):
    """The answer to an exchange or a renewal."""

    now: int
    """Microseconds."""
    value: bytes
    """The time that was written for all that was taken or renewed."""
    ours: list[bool]
    """Whether each record was still ours, and was settled or renewed."""
    taken: list[Record]
    unsure: bool
    """It was sent again: what is not ours by this answer may have been settled or renewed by the first."""


def exchange(
    outcomes: Sequence[tuple[Record, bytes]],
    wanted: int,
    names: Sequence[str],
    failed_size: int,
    *,
    round_robin: bool = False,
) -> Script[Answer]:
    """Settle, then take up to `wanted` jobs from the queues with these names."""
    every, numbers = _numbered([*names, *(record.name for record, _ in outcomes)])
    arguments = [b"%d" % max(failed_size, 0), b"%d" % len(outcomes), b"%d" % wanted, b"%d" % round_robin]
    for record, what in outcomes:
        arguments += (numbers[record.name], what, record.raw, record.value)
    arguments += (numbers[name] for name in names)
    return _about_records("exchange", arguments, every)


def settle(records: Sequence[Record], what: bytes, failed_size: int = 0) -> Script[Answer]:
    """Say that the same has become of several jobs, and take none."""
    return exchange([(record, what) for record in records], 0, (), failed_size)


def renew(records: Sequence[Record], *, refresh: bool) -> Script[Answer]:
    """Say that jobs are alive; or only look whether they are still ours."""
    every, numbers = _numbered([record.name for record in records])
    arguments = [b"%d" % refresh]
    for record in records:
        arguments += (numbers[record.name], record.raw, record.value)
    return _about_records("renew", arguments, every)


def _about_records(script: str, arguments: Sequence[bytes], names: tuple[str, ...]) -> Script[Answer]:
    def read(reply: Reply, unsure: bool) -> Answer:
        now, value, ours, *taken = reply
        found = [Record(names[number - 1], raw, value) for number, raw in zip(taken[::2], taken[1::2], strict=True)]
        return Answer(int(now), value, [byte == ord("1") for byte in ours], found, unsure)

    return Script(script, tuple(arguments), read, keys=names)


def now() -> Script[int]:
    """The server's time in milliseconds: what a renewal of nothing answers."""
    return Script("renew", (b"0",), lambda reply, _: int(reply[0]) // 1000)


def queue(jobs: Sequence[tuple[str, bytes]]) -> Script[int]:
    """New raw jobs, each with the name of its queue. Not recognised when repeated: the wire has no place for that."""
    every, numbers = _numbered([name for name, _ in jobs])
    arguments = tuple(argument for name, raw in jobs for argument in (numbers[name], raw))
    return Script("put", arguments, lambda reply, _: int(reply), keys=every, repeatable=False)


class Looked(NamedTuple):
    """Entries of a hash (field, value) or of a list (entry, nothing), and how many of the list are left."""

    now: int
    """Microseconds."""
    left: int
    found: list[tuple[bytes, bytes]]


def entries(name: str, kind: int, left: int = -1, needles: Sequence[bytes] = ()) -> Script[Looked]:
    """A whole hash, or a piece of a list: of the last `left` entries (-1: of all) as many as a script looks at."""

    def read(reply: Reply, _: bool) -> Looked:
        now, left, *found = reply
        if kind in (PROGRESS, BROKEN):
            return Looked(int(now), left, list(zip(found[::2], found[1::2], strict=True)))
        return Looked(int(now), left, [(raw, b"") for raw in found])

    return Script("entries", (b"%d" % kind, b"%d" % left, b"%d" % PIECE, *needles), read, keys=(name,))


def remove(name: str, raw: bytes, kinds: Sequence[int], *, again: bool = False) -> Script[bool]:
    """Take a job away from wherever it is among these; `again`: to put it in line."""
    arguments = (raw, b"%d" % again, *(b"%d" % kind for kind in kinds))
    return Script("remove", arguments, lambda reply, _: bool(reply), keys=(name,), repeatable=False)


def counts(names: Sequence[str]) -> Script[list[tuple[int, int, int, int]]]:
    return Script("counts", (), lambda reply, _: list(zip(*(iter(reply),) * 4, strict=True)), keys=tuple(names))


def destroy(name: str) -> Script[int]:
    return Script("destroy", (), lambda reply, _: int(reply), keys=(name,))


def walk(name: str, kind: int, needles: Sequence[bytes] = ()) -> Stepwise[Looked]:
    found: list[tuple[bytes, bytes]] = []
    left = -1
    while True:
        looked: Looked = yield entries(name, kind, left, needles)
        found += looked.found
        left = looked.left
        if not left:
            return looked._replace(found=found)


def keep(records: Sequence[Record], options: Options, *, refresh: bool = True) -> Stepwise[list[Record | None]]:
    """Keep jobs alive, or only look: the records as they are from now on; None for each that is no longer ours."""
    if not records:
        return []
    refresh = refresh and options.keep_alive
    renewed = yield renew(records, refresh=refresh)
    kept: list[Record | None] = []
    for record, ours in zip(records, renewed.ours, strict=True):
        new = record._replace(value=renewed.value) if refresh else record
        kept.append(new if ours else None)
    if renewed.unsure and refresh and None in kept:
        found = yield from _look_again(records, options.timeout)
        kept = [new or found.get(old) for old, new in zip(records, kept, strict=True)]
    return kept


def _look_again(records: Sequence[Record], timeout: float) -> Stepwise[dict[Record, Record]]:
    """After a renewal whose answer got lost: it may have been done, and then the value is one that we have not seen.

    A record that was ours less than a time-out ago is ours still: no monitor was allowed to give it to anyone.
    """
    ours = {}
    for name in dict.fromkeys(record.name for record in records):
        looked = yield entries(name, PROGRESS)
        values = dict(looked.found)
        for record in records:
            seen = read_time(record.value)
            fresh = seen is not None and looked.now - seen < timeout * 10**6
            if fresh and record.name == name and record.raw in values:
                ours[record] = record._replace(value=values[record.raw])
    return ours


def give_back(records: Sequence[Record]) -> Stepwise[list[bool]]:
    """Jobs to the front of their queues, in batches, as a monitor does; whether each was still as recorded.

    A record that was refreshed since is left alone.
    """
    given_back: list[bool] = []
    for first in range(0, len(records), BATCH):
        answer = yield settle(records[first : first + BATCH], GIVE_BACK)
        given_back += answer.ours
    return given_back


def _numbered(names: Sequence[str]) -> tuple[tuple[str, ...], dict[str, bytes]]:
    every = tuple(dict.fromkeys(names))
    return every, {name: b"%d" % number for number, name in enumerate(every, 1)}
