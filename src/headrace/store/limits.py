"""What stores with relations, lanes and schedules refuse before they write, and how a dependency fails in words."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from headrace.errors import ConfigurationError, DependencyCycle
from headrace.records import Lane, NewJob, ScheduleRecord
from headrace.store.facets import Edit
from headrace.values.codec import ErrorText, decode_error, encode_error
from headrace.values.names import HIGHEST_COUNT, check_count, check_weight

DEPENDENCY = "dependency"
"""The group of jobs that failed because of others that they came after."""
EDGES_IN_A_STEP = 100
"""How many dependents one call releases or fails, at most: 50 µs each on Redis, which serves nothing else meanwhile."""
FOLLOWERS_IN_A_STEP = 100
"""Of those that come after a job that retention has given up, so many are looked at in one call."""
EDGES_TO_CHECK = 10_000
"""How far the search for a cycle goes."""
MOST_PARENTS = 10_000
DEPENDANTS_LOOKED_AT = 1_000
"""How many of the jobs that come after one are looked at to find those that have not ended."""
HIGHEST_RATE = 10_000
SHORTEST_START = 100
"""However short the period of a rate is, a worker that needs so many milliseconds to start a job gets them: with less
it would give back job after job."""
LANES_AHEAD = 1_000
"""How many milliseconds after now a lane's round is due at most, however fast its rounds follow each other."""
LATELY = 100_000
"""How many of the newest jobs, and of those that ended last in each way, in and out rates are derived from."""
EXPIRED = "expired"
"""The group of jobs that had not started by the time at which they expire."""
ACTS_KEPT = 100_000
ACTS_KEPT_FOR = 90 * 86_400_000
"""How many acts of operators a store remembers, and for how many milliseconds. The next act removes older ones."""
ACTS_IN_A_STEP = 100
"""How many of the oldest acts the next one looks at."""
PASSED_IN_A_STEP = 200
"""How many jobs leave their lines in one call, at most, because they have expired or their tasks are blocked. As many
come back in one when a block is lifted."""
MOST_BLOCKS = 1_000
TOO_MANY_BLOCKS = f"{MOST_BLOCKS:,} tasks are blocked, which is the most. To keep other jobs back, pause their queues."
NOT_STARTED = "It had not started when it expired."
MOST_STRAYS = 100
"""How many leases that its worker does not know one renewal tells of."""
UPDATES_TOLD = 25
"""Of how many jobs one renewal tells the data that others have changed: a megabyte each, perhaps. Each has its turn."""
SHOWN = 10
"""How many jobs are named, at most, where somebody asks why one does not run."""


def what_changes(change: Edit) -> str:
    """An edit in words, for the job's history."""
    words = (
        (change.queue, f"queue {change.queue}"),
        (change.priority, f"priority {change.priority}"),
        (change.run_at if change.delay is None else change.delay, "time"),
        (change.body, "arguments"),
        (change.options, "options"),
        (change.data, "data"),
        (change.expires, "expiry"),
    )
    return ", ".join(word for value, word in words if value is not None)


def what_is_set(name: str, value: int | None) -> str:
    """A setting that changes, in an event."""
    return f"{name} {'default' if value is None else value}"


def what_depends(add: Sequence[str], remove: Sequence[str]) -> str:
    """The same of a change of what a job comes after."""
    words = ((add, "more"), (remove, "less"))
    return "comes after " + ", ".join(f"{len(ids)} {word}" for ids, word in words if ids)


def without_nul(jobs: Sequence[NewJob]) -> Sequence[NewJob]:
    """Refuse jobs whose names have a NUL: PostgreSQL keeps none in texts, and would take two names for one."""
    for job in jobs:
        names = (job.id, job.task, job.queue, job.unique_key, job.lane and job.lane.key, *job.tags, *job.after)
        for name in names:
            if name and "\0" in name:
                raise ConfigurationError(f"PostgreSQL keeps no NUL characters: {name!r} has one. Use another name.")
    return jobs


