"""What operators do to jobs, queues and stores."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from headrace import outside
from headrace.errors import ConfigurationError, StillNeeded, Unsupported
from headrace.ops import audit
from headrace.ops.audit import Change, Tally, shown
from headrace.ops.forms import forms, threaded
from headrace.ops.look import controls_course
from headrace.ops.selection import Selection
from headrace.records import Counts, Filter, Lane, Page, SessionSnapshot, Snapshot, State
from headrace.store import Store, damaged
from headrace.store.contract import StopsWorkers
from headrace.store.courses import Course, ask
from headrace.store.facets import Editing, Queues, Tags, facet
from headrace.store.lanes import Lanes, LaneSnapshot
from headrace.store.limits import DEPENDENCY
from headrace.store.paging import PAGE, PASSES, following, whole_page_course
from headrace.store.urls import shown_url
from headrace.values.names import check_queue, check_tags
from headrace.values.text import count_of, length

if TYPE_CHECKING:
    from headrace.app import Headrace


class Acted(Struct, frozen=True):
    """What became of a request about one job."""

    id: str
    ok: bool
    outcome: str
    """In words: what was done, or why not."""


class Reached(NamedTuple):
    """Of the jobs of a selection: for how many it was done, and for how many not."""

    done: int
    refused: int


# -- cancel, delete, revive, requeue, take back ------------------------------------------------------------------


About = tuple[str, Sequence[Change]]
"""A job's id, and what an act changes about it."""


class Verb(Struct, frozen=True):
    """Something that can be done to jobs."""

    name: str
    done: str
    """The past participle."""
    states: tuple[State, ...]
    """The jobs that are meant when a filter names no state."""
    do: Callable[[Store, Sequence[str]], Course[list[bool]]]
    outcome: Callable[[bool, Snapshot | None], str] | None = None
    """What became of one, from a look afterwards; None: the answer says it all."""
    changes: Callable[[Snapshot], Iterable[Change]] | None = None
    """What it changes about a job, for the trail."""
    not_group: str | None = None
    """Failed jobs that are not meant when a filter names no group."""
    oldest: bool = False
    """With a limit it is done to the oldest jobs, in the order of arrival, not to the newest."""

    def about(self, job: Snapshot) -> About:
        return job.id, () if self.changes is None else tuple(self.changes(job))

    def meant(self, selection: Selection) -> Selection:
        """The selection with what it leaves open filled in."""
        wanted = selection.wanted
        return replace(
            selection,
            wanted=replace(wanted, states=wanted.states or self.states),
            not_group=self.not_group if wanted.group is None else None,
        )


def delete_unneeded(store: Store, ids: Sequence[str]) -> Course[list[bool]]:
    """Delete all but those that other jobs still need."""
    if not ids:
        return []
    try:
        return (yield from ask(store.delete(ids)))
    except StillNeeded:
        if len(ids) == 1:
            return [False]
    middle = len(ids) // 2
    first = yield from delete_unneeded(store, ids[:middle])
    return first + (yield from delete_unneeded(store, ids[middle:]))


def _cancelled(done: bool, job: Snapshot | None) -> str:
    if not done:
        return "not found" if job is None else "done already"
    # Some dialects keep nothing of a cancelled job.
    return "told to stop" if job is not None and job.state is State.RUNNING else "cancelled"


def _revived(done: bool, job: Snapshot | None) -> str:
    if done:
        return "revived"
    if job is None:
        return "not found"
    if job.state is State.FAILED and job.group == damaged.GROUP and not job.task:
        return "refused: it is damaged, and cannot be run"
    if job.state in (State.FAILED, State.CANCELLED):
        return "refused: another job has its unique key"
    return f"refused: it is {job.state}"


def _requeued(done: bool, job: Snapshot | None) -> str:
    if not done and job is not None and job.state is State.DONE:
        return "refused: another job has its unique key"
    return "requeued" if done else "not found" if job is None else f"refused: it is {job.state}"


def _taken_back(done: bool, job: Snapshot | None) -> str:
    return "back in line" if done else "not found" if job is None else f"refused: it is {job.state}"


