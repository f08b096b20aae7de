"""What operators look at: jobs, queues, workers, failures, tags."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from headrace.errors import ConfigurationError, HeadraceError, Unsupported
from headrace.ops.attempts import Attempt, attempts_in
from headrace.ops.documents import document, history_document, job_document, moment
from headrace.ops.forms import forms
from headrace.ops.selection import Found, Selection, find_job_course, page_of_course
from headrace.ops.sidings import base
from headrace.records import Counts, Filter, HistoryRecord, Page, SessionSnapshot, Snapshot, State
from headrace.store import Store
from headrace.store.ages import Aging, Oldest
from headrace.store.contract import Facet
from headrace.store.courses import Course, ask
from headrace.store.facets import Editing, FailureTimes, QueueControl, Queues, Rows, Sql, Statistics, Tags, facet
from headrace.store.failing import in_hours
from headrace.store.lanes import LaneListed, LanePage, LaneRule, Lanes
from headrace.store.paging import PAGE, following
from headrace.store.throughput import NO_RATES, Measuring, Moved, QueueRates, Throughput, rates_of
from headrace.values.glob import any_fits, is_glob
from headrace.values.names import check_count, check_name

if TYPE_CHECKING:
    from headrace.app import Headrace


# -- jobs ------------------------------------------------------------------------------------------------


def jobs_course(app: Headrace, selection: Selection) -> Course[Found]:
    """A page of jobs that fit, newest first. `ConfigurationError`: the cursor is not one of this store."""
    cursor = selection.wanted.after
    try:
        return (yield from page_of_course(app, selection))
    except (ValueError, OverflowError) as error:
        if cursor is None or isinstance(error, HeadraceError):
            raise
        raise ConfigurationError(f"{cursor!r} is no cursor of this store.") from error


jobs, ajobs = forms(jobs_course)


class JobDetails(Struct, frozen=True):
    """All there is to know about a job."""

    job: Snapshot
    history: list[HistoryRecord] | None
    """None: the store keeps none."""

    @property
    def attempts(self) -> list[Attempt]:
        """Its runs, oldest first."""
        return attempts_in(self.job, self.history or ())

    def document(self) -> dict[str, Any]:
        history = [history_document(entry) for entry in self.history or ()]
        return {**job_document(self.job), "runs": [document(run) for run in self.attempts], "history": history}


def job_course(app: Headrace, part: str) -> Course[JobDetails]:
    """A job, by its id or a part of it that no other job has."""
    found = yield from find_job_course(app, part)
    if Facet.HISTORY not in app.store.facets:
        return JobDetails(found, None)
    history: list[HistoryRecord] = yield app.store.history(found.id)
    return JobDetails(found, history)


job, ajob = forms(job_course)


def peek_course(app: Headrace, queue: str, limit: int = 50) -> Course[list[Snapshot]]:
    """What stands in line in a queue, the next to run first."""
    editing = facet(app.store, Editing, "way to tell what is next in line")
    return (yield from ask(editing.peek(check_name("queue", queue), check_count("limit", limit))))


peek, apeek = forms(peek_course)


# -- queues ----------------------------------------------------------------------------------------------


class QueueFigures(Struct, frozen=True, kw_only=True):
    """How many jobs of a queue are in which state, who listens to it, and what it was told."""

    queue: str
    workers: int
    """Live worker processes that listen to it."""
    scheduled: int = 0
    ready: int = 0
    running: int = 0
    blocked: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    limit: int | None = None
    """How many of its jobs run at once, at most."""
    paused_by: str | None = None
    """None: it is not paused."""
    paused: datetime | None = None
    rates: QueueRates | None = None
    """How many jobs come and go. None: the store does not tell."""
    oldest_ready_seconds: float | None = None
    """How long ago its oldest ready job was due. None: no job is ready, or the store does not tell."""


def queues_course(app: Headrace) -> Course[list[QueueFigures]]:
    """All queues that have jobs, controls or live workers, or had jobs a minute ago, by name."""
    store = app.store
    counts: list[Counts] = yield store.counts()
    sessions: list[SessionSnapshot] = yield store.sessions()
    controls = yield from controls_course(store)
    rates = yield from rates_course(app)
    oldest = yield from oldest_course(app)
    live = [session.info.queues for session in sessions if session.alive]
    by_state = {count.queue: count.by_state for count in counts}
    names = {*by_state, *controls, *(rates or ()), *(name for queues in live for name in queues if not is_glob(name))}

    def figures(name: str) -> QueueFigures:
        control = controls.get(name, QueueControl(queue=name))
        return QueueFigures(
            queue=name,
            workers=sum(any_fits(queues, name) for queues in live),
            limit=control.limit,
            paused_by=control.paused_by,
            paused=moment(control.paused_at),
            rates=None if rates is None else rates.get(name, NO_RATES),
            oldest_ready_seconds=None if oldest is None else oldest.age(name),
            **{state.value: number for state, number in by_state.get(name, {}).items()},
        )

    return [figures(name) for name in sorted(names)]


queues, aqueues = forms(queues_course)


def known_queues_course(app: Headrace) -> Course[set[str]]:
    """Names and GLOBs of queues that jobs, workers, controls or the app's tasks have: those that there are."""
    counts: list[Counts] = yield app.store.counts()
    sessions: list[SessionSnapshot] = yield app.store.sessions()
    return {
        *(count.queue for count in counts),
        *(queue for session in sessions for queue in session.info.queues),
        *(yield from controls_course(app.store)),
        *(task.options.queue for task in app.tasks.values()),
    }


