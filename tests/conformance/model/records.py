"""What the model remembers: jobs, who waits for whom, lanes, sessions."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.records import Expiry, HistoryRecord, IfFailed, Lane, SessionInfo, State, Verdict
from headrace.store import lanes as lane_terms
from headrace.store.contract import Reported
from headrace.store.lanes import LaneChange, LaneRule

WAITING = (State.SCHEDULED, State.READY, State.BLOCKED)


@dataclass(eq=False)
class Job:
    ref: int
    """Never used again; grows with every put, so it is the order of arrival, too."""
    id: str
    task: str
    queue: str
    state: State
    priority: int
    body: bytes
    options: bytes | None
    created: int
    due: int
    max_crashes: int
    unique_key: str | None
    unique_until: int | None
    nonce: str | None
    former_key: str | None = None
    started: int | None = None
    finished: int | None = None
    attempts: int = 0
    crashes: int = 0
    token: int = 0
    session: str = ""
    """Who holds it, or held it last."""
    worker: str = ""
    handed_out: tuple[int, int] = (0, 0)
    """By which number of the session's requests, and as which of its leases."""
    spare: bool = False
    data: bytes | None = None
    updated: bool = False
    """It runs, and its data was updated from outside since its worker last knew it."""
    progress: tuple[float, float] | None = None
    result: bytes | None = None
    error: bytes | None = None
    group: str | None = None
    cancelling: bool = False
    completed: bool = False
    """It runs, and its task has completed it: `result` is there."""
    deferred_since: int | None = None
    after: tuple[str, ...] = ()
    resumed: bool = False
    """It has waited for children."""
    if_failed: IfFailed = IfFailed.FAIL
    lane: Lane | None = None
    tags: tuple[str, ...] = ()
    tracked: bool = False
    schedule: str | None = None
    tick: int | None = None
    expires: Expiry | None = None
    expires_at: int | None = None
    """When it fails, if it still waits then."""
    delay: int | None = None
    """To count from when the last dependency is met. None: it is due when it is due."""
    start_within: int | None = None
    """Handed out by a lane with a rate: how soon after the take it starts, or is given back."""
    later: bool = False
    """It waits for its time: it was not due when that was last worked out."""
    in_lanes_line: bool = False
    """Blocked because it is not its turn."""
    barred: bool = False
    """Blocked because its task is."""
    result_dropped: bool = False
    result_judged: bool = False
    """It was old enough for its result to be dropped: that happened then, or somebody still needed it."""
    followers: set[Job] = field(default_factory=set)
    """The jobs that name it among those they come after."""
    culprits: set[Job] = field(default_factory=set)
    """Those of the jobs it comes after because of which it has failed: it comes back when the last is revived."""
    events: list[HistoryRecord] = field(default_factory=list)
    start_line: int = 0
    """Where in `events` the last run was started."""

    def place(self) -> tuple[int, int, int]:
        return -self.priority, self.due, self.ref


@dataclass(eq=False)
class Edge:
    """One job waits for another."""

    number: int
    parent: Job
    child: Job
    policy: IfFailed


@dataclass(eq=False)
class Ended:
    """A job that others may wait for came to an end, or back from one: some of its edges are still to be looked at."""

    parent: Job
    how: State | None
    """None: it was removed. READY: it was revived."""
    met: bool
    seen: int
    """The edges up to this number have been looked at,"""
    upto: int
    """and those up to this one are to be."""


@dataclass(eq=False)
class LaneRecord:
    said: Lane
    """What its puts have said, the newest word on each. None: nothing, or that there is none."""
    rule: LaneRule | None
    """What an operator has set."""
    change: LaneChange | None = None
    front: Job | None = None
    """The one that stands in the queue's line, or will when the rate allows it."""
    front_due: int = 0
    """When that one was due before the lane said when."""
    turn: Job | None = None
    """In a sequence: the one that the others wait for."""
    starts: list[int] = field(default_factory=list)
    """When the last `rate` of them were, at the latest."""
    served: int = 0
    """How many jobs of the present round have been handed out."""
    round_at: int = 0
    """The due time of the first of these; or no earlier than which the next round is due."""

    @property
    def lane(self) -> Lane:
        """The rules that it goes by."""
        return lane_terms.ruled(self.said, self.rule)

    def earliest(self) -> int:
        """When the rate allows the next start."""
        rate = self.lane.rate
        return 0 if rate is None or len(self.starts) < rate else self.starts[-rate] + self.lane.per

    def remembers(self, now: int) -> bool:
        return bool(self.starts) and self.starts[-1] + self.lane.per > now


@dataclass(eq=False)
class Session:
    info: SessionInfo
    opened: int
    seen_at: int
    """On the wall clock, for people; `seen` is what expiry is measured by."""
    seen: int
    number: int = 0
    answer: list[Verdict] | list[Reported] = field(default_factory=list)
    closed: bool = False
    memory: int | None = None
    stopping: bool = False