AT_REST = tuple(state for state in State if state is not State.RUNNING)
UNFINISHED = tuple(state for state in State if not state.final)

CANCEL = Verb("cancel", "cancelled", UNFINISHED, lambda store, ids: ask(store.cancel(ids)), _cancelled)
DELETE = Verb("delete", "deleted", AT_REST, lambda store, ids: ask(store.delete(ids)))
"""`StillNeeded` if other jobs wait for one of them."""
DELETE_UNNEEDED = replace(DELETE, do=delete_unneeded)
REVIVE = Verb(
    "revive",
    "revived",
    (State.FAILED,),
    lambda store, ids: ask(store.revive(ids)),
    _revived,
    not_group=DEPENDENCY,
    oldest=True,
)
"""A job that failed because of another one comes back with that one."""


def revive_to(queue: str) -> Verb:
    """Revive jobs in another queue."""
    return replace(REVIVE, do=_again(queue, (State.FAILED, State.CANCELLED)), changes=_moved_to(queue))


def requeue(to: str | None = None) -> Verb:
    """Run jobs again that are done, in another queue if one is named."""
    do = _again(to, (State.DONE,))
    return Verb("requeue", "requeued", (State.DONE,), do, _requeued, _moved_to(to), oldest=True)


def take_back(to: str | None = None) -> Verb:
    """Take running jobs away from their workers, into another queue if one is named."""
    queue = None if to is None else check_queue(to)
    return Verb(
        "take back",
        "taken back",
        (State.RUNNING,),
        lambda store, ids: ask(facet(store, Editing).take_back(ids, queue)),
        _taken_back,
        _moved_to(to),
    )


def _moved_to(queue: str | None) -> Callable[[Snapshot], Iterable[Change]] | None:
    return None if queue is None else lambda job: [Change("queue", job.queue, queue)]


def _again(to: str | None, ended: tuple[State, ...]) -> Callable[[Store, Sequence[str]], Course[list[bool]]]:
    queue = None if to is None else check_queue(to)
    return lambda store, ids: ask(facet(store, Editing).requeue(ids, queue, ended))


def to_jobs_course(app: Headrace, verb: Verb, ids: Sequence[str]) -> Course[list[Acted]]:
    """Do something to jobs: what became of each."""
    before: Sequence[Snapshot | None] = (yield app.store.get(ids)) if verb.changes else [None] * len(ids)
    done = yield from verb.do(app.store, ids)
    tally = Tally()
    for job_id, job in compress(zip(ids, before, strict=True), done):
        tally.add(*((job_id, ()) if job is None else verb.about(job)))
    yield from audit.note(app.store, verb.name, tally)
    if verb.outcome is None:
        return _named(ids, done, verb.done)
    after: list[Snapshot | None] = yield app.store.get(ids)
    return [Acted(job_id, ok, verb.outcome(ok, job)) for job_id, ok, job in zip(ids, done, after, strict=True)]


to_jobs, ato_jobs = forms(to_jobs_course)


def _named(ids: Sequence[str], done: Sequence[bool], words: str) -> list[Acted]:
    return [Acted(job_id, ok, words if ok else "not found") for job_id, ok in zip(ids, done, strict=True)]


def to_all_course(
    app: Headrace,
    verb: Verb,
    selection: Selection,
    *,
    limit: int | None = None,
    advance: Callable[[int], Any] = lambda number: None,
) -> Course[Reached]:
    """Do something to all jobs of a selection. `advance` is called with the number of jobs of each step.

    Where a store finds a page by counting, jobs that leave the selection make others move up past the next page. So it
    begins again until it meets no job that it has not met before; a job that comes back is not met twice.
    """
    tally = Tally()
    try:
        if limit is not None and verb.oldest:
            reached = yield from _to_oldest(app, verb, selection, limit, advance, tally)
        else:
            reached = yield from _to_newest(app, verb, selection, limit, advance, tally)
    except GeneratorExit:
        raise
    except BaseException:  # (Ctrl-C, or a store that went away: what was done until then is in the trail)
        yield from audit.note(app.store, verb.name, tally)
        raise
    yield from audit.note(app.store, verb.name, tally)
    return reached