known_queues, aknown_queues = forms(known_queues_course)


class LaneFigures(Struct, frozen=True, kw_only=True):
    """A lane: the rules that it goes by, and how many of its jobs run and wait."""

    lane: str
    limit: int | None
    """None: no limit."""
    rate: int | None
    """How many jobs may start within `per` milliseconds. None: no rate."""
    per: int
    weight: int
    sequence: bool
    running: int
    waiting: int
    limit_is_set: bool = False
    """An operator has set it, and it holds whatever calls say."""
    rate_is_set: bool = False
    set_by: str | None = None
    set: datetime | None = None


def lanes_course(app: Headrace, queue: str, limit: int = 100) -> Course[list[LaneFigures]]:
    """Lanes of a queue that have jobs or rules, at most so many, by key."""
    store, found = facet(app.store, Lanes), dict[str, LaneFigures]()
    cursor: str | None = ""
    check_name("queue", queue)
    while cursor is not None and len(found) < check_count("limit", limit, 1):
        page: LanePage = yield store.lanes(queue, cursor, limit - len(found))
        found |= {lane.lane.key: _lane_figures(lane) for lane in page.lanes}
        cursor = page.cursor
    return [found[key] for key in sorted(found)][:limit]


lanes, alanes = forms(lanes_course)


def _lane_figures(found: LaneListed) -> LaneFigures:
    lane, rule = found.lane, found.rule
    return LaneFigures(
        lane=lane.key,
        limit=lane.limit,
        rate=lane.rate,
        per=lane.per,
        weight=lane.weight or 1,
        sequence=lane.sequence,
        running=found.running,
        waiting=found.unfinished - found.running,
        limit_is_set=rule is not None and rule.limit is not None,
        rate_is_set=rule is not None and rule.rate is not None,
        set_by=None if rule is None else rule.by,
        set=None if rule is None else moment(rule.at),
    )


class LaneRuleLine(Struct, frozen=True, kw_only=True):
    """What an operator has set for a lane. 0: no limit, or no rate; None: calls decide about it."""

    queue: str
    lane: str
    limit: int | None
    rate: int | None
    per: int
    set_by: str
    set: datetime


