"""What plans of statements are held against: many rows, and the statements that may read or sort all of something."""

from __future__ import annotations

from headrace.records import Filter, State
from headrace.store.sql import codes

JOBS = 20_000
QUEUES = 5
SHAPES = ["new", "never analyzed", "analyzed"]
"""The tables when a plan is made: empty, or with many rows that the database has statistics of or not."""

_SERIES = "WITH RECURSIVE each (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM each WHERE i < {})"
_MANY, _SOME = _SERIES.format(JOBS), _SERIES.format(1_000)
_STATE = f"CASE WHEN i % 2 = 0 THEN {codes.DONE} WHEN i % 4 = 1 THEN {codes.FAILED} ELSE i % 12 / 4 END"
FILL_JOBS = f"""
{_MANY}
INSERT INTO job (
    id, task, queue, state, priority, due, created, token, attempts, crashes, max_crashes, flags, session, failure,
    finished, body
)
SELECT
    'j' || i, 't' || (i % 7), 'q' || (i % {QUEUES}), {_STATE}, 0, 4102444800000 + i, i, 0, 0, 0, 3, 0, i % 20 + 1,
    'g' || (i % 3), CASE WHEN {_STATE} >= {codes.DONE} THEN i END, x''
FROM each;
"""
"""Rows of `job` in all states."""
FILL = f"""
{FILL_JOBS}
{_SOME}
INSERT INTO session (id, info, name, timeout, opened, seen, seen_at, number, answer, closed)
SELECT 's' || i, x'', 's' || i, 1, 1, 1, 1, 1, x'', CASE WHEN i > 20 THEN 1 END FROM each;
INSERT INTO tag (job, tag) SELECT seq, 'common' FROM job UNION ALL SELECT seq, 'rare' FROM job WHERE seq % 1000 = 0;
INSERT INTO tracked (job) SELECT seq FROM job WHERE seq % 3 = 0;
INSERT INTO recurring (job, schedule, tick) SELECT seq, 'schedule' || (seq % 7), 1 FROM job;
{_MANY} INSERT INTO edge (parent, child, if_failed) SELECT i / 100 + 1, {JOBS} + i % 100, 1 FROM each;
INSERT INTO follower (parent, child) SELECT parent, child FROM edge;
INSERT INTO culprit (child, parent) SELECT child, parent FROM edge;
INSERT INTO relation (job, if_failed, delay, parents) SELECT DISTINCT child, 1, 0, '[]' FROM edge;
INSERT INTO ended (parent, id, how, seen, upto) SELECT seq, id, {codes.DONE}, 0, {JOBS} FROM job WHERE seq <= 2000;
INSERT INTO unique_key (key, job) SELECT 'k' || seq, seq FROM job;
INSERT INTO history (job, at, what, detail, worker) SELECT seq, 1, 'x', '', '' FROM job;
INSERT INTO blob (job, kind, bytes) SELECT seq, 0, x'' FROM job;
INSERT INTO expiry (job, moment) SELECT seq, 1 FROM job;
INSERT INTO more (job, map) SELECT seq, x'' FROM job;
{_SOME}
INSERT INTO lane (queue, key, running_limit, rate, per, sequence, unfinished, running, starts)
SELECT 'q' || (i % 5), 'lane' || i, 1, 1, 1, 0, 10, 0, 10 FROM each;
INSERT INTO laned (job, key, per, sequence, place, lane, rank, due)
SELECT seq, 'lane' || (seq % 1000), 1, 0, 1, seq % 1000, 0, 0 FROM job;
INSERT INTO lane_start (lane, number, at) SELECT seq % 1000, seq / 1000, 0 FROM job;
{_SOME}
INSERT INTO schedule (name, definition, version, created, paused, next, runs)
SELECT 's' || i, x'', 1, 1, 0, i, 0 FROM each;
{_SOME} INSERT INTO failing (name, first_seen, last_seen, hours) SELECT 'g' || i, i, i, x'' FROM each;
{_SOME} INSERT INTO gone (slot, queue, came, ended) SELECT i, 'q', 1, 1 FROM each;
{_SOME} INSERT INTO batch (staged) SELECT i FROM each;
INSERT INTO part (batch, number, jobs, linked) SELECT seq, 1, x'', 0 FROM batch;
{_SOME} INSERT INTO block_list (task, reason, blocked_by, at) SELECT 't' || i, '', '', 1 FROM each;
INSERT INTO barred (job, task) SELECT seq, task FROM job WHERE seq % 9 = 0;
"""
"""Rows for many tables, whether rules would write them or not."""

WHOLE_INDEXES = {
    "barred_task": "goes from task to task along an index",
    "batch_first": "reads the first row",
    "blocked_tasks": "has a line per task that is blocked, of 1,000 at most",
    "blocks": "has a line per task that is blocked, of 1,000 at most",
    "damaged": "looks at all jobs when a request has met a damaged one",
    "lane_rules": "has a line per lane for which an operator has set something",
    "controls": "has a line per queue that an operator has paused or limited",
    "counts": "counts everything",
    "done_since": "counts up to a limit",
    "came_lately": "counts up to a limit",
    "ended_lately": "goes through what it has found",
    "gone_add": "goes through what it has found",
    "ended_some": "reads the first entries",
    "oldest": "goes through what it has found",
    "above": "goes through what it has found",
    "edges_above": "counts up to a limit",
    "event_any": "reads the first row",
    "event_newest": "looks into a table with a row per table",
    "event_trim": "looks into a table with a row per table",
    "failures": "counts the failed ones, which are bounded",
    "laned_line": "goes through what it has found",
    "next_due": "reads the first entry of its index",
    "queue_running": "looks at every open session",
    "queue_running_some": "looks at every open session",
    "ready_queues": "goes through what it has found",
    "ready_count": "counts up to a limit",
    "scheduled_queues": "goes through what it has found",
    "sessions": "looks at every open session",
    "sessions_holding": "goes through what it has found",
    "sessions_open": "counts the open sessions by their index",
    "tags_most": "reads the first entries of its index",
    "settings": "shows all of a dozen",
    "snapshot": "is never run without a condition",
    "special": "reads the first entry of some tables",
    "walk_worker": "looks at every open session",
}
SORTED = {
    "counts": "groups what it counts",
    "came_lately": "groups 100,000 jobs at most",
    "ended_lately": "groups 100,000 jobs at most",
    "gone_add": "groups the jobs that it is given",
    "jobs_by_id": "sorts the jobs that it is given",
    "laned_heads": "sorts the heads of some lanes",
    "lane_starts": "has few starts of each lane",
    "lanes_some": "sorts the lanes that it is given",
    "above": "meets each job once",
    "culprit_first": "sorts the culprits of one job",
    "failures": "sorts the groups by their sizes",
    "stat_flatten": "groups the histograms of a day",
    "held": "sorts what one session holds",
    "queue_running_some": "sorts what runs in a queue with a limit",
    "waits_for": "sorts what one job waits for",
    "walk_worker": "sorts what one worker holds",
}

BY_INDEX = (
    Filter(tag="common"),
    Filter(tracked=True),
    Filter(schedule="schedule1"),
    Filter(states=(State.FAILED,)),
    Filter(states=(State.FAILED,), group="g1"),
    Filter(),
)
"""What can be asked for that has an index, in the order of arrival."""
