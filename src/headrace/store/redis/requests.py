"""Requests to bytes: what each script is sent. The formats are those of the headers in lua/."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from struct import Struct, calcsize

import msgspec

from headrace.errors import ConfigurationError
from headrace.records import Expiry, IfFailed, Lane, NewJob, Outcome, Ref, Report, SessionInfo, Take, Token
from headrace.store.facets import Edit, Past
from headrace.store.redis.layout import DATA, HEAD, INLINE, LARGE_BODY, LATEST, MORE, OPTIONS, STATES, UNIQUE
from headrace.store.redis.operation import PUT_AT_MOST
from headrace.values.glob import is_glob

_SHORT = Struct(">H").pack
_LONG = Struct(">I").pack
_WHEN = Struct(">BdiHHI").pack
_FRONT, _BACK = (
    "".join(HEAD[field] for field in fields)
    for fields in (("state", "flags", "token", "attempts", "crashes"), ("priority", "max_crashes", "length"))
)
_PLAIN, _BACK_SIZE = Struct(f">{_FRONT}iI{_BACK}").pack, calcsize(f">{_BACK}")
_UNIQUE = Struct(">dB").pack
_OUTCOME = Struct(">ddBBdddH").pack
_REPORT = Struct(">ddBddI").pack
_PAST = Struct(">ddIHddBBdd").pack
_LINE = Struct(">dI").pack
_ONE = Struct(">d").pack
_TWO = Struct(">dd").pack
_TAKE = Struct(">ddB").pack

SHORT = 100
"""As many names of queues are sent with each request; more of them are a list (lists.py)."""
READY = 1
_FAIL = IfFailed.FAIL  # Python 3.11 takes ten times as long for a member of an enumeration as for a global name


class _More(msgspec.Struct, omit_defaults=True):
    """What only some jobs say of themselves."""

    after: tuple[str, ...] = ()
    if_failed: IfFailed = IfFailed.FAIL
    lane: Lane | None = None
    tags: tuple[str, ...] = ()
    schedule: str | None = None
    tick: int | None = None
    expires: Expiry | None = None
    joining: bool = False
    nonce: str | None = None


def _name(value: str) -> bytes:
    """A name with its length before it."""
    encoded = value.encode()
    if len(encoded) > 65_535:
        raise ConfigurationError(f"{value[:20]!r}… takes {len(encoded):,} bytes; names may take 65,535.")
    return _SHORT(len(encoded)) + encoded


def as_named(job_id: str) -> bytes:
    """The id of a job that is there, as it is there (`records.name`)."""
    return job_id.encode(errors="surrogateescape")


def _check_priority(priority: int) -> None:
    if not -(2**31) <= priority < 2**31:
        raise ConfigurationError(f"priority={priority}: a priority takes 32 bits.")


def _time(value: float) -> float:
    return min(max(value, 0), LATEST)


def _expiry(expires: Expiry | None) -> Expiry | None:
    """In six bytes, like all times."""
    if expires is None:
        return None
    most = LATEST // 2
    return Expiry(*(None if value is None else min(max(value, 0), most) for value in (expires.at, expires.after)))


def has_more(job: NewJob) -> bool:
    """Whether it has anything that only some jobs have (lua/plan.lua)."""
    return bool(
        job.after
        or job.lane is not None
        or job.tags
        or job.schedule is not None
        or job.expires is not None
        or job.if_failed is not IfFailed.FAIL
        or job.nonce is not None
    )


def check_size(jobs: Sequence[NewJob]) -> None:
    """Refuse what would stop the server for long."""
    if len(jobs) > PUT_AT_MOST:
        raise ConfigurationError(
            f"One step puts {PUT_AT_MOST:,} jobs at most, not {len(jobs):,}: nobody else is served meanwhile. "
            "Nothing was written. Put them in several steps."
        )


def plain_jobs(jobs: Sequence[NewJob]) -> bytes | None:
    """The batch for `put_plain`, or None if there is anything special about one of them."""
    parts: list[bytes] = []
    names: dict[tuple[str, str], tuple[bytes, bytes]] = {}  # jobs of a batch have mostly the same
    for job in jobs:
        if (  # (with `has_more`: a call for each job would take as long as all the rest)
            job.run_at is not None
            or job.delay
            or job.unique_key is not None
            or job.require_worker
            or len(job.body) > INLINE
            or job.data is not None
            or job.after
            or job.lane is not None
            or job.tags
            or job.schedule is not None
            or job.expires is not None
            or job.if_failed is not _FAIL
            or job.nonce is not None
            or not -(2**31) <= job.priority < 2**31
        ):
            return None
        where = job.queue, job.task
        if where not in names:
            queue = _name(job.queue)
            names[where] = queue, queue + _name(job.task)
        queue, put = names[where]
        job_id, options = job.id.encode(), job.options
        put += job.body if options is None else _LONG(len(options)) + options + job.body
        parts += (
            _SHORT(len(job_id)), job_id, queue,
            _PLAIN(
                READY, 0 if options is None else OPTIONS, 0, 0, 0, job.priority, _BACK_SIZE + len(put),
                job.priority, min(job.max_crashes, 65_535), len(put),
            ),
            put,
        )  # fmt: skip
    return b"".join(parts)


def required(jobs: Sequence[NewJob]) -> bytes:
    """The pairs of queue and task that need a worker."""
    wanted = {(job.queue, job.task): None for job in jobs if job.require_worker}
    return b"".join(_name(queue) + _name(task) for queue, task in wanted)


def new_job(job: NewJob, named: int | None = None) -> bytes:
    """One job, as `put` and `tick` read it. `named`: how many of those that it comes after, if these are not all."""
    queue, flags, body = _name(job.queue), 0, job.body
    put = queue + _name(job.task)
    large = tail = b""
    if job.options is not None:
        flags |= OPTIONS
        put += _LONG(len(job.options)) + job.options
    if job.unique_key is not None:
        flags |= UNIQUE
        key = _name(job.unique_key)
        put += key
        tail = key + _UNIQUE(-1 if job.unique_for is None else min(job.unique_for, LATEST // 2), job.replace)
    if has_more(job):
        flags |= MORE
        more = msgspec.msgpack.encode(
            _More(
                after=job.after[:named],
                if_failed=job.if_failed,
                lane=job.lane,
                tags=tuple(dict.fromkeys(job.tags)),
                schedule=job.schedule,
                tick=job.tick,
                expires=_expiry(job.expires),
                joining=named is not None,
                nonce=job.nonce,
            )
        )
        tail += _LONG(len(more)) + more
    if job.data is not None:
        flags |= DATA
        tail += _LONG(len(job.data)) + job.data
    if len(body) > INLINE:
        flags |= LARGE_BODY
        large = _LONG(len(body)) + body
    else:
        put += body
    if job.run_at is not None:
        when, time = 1, _time(job.run_at)
    elif job.delay:
        when, time = 2, min(job.delay, LATEST // 2)
    else:
        when, time = 0, 0
    _check_priority(job.priority)
    fixed = _WHEN(when, time, job.priority, min(job.max_crashes, 65_535), flags, len(put))
    return _name(job.id) + queue + fixed + put + large + tail


def joining(job_id: str, parents: Sequence[str], *, last: bool) -> bytes:
    """More of what a job comes after that its batch has brought in: see lua/put.lua."""
    return b"p" + _name(job_id) + (b"\1" if last else b"\0") + names(parents)


def outcomes(all_: Iterable[Outcome], steady: int) -> bytes:
    """What became of runs. The worker's times are told as how long ago."""
    parts: list[bytes] = []
    for outcome in all_:
        job_id = as_named(outcome.id)
        began, ended = outcome.began, outcome.ended
        given, rest = _rare(outcome)
        if outcome.at is not None:
            given |= 1
            when = _time(outcome.at)
        else:
            when = min(outcome.delay, LATEST // 2)
        if began is not None:
            given |= 2
        if ended is not None:
            given |= 4
        parts += (
            _SHORT(len(job_id)), job_id,
            _OUTCOME(
                outcome.ref, outcome.token, outcome.kind, outcome.charge, when,
                0 if began is None else steady - began, 0 if ended is None else steady - ended, given,
            ),
            rest,
        )  # fmt: skip
    return b"".join(parts)


def _rare(outcome: Outcome) -> tuple[int, bytes]:
    """What only some outcomes have, and the bits that say which."""
    given, rest = 0, b""
    if outcome.kind:  # all but done
        for bit, name in ((8, outcome.queue), (16, outcome.task), (32, outcome.group), (64, outcome.note or None)):
            if name is not None:
                given |= bit
                rest += _name(name)
        if outcome.body is not None:
            given |= 128
            rest += _LONG(len(outcome.body)) + outcome.body
    if outcome.data is not None:
        given |= 256
        rest += _LONG(len(outcome.data)) + outcome.data
    if outcome.result is not None:
        given |= 512
        rest += _LONG(len(outcome.result)) + outcome.result
    if outcome.error is not None:
        given |= 1024
        rest += _LONG(len(outcome.error)) + outcome.error
    if outcome.after:
        given |= 2048
        after = names(outcome.after)
        rest += _LONG(len(after)) + after
    if outcome.account is not None:
        given |= 4096
        rest += _LONG(len(outcome.account)) + outcome.account
    if outcome.base is not None:
        given |= 8192
        rest += _LONG(len(outcome.base)) + outcome.base
    return given, rest


def wanted(take: Take | None, shortened: Callable[[Sequence[str]], Sequence[str]]) -> bytes:
    """What to take, if anything."""
    if take is None:
        return b""
    named = take.queues if len(take.queues) <= SHORT else shortened(take.queues)
    queues = b"".join(map(_name, dict.fromkeys(named)))
    how, more = int(take.round_robin), b""
    if take.grace:
        how, more = how | 2, _ONE(take.grace)
    if take.above is not None:
        how, more = how | 4, more + _ONE(take.above)
    return _TAKE(take.slots, take.spare, how) + more + queues


def names(all_: Iterable[str]) -> bytes:
    """Names of whatever kind."""
    return b"".join(map(_name, all_))


def edit(change: Edit) -> tuple[bytes, ...]:
    """What to change, in the order of lua/scripts/edit.lua: empty, or after an equals sign."""
    if change.priority is not None:
        _check_priority(change.priority)
    if change.queue is not None:
        _name(change.queue)
    run_at = None if change.run_at is None else _time(change.run_at)
    delay = None if change.delay is None else min(change.delay, LATEST // 2)
    texts = (change.queue, change.priority, run_at, delay)
    expires = None if change.expires is None else msgspec.msgpack.encode(_expiry(change.expires))
    values = (change.body, change.options, change.data, expires)
    return (
        *(b"" if text is None else b"=%s" % str(text).encode() for text in texts),
        *(b"" if value is None else b"=" + value for value in values),
    )


def pasts(all_: Sequence[Past]) -> bytes:
    """What jobs went through, as lua/scripts/restore.lua reads it."""
    parts: list[bytes] = []
    for past in all_:
        done, total = past.progress or (0, 0)
        optional = (past.progress, past.result, past.error, past.group, past.result_dropped or None)
        given = sum(1 << place for place, value in enumerate(optional) if value is not None)
        moments = (_time(past.started or 0), _time(past.finished or 0))
        state = 0 if past.state is None else STATES.index(past.state)
        numbers = (past.attempts, past.crashes, *moments, state, given, done, total)
        parts += [_name(past.id), _PAST(_time(past.created), _time(past.due), *numbers)]
        parts += [part for value in (past.result, past.error) for part in (_LONG(len(value or b"")), value or b"")]
        parts.append(_name(past.group or ""))
    return b"".join(parts)


def reports(all_: Sequence[Report], steady: int) -> bytes:
    """What runs say about themselves."""
    parts: list[bytes] = []
    for report in all_:
        given = (report.progress is not None) | (report.data is not None) << 1 | (report.base is not None) << 2
        given |= (report.account is not None) << 3
        done, total = report.progress or (0, 0)
        data = report.data or b""
        parts += [
            _name(report.id),
            _REPORT(report.ref, report.token, given, done, total, len(data)),
            data,
            _SHORT(len(report.log)),
            b"" if report.base is None else _LONG(len(report.base)) + report.base,
            b"" if report.account is None else _LONG(len(report.account)) + report.account,
        ]
        for at, line in report.log:
            encoded = line.encode()
            parts += [_LINE(steady - at, len(encoded)), encoded]
    return b"".join(parts)


def held(leases: Sequence[tuple[Ref, Token, str]]) -> bytes:
    """Leases by which a session asks what has become of them."""
    parts: list[bytes] = []
    for ref, token, job_id in leases:
        named = as_named(job_id)
        parts += (_SHORT(len(named)), named, _TWO(ref, token))
    return b"".join(parts)


def numbers(refs: Iterable[Ref]) -> bytes:
    """Arrival numbers."""
    return b"".join(map(_ONE, refs))


def introduction(info: SessionInfo) -> tuple[bytes, ...]:
    """A session as it introduces itself, and what it listens to and knows as fields of its hash."""
    fields: list[str] = []
    for queue in info.queues:
        fields += (f"queue:{queue}", "1")
    for task in info.tasks:
        fields += (f"task:{task}", "1")
    if patterns := [queue for queue in info.queues if is_glob(queue)]:
        fields += ("patterns", msgspec.json.encode(patterns).decode())
    return (
        info.id.encode(),
        info.name.encode(),
        b"%d" % info.timeout,
        msgspec.json.encode(info),
        msgspec.msgpack.encode(fields),
    )


def clock(now: int, steady: int) -> bytes:
    """A test's clock."""
    return _TWO(now, steady)