def lane_rules_course(app: Headrace) -> Course[list[LaneRuleLine]]:
    """All that operators have set for lanes, by queue and key."""
    found: list[tuple[str, str, LaneRule]] = yield facet(app.store, Lanes).lane_rules()
    return [
        LaneRuleLine(
            queue=queue,
            lane=key,
            limit=rule.limit,
            rate=rule.rate,
            per=rule.per,
            set_by=rule.by,
            set=moment(rule.at),
        )
        for queue, key, rule in found
    ]


lane_rules, alane_rules = forms(lane_rules_course)


def controls_course(store: Store) -> Course[dict[str, QueueControl]]:
    """The queues that are paused or limited; none where a store has no queue controls."""
    if Facet.QUEUES not in store.facets:
        return {}
    found: list[QueueControl] = yield facet(store, Queues).controls()
    return {control.queue: control for control in found}


def rates_course(app: Headrace) -> Course[dict[str, QueueRates] | None]:
    """Of the queues in which jobs came or ended in the last minute, how many; None where a store can't tell."""
    if Facet.THROUGHPUT not in app.store.facets:
        return None
    found: Throughput = yield facet(app.store, Measuring).throughput()
    came, ended = _by_base(found.came), _by_base(found.ended)
    whole = replace(found, came=came, ended=ended)
    return {queue: rates_of(whole, queue) for queue in (*came.queues, *ended.queues)}


def _by_base(moved: Moved) -> Moved:
    """What a drain moves has come into the queue that it belongs to."""
    queues: dict[str, int] = {}
    for queue, number in moved.queues.items():
        queues[base(queue)] = queues.get(base(queue), 0) + number
    return replace(moved, queues=queues)


rates, arates = forms(rates_course)


def oldest_course(app: Headrace) -> Course[Oldest | None]:
    """When the oldest ready job of each queue was due; None where a store can't tell."""
    if Facet.AGES not in app.store.facets:
        return None
    return (yield from ask(facet(app.store, Aging).oldest()))


oldest, aoldest = forms(oldest_course)


# -- workers ---------------------------------------------------------------------------------------------


class WorkerFigures(Struct, frozen=True, kw_only=True, rename={"timeout_seconds": "timeout"}):
    """A worker process as the store sees it."""

    id: str
    name: str
    pid: int
    """The process that runs its jobs."""
    supervisor: int | None
    host: str
    queues: Sequence[str]
    tasks: Sequence[str]
    version: str | None
    """Of its app's code: `Headrace(version=...)`, or that of the installed package that the app is in."""
    running: int
    """How many jobs it holds."""
    alive: bool
    opened: datetime
    seen: datetime
    timeout_seconds: float
    """Silent for so long, it counts as dead."""
    memory: int | None = None
    """How many bytes the process takes, as it said when its session was last renewed."""
    stopping: bool = False
    """An operator has asked it to stop."""


def workers_course(app: Headrace, name: str | None = None) -> Course[list[WorkerFigures]]:
    """The worker processes, or those of this name."""
    sessions: list[SessionSnapshot] = yield app.store.sessions()
    return [_worker(session) for session in sessions if name in (None, session.info.name)]


workers, aworkers = forms(workers_course)


def _worker(session: SessionSnapshot) -> WorkerFigures:
    info = session.info
    return WorkerFigures(
        id=info.id,
        name=info.name,
        pid=info.process or info.pid,
        supervisor=info.pid if info.process else None,
        host=info.node or info.host,
        queues=info.queues,
        tasks=info.tasks,
        version=info.version or None,
        running=session.running,
        alive=session.alive,
        opened=moment(session.opened),
        seen=moment(session.seen),
        timeout_seconds=info.timeout / 1000,
        memory=session.memory,
        stopping=session.stopping,
    )


def running_course(app: Headrace, worker: str) -> Course[list[Snapshot]]:
    """What a worker runs, newest first. Where a store has no search by worker, all running jobs are read."""
    found: list[Snapshot] = []
    wanted: Filter | None = Filter(states=(State.RUNNING,), worker=worker, limit=PAGE)
    while wanted is not None:
        page: Page = yield app.store.find(wanted)
        found += [job for job in page.jobs if job.worker == worker]
        wanted = following(wanted, page)
    return found