def check_batch(jobs: Sequence[NewJob]) -> None:
    """Refuse what cannot be meant. Looks at the batch alone, not at what is in the store."""
    special = [job for job in jobs if job.after or job.lane is not None]
    if not special:
        return
    first: dict[str, int] = {}
    for place, job in enumerate(jobs):
        first.setdefault(job.id, place)
    sequences: dict[tuple[str, str], bool] = {}
    for place, job in enumerate(jobs):
        if job.after:
            _check_after(job, place, first)
        if job.lane is not None:
            _check_lane(job, job.lane)
            if sequences.setdefault((job.queue, job.lane.key), job.lane.sequence) != job.lane.sequence:
                raise not_both(job.queue, job.lane)


def check_blocks(task: str, blocked: Collection[str]) -> None:
    """Refuse one task more than the block list has room for: every take goes by it."""
    if task not in blocked and len(blocked) >= MOST_BLOCKS:
        raise ConfigurationError(f"{TOO_MANY_BLOCKS} Nothing was written.")


def check_parents(job_id: str, number: int) -> None:
    """Refuse more than a job may come after."""
    if number > MOST_PARENTS:
        raise ConfigurationError(
            f"Job {job_id} comes after {number:,} jobs; {MOST_PARENTS:,} are the most. Let some of them wait for "
            "others, and this one for those."
        )


def _check_after(job: NewJob, place: int, first: dict[str, int]) -> None:
    check_parents(job.id, len(job.after))
    for parent in job.after:
        if parent == job.id or first.get(parent, -1) >= place:
            what = "itself" if parent == job.id else f"job {parent}, which stands behind it in the same batch"
            raise DependencyCycle(f"Job {job.id} comes after {what}. Put jobs in the order in which they wait.")


def check_schedule(record: ScheduleRecord) -> None:
    """Refuse a schedule whose jobs could not be put."""
    lane = record.definition.lane
    if lane is not None:
        what = f"Lane {lane.key!r} of schedule {record.name!r}"
        _check_numbers(what, lane)
        if lane.sequence:
            raise ConfigurationError(f"{what} is a sequence: a job of a schedule can't stand in it.")


def _check_lane(job: NewJob, lane: Lane) -> None:
    what = f"Lane {lane.key!r} of job {job.id}"
    _check_numbers(what, lane)
    if lane.sequence and job.after:
        raise ConfigurationError(f"{what} is a sequence: its jobs come after each other, and can't come after others.")
    if lane.sequence and job.schedule is not None:
        raise ConfigurationError(f"{what} is a sequence: a job of a schedule can't stand in it.")


def _check_numbers(what: str, lane: Lane) -> None:
    if not lane.key:
        raise ConfigurationError(f"{what} needs a key: '' is empty.")
    _check_rules(what, lane.limit, lane.rate, lane.per)
    if lane.weight is not None:
        check_weight(f"{what}: weight", lane.weight)


def check_lane_rule(queue: str, key: str, limit: int | None, rate: int | None, per: int) -> None:
    """Refuse what can't be set for a lane."""
    what = f"Lane {key!r} of queue {queue!r}"
    if not key:
        raise ConfigurationError(f"{what} needs a key: '' is empty.")
    if limit is None and rate is None:
        raise ConfigurationError(f"{what}: a limit or a rate is set, or both.")
    _check_rules(what, limit, rate, per)


def _check_rules(what: str, limit: int | None, rate: int | None, per: int) -> None:
    """The limit and the rate of a lane; 0 is none."""
    _check_limit(what, limit or None)
    if rate and not 1 <= rate <= HIGHEST_RATE:
        raise ConfigurationError(f"{what}: a rate is from 1 to {HIGHEST_RATE:,} starts, not {rate}.")
    if not 1 <= per <= HIGHEST_COUNT:
        raise ConfigurationError(f"{what}: a rate is per 1 millisecond or more, not {per}.")


def round_at(after: int, now: int) -> int:
    """When a lane's next round is due: now, or at `after` if that is later, but not far ahead of the clock.

    >>> round_at(5, 10), round_at(12, 10), round_at(9_999, 10)
    (10, 12, 1010)
    """
    return max(now, min(after, now + LANES_AHEAD))