to_all, ato_all = forms(to_all_course)


def _to_newest(
    app: Headrace, verb: Verb, selection: Selection, limit: int | None, advance: Callable[[int], Any], tally: Tally
) -> Course[Reached]:
    met: set[str] = set()
    done = 0
    for _ in range(PASSES):
        before = len(met)
        wanted: Filter | None = replace(selection.wanted, limit=PAGE)
        while wanted is not None:
            page: Page = yield app.store.find(wanted)
            jobs = [verb.about(job) for job in page.jobs if selection.fits(job) and job.id not in met]
            if limit is not None:
                jobs = jobs[: limit - len(met)]
            if jobs:
                done += yield from _to_some(app, verb, jobs, tally)
                met.update(job_id for job_id, _ in jobs)
                advance(len(jobs))
            if limit is not None and len(met) >= limit:
                return Reached(done, len(met) - done)
            wanted = following(wanted, page)
        if len(met) == before:
            break
    return Reached(done, len(met) - done)


def _to_oldest(
    app: Headrace, verb: Verb, selection: Selection, limit: int, advance: Callable[[int], Any], tally: Tally
) -> Course[Reached]:
    """Pages have the newest jobs first, so all are read before it is done to any."""
    oldest: deque[About] = deque(maxlen=limit)
    wanted: Filter | None = replace(selection.wanted, limit=PAGE)
    while wanted is not None:
        page: Page = yield app.store.find(wanted)
        oldest.extend(verb.about(job) for job in page.jobs if selection.fits(job))
        wanted = following(wanted, page)
    jobs, done = list(dict(reversed(oldest)).items()), 0
    for first in range(0, len(jobs), PAGE):
        some = jobs[first : first + PAGE]
        done += yield from _to_some(app, verb, some, tally)
        advance(len(some))
    return Reached(done, len(jobs) - done)


def _to_some(app: Headrace, verb: Verb, jobs: Sequence[About], tally: Tally) -> Course[int]:
    acted = yield from verb.do(app.store, [job_id for job_id, _ in jobs])
    for job_id, changes in compress(jobs, acted):
        tally.add(job_id, changes)
    return sum(acted)


# -- purge -----------------------------------------------------------------------------------------------


class Purged(Struct, frozen=True):
    """How many jobs were deleted, and how many kept because other jobs wait for them."""

    deleted: int
    kept: int


def count_at_most_course(app: Headrace, wanted: Filter) -> Course[int | None]:
    """How many jobs there are in these states; None if there are such as the store does not count."""
    counts: list[Counts] = yield app.store.counts()
    most = 0
    for state in wanted.states:
        counted = sum(c.by_state.get(state, 0) for c in counts if wanted.queue in (None, c.queue))
        if not counted:
            one = Filter(states=(state,), queue=wanted.queue, limit=1)
            if (yield from whole_page_course(app.store, one, looks=None)).jobs:
                return None
        most += counted
    return most


count_at_most, acount_at_most = forms(count_at_most_course)


def purge_course(
    app: Headrace, wanted: Filter, finished_before_ms: int, *, advance: Callable[[int], Any] = lambda number: None
) -> Course[Purged]:
    """Delete jobs that finished before a moment, in milliseconds since 1970.

    Where a page is found by counting, those that go make others move up past it: it begins again until none go.
    """
    deleted = kept = 0
    for _ in range(PASSES):
        gone = kept = 0
        more: Filter | None = replace(wanted, limit=PAGE)
        while more is not None:
            page: Page = yield app.store.find(more)
            ids = [job.id for job in page.jobs if job.finished is not None and job.finished <= finished_before_ms]
            done = yield from delete_unneeded(app.store, ids)
            gone += sum(done)
            kept += len(done) - sum(done)
            advance(len(page.jobs))
            more = following(more, page)
        deleted += gone
        if not gone:
            break
    yield from audit.note(app.store, "purge", f"{deleted:,} jobs" if deleted else "")
    return Purged(deleted, kept)