running, arunning = forms(running_course)


# -- failures --------------------------------------------------------------------------------------------


class FailureGroup(Struct, frozen=True):
    """Failed jobs of one kind."""

    group: str
    count: int
    tasks: Sequence[str]
    """The tasks of those that were looked at, that of the newest first."""
    looked_at: int
    """How many of them, the newest, were looked at: 500 at most where the store counts them."""
    newest: datetime | None
    """When the one that was put last failed."""
    first_seen: datetime | None = None
    """When a job first failed in this group, and last, whether it is kept or not. None: it was not asked for, as only
    jobs of one queue or task are counted; or the store does not keep it."""
    last_seen: datetime | None = None
    by_hour: list[int] | None = None
    """How many failed in each of the last 48 hours, the present one last."""


def failures_course(
    app: Headrace, *, queue: str | None = None, task: str | None = None, limit: int = 50
) -> Course[list[FailureGroup]]:
    """The groups of failed jobs, most first. A store that counts them is asked; of one queue or task, all are read."""
    store = app.store
    wanted = Filter(states=(State.FAILED,), queue=queue, task=task, limit=PAGE)
    counted: dict[str, int] = {}
    found: dict[str, list[Snapshot]] = {}
    times: dict[str, FailureTimes] = {}
    if Facet.STATISTICS in store.facets and queue is None and task is None:
        counted = dict((yield facet(store, Statistics).failures(limit)))
        for name in filter(None, counted):
            page: Page = yield store.find(replace(wanted, group=name))
            found[name] = page.jobs
        times = yield from _times_course(app, list(counted))
    else:
        more: Filter | None = wanted
        while more is not None:
            page = yield store.find(more)
            for job in page.jobs:
                found.setdefault(job.group or "", []).append(job)
            more = following(more, page)
        counted = {name: len(jobs) for name, jobs in found.items()}
    groups = [_group(app, name, number, found.get(name, []), times.get(name)) for name, number in counted.items()]
    return sorted(groups, key=lambda group: -group.count)[:limit]


failures, afailures = forms(failures_course)


def _times_course(app: Headrace, groups: list[str]) -> Course[dict[str, FailureTimes]]:
    """When jobs failed in these groups; nothing where the store does not keep that."""
    try:
        asked = facet(app.store, Statistics).failure_times(groups)
    except Unsupported:
        return {}
    return {times.group: times for times in (yield from ask(asked))}


def _group(app: Headrace, name: str, number: int, jobs: list[Snapshot], times: FailureTimes | None) -> FailureGroup:
    tasks, failed = list(dict.fromkeys(job.task for job in jobs)), moment(jobs[0].finished) if jobs else None
    if times is None:
        return FailureGroup(name, number, tasks, len(jobs), failed)
    first, last, by_hour = moment(times.first), moment(times.last), in_hours(times.hours, app.clock.now())
    return FailureGroup(name, number, tasks, len(jobs), failed, first, last, by_hour)


# -- tags ------------------------------------------------------------------------------------------------


class TagCount(Struct, frozen=True):
    """A tag, and how many jobs have it."""

    tag: str
    jobs: int


def tags_course(app: Headrace, limit: int = 50) -> Course[list[TagCount]]:
    """The most used tags, most first."""
    return [TagCount(*entry) for entry in (yield facet(app.store, Tags).tags(limit))]


tags, atags = forms(tags_course)


# -- SQL -------------------------------------------------------------------------------------------------


def sql_course(app: Headrace, query: str, values: Sequence[Any] = ()) -> Course[Rows]:
    """Look at a SQLite or PostgreSQL store with one statement that reads. `values` are for its question marks."""
    return (yield from ask(facet(app.store, Sql).sql(query, values)))


sql, asql = forms(sql_course)