def start_within(per: int, needed: int, before: int) -> int:
    """How many milliseconds a worker has to start a job of a lane with a rate `per` so many, if it needs some.

    >>> start_within(60_000, 0, 0), start_within(60_000, 1_200, 0), start_within(1, 40, 0), start_within(60_000, -1, 0)
    (900, 1200, 40, 0)

    `before`: in how many the lane's last start is over, as the rate counts it. This one comes no earlier.

    The rate counts a start as late as twice this after its hand-out: 3 % of the period, unless a worker needs more. The
    second half is for what no worker can see, between its look at the clock and the first line of the task.
    """
    most = max(per, SHORTEST_START)
    within = 0 if needed < 0 else min(max(3 * per // 200, needed, 1), most)
    return within if before > 2 * most else max(within, (before + 1) // 2)  # (or the clock was set back)


def check_limit(queue: str, running: int | None) -> None:
    """Refuse a limit that stops a queue, or that is no number to keep."""
    _check_limit(f"Queue {queue!r}", running)


def _check_limit(what: str, limit: int | None) -> None:
    if limit is None:
        return
    if isinstance(limit, int) and limit < 1:
        raise ConfigurationError(f"{what}: a limit is at least 1, not {limit}. To stop a queue, pause it.")
    check_count(f"{what}: a limit", limit, 1)


def check_moment(run_at: int | None, delay: int | None) -> None:
    """At most one of them says when."""
    if run_at is not None and delay is not None:
        raise ConfigurationError("An edit says when to run by `run_at` or by `delay`, not by both.")


def not_both(queue: str, lane: Lane) -> ConfigurationError:
    """A lane with unfinished jobs was put to another use."""
    is_one, wanted = ("is not a sequence", "one") if lane.sequence else ("is a sequence", "something else")
    return ConfigurationError(
        f"Lane {lane.key!r} of queue {queue!r} {is_one}: it can't become {wanted} while it has unfinished jobs. "
        "Use another key."
    )


def no_dependencies_in(queue: str, lane: Lane) -> str:
    return f"Lane {lane.key!r} of queue {queue!r} is a sequence: its jobs can't wait for others."


WOULD_BE_A_CYCLE = "Job {} can't come after job {}, which comes after it. Nothing was changed."
TOO_DEEP_TO_DEPEND = (
    "What job {} would come after waits for so many others that it is too deep to check for a cycle. "
    "Nothing was changed."
)


def cycle(job_id: str, parent: str) -> DependencyCycle:
    return DependencyCycle(WOULD_BE_A_CYCLE.format(job_id, parent))


def too_deep(job_id: str) -> DependencyCycle:
    return DependencyCycle(TOO_DEEP_TO_DEPEND.format(job_id))


WAITS_FOR_ITSELF = "One of the jobs that it would wait for waits for it."
TOO_DEEP_TO_WAIT = "What it would wait for waits for so many others that it is too deep to check for a cycle."
FAILED_PARENT = "It comes after job {}, which failed"
CANCELLED_PARENT = "It comes after job {}, which was cancelled."
REMOVED_PARENT = "It comes after job {}, which was removed before it was done."


CAUSE = 1_000
"""How many bytes of a culprit's error its dependents carry."""


def own_error(words: str) -> bytes:
    """Why a store has failed a job, as workers write errors."""
    return encode_error(ErrorText("", words))


def failed_with(parent: str, error: bytes | None, *, passed_on: bool) -> bytes:
    """Why a job failed whose parent failed. `passed_on`: the parent failed because of its own, the culprit of both."""
    if error is not None and passed_on:
        return error
    told = decode_error(error)
    cause = ": ".join(part for part in (told.type, told.message) if part)
    encoded = cause.encode()
    if len(encoded) > CAUSE:
        cause = encoded[:CAUSE].decode(errors="ignore") + "…"
    return own_error(FAILED_PARENT.format(parent) + (f": {cause}" if cause else "."))