purge, apurge = forms(purge_course)


# -- tags ------------------------------------------------------------------------------------------------


def tag_course(
    app: Headrace, ids: Sequence[str], add: Sequence[str] = (), remove: Sequence[str] = ()
) -> Course[list[Acted]]:
    """Add and remove tags."""
    known: list[bool] = yield facet(app.store, Tags).tag(ids, check_tags(add), check_tags(remove))
    signed = [f"{sign}{tag}" for sign, tags in (("+", add), ("-", remove)) for tag in tags]
    yield from audit.note(app.store, "tag", _with(list(compress(ids, known)), ", ".join(signed)))
    return _named(ids, known, "tagged")


tag, atag = forms(tag_course)


def track_course(app: Headrace, ids: Sequence[str], on: bool = True) -> Course[list[Acted]]:
    """Track jobs, or stop tracking them."""
    known: list[bool] = yield facet(app.store, Tags).track(ids, on)
    yield from audit.note(app.store, "track" if on else "untrack", list(compress(ids, known)))
    return _named(ids, known, "tracked" if on else "no longer tracked")


track, atrack = forms(track_course)


def _with(ids: Sequence[str], words: str) -> str:
    """A line about jobs, with what was done to them."""
    return f"{Tally(ids)}: {words}" if ids and words else str(Tally(ids))


# -- what is added from outside ---------------------------------------------------------------------------


def log_course(app: Headrace, ids: Sequence[str], line: str) -> Course[list[Acted]]:
    """Add a line to the histories of jobs."""
    known = yield from outside.log_course(app, ids, line)
    yield from audit.note(app.store, "log", _with(list(compress(ids, known)), shown(line)))
    return _named(ids, known, "logged")


log, alog = forms(log_course)


def update_course(
    app: Headrace, ids: Sequence[str], changes: Mapping[str, Any], remove: Collection[str] = ()
) -> Course[list[Acted]]:
    """Set and remove keys of the data of jobs, each job by itself."""
    change, known = outside.setting(changes, remove), list[bool]()
    for job_id in ids:
        known += [(yield from outside.update_course(app, job_id, change))]
    said = [f"{name} to {shown(value)}" for name, value in changes.items()] + [f"-{name}" for name in remove]
    yield from audit.note(app.store, "update", _with(list(compress(ids, known)), ", ".join(said)))
    return _named(ids, known, "updated")


update, aupdate = forms(update_course)


# -- queues ----------------------------------------------------------------------------------------------


class QueueChange(Struct, frozen=True):
    """What became of a request to pause or resume a queue."""

    queue: str
    paused: bool
    changed: bool
    """False: it was so already."""
    stopped: int = 0
    """Running jobs that were put back in line."""


def pause_course(
    app: Headrace, queue: str, by: str | None = None, *, stop_running: bool = False
) -> Course[QueueChange]:
    """Hand out nothing more from a queue. `stop_running`: put back in line what runs, without spending an attempt.

    `by`: the name that `why` and the trail show; if not given, `audit.operator()`.
    """
    handle, who = app.queue(queue), by or audit.operator()
    changed = yield from handle.pausing(who, False)
    stopped = (yield from handle.stopping()) if stop_running else 0
    words = f", {count_of(stopped, 'running job')} put back in line" if stopped else ""
    yield from audit.note(app.store, "pause", f"queue {queue}{words}" if changed or stopped else "", who)
    return QueueChange(queue, True, changed, stopped)


pause, apause = forms(pause_course)


def resume_course(app: Headrace, queue: str) -> Course[QueueChange]:
    """Hand out the jobs of a paused queue again."""
    resumed: bool = yield app.queue(queue).resuming()
    yield from audit.note(app.store, "resume", f"queue {queue}" if resumed else "")
    return QueueChange(queue, False, resumed)


resume, aresume = forms(resume_course)


def toggle_pause_course(app: Headrace, queue: str, by: str | None = None) -> Course[QueueChange]:
    """Resume a queue that is paused, else pause it."""
    facet(app.store, Queues)
    control = (yield from controls_course(app.store)).get(queue)
    if control is not None and control.paused_at is not None:
        return (yield from resume_course(app, queue))
    return (yield from pause_course(app, queue, by))


toggle_pause, atoggle_pause = forms(toggle_pause_course)


def limit_course(app: Headrace, queue: str, running: int | None) -> Course[None]:
    """Let at most so many jobs of a queue run at once; None: no limit."""
    before = (yield from controls_course(app.store)).get(queue)
    yield app.queue(queue).limiting(running)
    change = Change("limit", None if before is None else before.limit, running)
    yield from audit.note(app.store, "limit", f"queue {queue}: {change}")


limit, alimit = forms(limit_course)


# -- lanes -----------------------------------------------------------------------------------------------


def _rules_of_lane(app: Headrace, queue: str, key: str) -> Course[Lane]:
    found: LaneSnapshot | None = yield facet(app.store, Lanes).lane(queue, key)
    return Lane(key) if found is None else found.lane


def limit_lane_course(app: Headrace, queue: str, key: str, running: int | None) -> Course[None]:
    """Let at most so many jobs of a lane run at once, whatever calls say; None: no limit."""
    before = yield from _rules_of_lane(app, queue, key)
    yield app.queue(queue).lane(key).limiting(running, audit.operator())
    yield from audit.note(app.store, "limit", f"lane {key} of queue {queue}: {Change('limit', before.limit, running)}")


limit_lane, alimit_lane = forms(limit_lane_course)


def rate_lane_course(app: Headrace, queue: str, key: str, starts: str | None) -> Course[None]:
    """Let at most so many jobs of a lane start within a time ("10/minute"), whatever calls say; None: no rate."""
    before = yield from _rules_of_lane(app, queue, key)
    yield app.queue(queue).lane(key).rating(starts, audit.operator())
    change = Change("rate", f"{before.rate} per {length(before.per)}" if before.rate else None, starts)
    yield from audit.note(app.store, "rate", f"lane {key} of queue {queue}: {change}")


rate_lane, arate_lane = forms(rate_lane_course)


def clear_lane_course(app: Headrace, queue: str, key: str) -> Course[bool]:
    """Let calls decide again about the limit and the rate of a lane. False: nothing was set."""
    cleared: bool = yield app.queue(queue).lane(key).clearing()
    yield from audit.note(app.store, "clear", f"lane {key} of queue {queue}" if cleared else "")
    return cleared


clear_lane, aclear_lane = forms(clear_lane_course)


# -- workers ---------------------------------------------------------------------------------------------


def stop_worker_course(app: Headrace, name: str) -> Course[list[str]]:
    """Ask the worker of this name, or session id, to stop as by SIGTERM: its whole supervisor, at its next renewal.

    Returns the names of the worker processes that were asked.
    """
    store = app.store
    if not isinstance(store, StopsWorkers):
        raise Unsupported(f"{shown_url(store.url)} can't tell a worker to stop. Send SIGTERM to its process.")
    sessions: list[SessionSnapshot] = yield store.sessions()
    asked: list[str] = []
    for info in [session.info for session in sessions if name in (session.info.name, session.info.id)]:
        told: bool = yield store.stop_session(info.id)
        asked += [info.name] * told
    yield from audit.note(store, "stop", f"worker {name}" if asked else "")
    return asked


stop_worker, astop_worker = forms(stop_worker_course)


# -- stores ----------------------------------------------------------------------------------------------


def create_store(app: Headrace) -> None:
    """Create a store unless it is there. One of another version is refused."""
    app._create_store()
    app.store.run(app.store.counts())


acreate_store = threaded(create_store)


def schema_text(url: str) -> str:
    """The SQL that creates the schema of a store, which need not be there."""
    if url.partition(":")[0] not in ("postgresql", "postgres"):
        raise ConfigurationError("Only PostgreSQL has a schema to print: other stores need no preparation.")
    from headrace.store.postgres.opening import text_at  # noqa: PLC0415  (its driver is an extra)

    return text_at(url)
