-- The tables of every SQL database, in SQLite's types; PostgreSQL's are derived from them. `job` is the table of record; people
-- who want SQL read the view `jobs`. Plain jobs touch `job` alone: the other tables hold what only some jobs have (see `flags`).

-- One row per job: a small head, and small bodies inline (large ones are in `blob`, so that a change of
-- state does not rewrite them). seq is the order of arrival, and is
-- never given out twice: a stale lease of a deleted job must not fit a new one.
CREATE TABLE job (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    task TEXT NOT NULL,
    queue TEXT NOT NULL,
    state INTEGER NOT NULL,          -- {SCHEDULED} scheduled, {READY} ready, {RUNNING} running, {BLOCKED} blocked, {DONE} done,
                                     -- {FAILED} failed, {CANCELLED} cancelled
    priority INTEGER NOT NULL,
    due INTEGER NOT NULL,
    created INTEGER NOT NULL,
    token INTEGER NOT NULL CHECK (token < 281474976710655), -- grows with every hand-out and take-away: one that could not would
                                     -- stop every take of its queue
    attempts INTEGER NOT NULL,
    crashes INTEGER NOT NULL,
    max_crashes INTEGER NOT NULL,
    flags INTEGER NOT NULL,          -- a sum: {CANCELLING} cancelling, {SPARE} spare, {HISTORY} history, {UNIQUE} unique,
                                     -- {LARGE_BODY} large body, {LARGE_RESULT} large result, {AFTER} after others,
                                     -- {PRECEDES} before others, {LANED} lane, {TAGGED} tags, {TRACKED} tracked,
                                     -- {RECURRING} schedule, {DROPPED} the result was dropped,
                                     -- {RESUMED} has waited for children, {MORE} more, {COMPLETED} completed by its task,
                                     -- {EXPIRES} expires, {BARRED} its task is blocked,
                                     -- {UPDATED} its data was updated from outside while it runs,
                                     -- {LATER} waits for its time, too, while it is blocked
    session INTEGER,                 -- the one that holds it, or held it last
    turn INTEGER,                    -- the number of the exchange that handed it out
    started INTEGER,
    finished INTEGER,
    deferred_since INTEGER,
    progress_done REAL,
    progress_total REAL,
    failure TEXT,                    -- the group it failed in
    body BLOB NOT NULL,
    options BLOB,
    unique_key TEXT,                 -- the key it was put with; the table `unique_key` says which job has it
    data BLOB,
    result BLOB,
    error BLOB
) STRICT;

-- The line of each queue. `take` reads its head and nothing else.
CREATE INDEX job_ready ON job (queue, priority DESC, due, seq) WHERE state = {READY};
-- What falls due next.
CREATE INDEX job_scheduled ON job (due, queue) WHERE state = {SCHEDULED};
-- The same in each queue, so that the jobs of one do not wait behind those of another, nor plain ones behind those of lanes.
CREATE INDEX job_scheduled_queue ON job (queue, (flags & {LANED}), due) WHERE state = {SCHEDULED};
-- What a session holds.
CREATE INDEX job_held ON job (session, queue) WHERE state = {RUNNING};
-- What retention looks at.
CREATE INDEX job_finished ON job (state, finished, queue) WHERE state >= {DONE};
-- What waits for other jobs, or for its turn.
CREATE INDEX job_blocked ON job (queue) WHERE state = {BLOCKED};
-- Failures by group, the newest first. (A database might well walk along all jobs instead, as these are in the same order, and find none of
-- a rare group: no other index has the order of `-seq`.)
CREATE INDEX job_failure ON job (failure, (-seq)) WHERE state = {FAILED};
-- All failures. (Only statements that say `seq > 0` use it: it must not tempt those that are made for another one.)
CREATE INDEX job_failed ON job (seq) WHERE state = {FAILED} AND seq > 0;

CREATE TABLE session (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    info BLOB NOT NULL,
    name TEXT NOT NULL,
    timeout INTEGER NOT NULL,
    opened INTEGER NOT NULL,
    seen INTEGER NOT NULL,           -- on the steady clock: what expiry is measured by
    seen_at INTEGER NOT NULL,        -- the same moment on the wall clock: for people
    number INTEGER NOT NULL,         -- of the last request answered
    answer BLOB NOT NULL,            -- its verdicts, one byte each
    closed INTEGER,
    memory INTEGER,                  -- bytes that its process takes, as a renewal has said
    stop INTEGER                     -- 1: an operator has asked it to stop
) STRICT;
CREATE INDEX session_open ON session (seq) WHERE closed IS NULL;
CREATE INDEX session_closed ON session (closed) WHERE closed IS NOT NULL;

-- Which job has a unique key, and until when beyond its own end.
CREATE TABLE unique_key (
    key TEXT PRIMARY KEY,
    job INTEGER NOT NULL,
    until INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX unique_key_job ON unique_key (job);

-- What happened to jobs that had more of a life than put, run, done.
CREATE TABLE history (
    seq INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    at INTEGER NOT NULL,
    what TEXT NOT NULL,
    detail TEXT NOT NULL,
    worker TEXT NOT NULL,
    account BLOB                     -- of the end of a run, what its worker tells of it: JSON
) STRICT;
CREATE INDEX history_job ON history (job, seq);

-- Bodies (kind {BODY}) and results (kind {RESULT}) too large to be carried along in `job`.
CREATE TABLE blob (
    job INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (job, kind)
) STRICT, WITHOUT ROWID;

-- Tags of jobs (flag {TAGGED}), and how many jobs have each.
CREATE TABLE tag (
    job INTEGER NOT NULL,
    tag TEXT NOT NULL,
    PRIMARY KEY (job, tag)
) STRICT, WITHOUT ROWID;
CREATE INDEX tag_jobs ON tag (tag, job);
CREATE TABLE tag_count (
    tag TEXT PRIMARY KEY,
    jobs INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX tag_most ON tag_count (jobs DESC, tag);

-- Tracked jobs (flag {TRACKED}).
CREATE TABLE tracked (
    job INTEGER PRIMARY KEY
) STRICT;

-- Jobs that fail unless they have started by a moment, or so long after they are due. `at`: when that is, while they wait.
CREATE TABLE expiry (
    job INTEGER PRIMARY KEY,
    moment INTEGER,
    patience INTEGER,
    at INTEGER
) STRICT;
CREATE INDEX expiry_at ON expiry (at) WHERE at IS NOT NULL;

-- What only some jobs have and no statement looks for: a JSON map by name (flag {MORE}). `nonce`: of a put with a chosen id.
CREATE TABLE more (
    job INTEGER PRIMARY KEY,
    map BLOB NOT NULL
) STRICT;

-- What has been set (see headrace.settings), and how far upkeep has come.
CREATE TABLE setting (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE progress (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Statistics of jobs that are no longer kept, and what happens too seldom to be derived from jobs.
CREATE TABLE stat (
    queue TEXT NOT NULL,
    day INTEGER NOT NULL,            -- since 1970, UTC
    kind INTEGER NOT NULL,           -- {WAITS} waits, {RUN_TIMES} runs, {RETRIES} retries, {FAILURES} failures
    bucket INTEGER NOT NULL,         -- see headrace.stats; -1: all together
    count INTEGER NOT NULL,
    total REAL NOT NULL,             -- milliseconds
    squares REAL NOT NULL,
    PRIMARY KEY (day, queue, kind, bucket)
) STRICT, WITHOUT ROWID;
CREATE INDEX stat_bucket ON stat (day) WHERE bucket >= 0;

-- When jobs failed, by group.
CREATE TABLE failing (
    name TEXT PRIMARY KEY,
    first_seen INTEGER NOT NULL,
    last_seen INTEGER NOT NULL,
    hours BLOB NOT NULL              -- JSON: how many in which of the last hours, by their numbers since 1970
) STRICT, WITHOUT ROWID;
CREATE INDEX failing_last ON failing (last_seen);

-- How many jobs are gone of those that came, and of those that ended, in the last minute: in and out rates count them.
CREATE TABLE gone (
    slot INTEGER NOT NULL,           -- of time, see headrace.store.throughput
    queue TEXT NOT NULL,
    came INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    PRIMARY KEY (slot, queue)
) STRICT, WITHOUT ROWID;

-- Recurring jobs: when each ticks next, and what became of the ticks before.
CREATE TABLE schedule (
    name TEXT PRIMARY KEY,
    definition BLOB NOT NULL,        -- JSON: the rule, the job, what to do about trouble
    version INTEGER NOT NULL,        -- grows with every change: who changes it says which one was seen
    created INTEGER NOT NULL,
    paused INTEGER NOT NULL,
    paused_at INTEGER,
    paused_by TEXT,
    next INTEGER,
    runs INTEGER NOT NULL,
    last_tick INTEGER,
    last_job TEXT,
    started INTEGER,                 -- of the last job, until the next tick has been worked out from it
    finished INTEGER,
    data BLOB
) STRICT;
CREATE INDEX schedule_next ON schedule (next, name) WHERE paused = 0 AND next IS NOT NULL;

-- Which schedule a job belongs to, and for which of its ticks.
CREATE TABLE recurring (
    job INTEGER PRIMARY KEY,
    schedule TEXT NOT NULL,
    tick INTEGER
) STRICT;
CREATE INDEX recurring_schedule ON recurring (schedule, (-job));  -- as that of failures by group

-- What a job that comes after others was put with (flag {AFTER}).
CREATE TABLE relation (
    job INTEGER PRIMARY KEY,
    if_failed INTEGER NOT NULL,      -- {WAIT} wait, {FAIL} fail, {RUN} run
    delay INTEGER,                   -- to count from when the last one is met
    parents TEXT NOT NULL            -- their ids, as a JSON array: last, as it may be long, and each of their ends reads the others
) STRICT;

-- Which job still waits for which. A parent may be gone: then it is in `ended`. Parent 0: more parents are
-- to be linked. (AUTOINCREMENT: `ended` goes by numbers.)
CREATE TABLE edge (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    parent INTEGER NOT NULL,
    child INTEGER NOT NULL,
    if_failed INTEGER NOT NULL
) STRICT;
CREATE INDEX edge_parent ON edge (parent, seq);
CREATE UNIQUE INDEX edge_child ON edge (child, parent);

-- Which job names which among those it comes after: an ended parent is kept for its followers. Some that have ended may be left.
CREATE TABLE follower (
    parent INTEGER NOT NULL,
    child INTEGER NOT NULL,
    PRIMARY KEY (parent, child)
) STRICT, WITHOUT ROWID;
CREATE INDEX follower_child ON follower (child);

-- Which job has failed because of which that it comes after: it comes back when the last of these is revived. A parent may be gone.
CREATE TABLE culprit (
    child INTEGER NOT NULL,
    parent INTEGER NOT NULL,
    PRIMARY KEY (child, parent)
) STRICT, WITHOUT ROWID;

-- Jobs that came to an end while others waited for them, or back from one: their edges are worked off in bounded steps.
CREATE TABLE ended (
    seq INTEGER PRIMARY KEY,
    parent INTEGER NOT NULL,
    id TEXT NOT NULL,
    how INTEGER NOT NULL,            -- {DONE} done, {FAILED} failed, {CANCELLED} cancelled, {REMOVED} removed before it was done,
                                     -- {REVIVED} revived
    seen INTEGER NOT NULL,           -- edges up to this one have been looked at,
    upto INTEGER NOT NULL            -- those up to this one are to be
) STRICT;
CREATE INDEX ended_parent ON ended (parent);

-- Batches that cost more than one transaction should: their jobs are staged in parts and come in part by part, once all
-- of them are there. (AUTOINCREMENT: a client must not take a batch for its own that is not.)
CREATE TABLE batch (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    staged INTEGER NOT NULL,         -- when its last part was, on the steady clock
    put INTEGER                      -- when all of it was there and the batch was accepted
) STRICT;
CREATE TABLE part (
    seq INTEGER PRIMARY KEY,
    batch INTEGER NOT NULL,
    number INTEGER NOT NULL,
    jobs BLOB NOT NULL,              -- msgpack
    linked INTEGER NOT NULL          -- how many of those that its last job comes after are linked, if these are many
) STRICT;
CREATE INDEX part_batch ON part (batch, seq);

-- A lane that has unfinished jobs, or whose rate remembers some starts, or for which an operator has set something.
CREATE TABLE lane (
    seq INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    key TEXT NOT NULL,
    running_limit INTEGER,           -- this, rate and per are what it goes by: what was set, or else what puts have said
    rate INTEGER,
    per INTEGER NOT NULL CHECK (per > 0),
    sequence INTEGER NOT NULL,
    unfinished INTEGER NOT NULL,
    running INTEGER NOT NULL,
    front INTEGER,                   -- the job that stands in the queue's line, or will when the rate allows it
    front_due INTEGER,               -- when that one was due before the lane said when
    turn INTEGER,                    -- in a sequence: the job that the others wait for
    starts INTEGER NOT NULL,         -- how many there were; `lane_start` has the last ones
    forget_at INTEGER,               -- without unfinished jobs: when its rate has nothing to remember; null: it has nothing
    weight INTEGER NOT NULL DEFAULT 1, -- how many jobs of it are handed out in a round
    served INTEGER NOT NULL DEFAULT 0, -- how many of the present round have been
    round_at INTEGER NOT NULL DEFAULT 0, -- the due time of the first of these; or no earlier than which the next round is due
    rule BLOB,                       -- JSON: what an operator has set, and the limit, rate and per that puts have said
    change BLOB,                     -- JSON: how and when a put has last changed what it goes by
    UNIQUE (queue, key)
) STRICT;
CREATE INDEX lane_idle ON lane (forget_at) WHERE forget_at IS NOT NULL;
CREATE INDEX lane_ruled ON lane (seq) WHERE rule IS NOT NULL;

-- The last `rate` starts of a lane.
CREATE TABLE lane_start (
    lane INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,             -- at the latest: twice `start_within` after its hand-out
    PRIMARY KEY (lane, number)
) STRICT, WITHOUT ROWID;

-- The lane that a job was put into (flag {LANED}), and where it is in it. What the put said of the lane: null says nothing, 0 is no
-- limit, or no rate.
CREATE TABLE laned (
    job INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    running_limit INTEGER,
    rate INTEGER,
    per INTEGER NOT NULL CHECK (per > 0),
    sequence INTEGER NOT NULL,
    place INTEGER NOT NULL,          -- {ELSEWHERE} elsewhere, {IN_LINE} in the lane's own line, {RUNS} running, {IS_SCHEDULED} scheduled
    lane INTEGER,
    rank INTEGER NOT NULL,           -- in the line: its priority, negative; 0 in a sequence
    due INTEGER NOT NULL,            -- in the line, and while scheduled; 0 in a sequence
    start_within INTEGER,            -- handed out by a rate: how soon after its take it starts, or is given back
    weight INTEGER
) STRICT;
CREATE INDEX laned_place ON laned (lane, place, rank, due, job) WHERE lane IS NOT NULL;
CREATE INDEX laned_due ON laned (due) WHERE place = {IS_SCHEDULED};

-- A queue's controls: paused or not, and its limit.
CREATE TABLE control (
    queue TEXT PRIMARY KEY,
    running_limit INTEGER,
    paused_by TEXT,
    paused_at INTEGER
) STRICT, WITHOUT ROWID;

-- Tasks that are blocked: none of their jobs is handed out.
CREATE TABLE block_list (
    task TEXT PRIMARY KEY,
    reason TEXT NOT NULL,
    blocked_by TEXT NOT NULL,
    at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Jobs that wait because their task is blocked, or was until a moment ago (flag {BARRED}).
CREATE TABLE barred (
    job INTEGER PRIMARY KEY,
    task TEXT NOT NULL
) STRICT;
CREATE INDEX barred_task ON barred (task, job);

-- Events: written only while there is a subscriber, and the last 10,000 are kept. The number of an event
-- is never given out twice (AUTOINCREMENT): a gap tells a reader that it has missed some.
CREATE TABLE event (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    what TEXT NOT NULL,
    job TEXT NOT NULL,
    task TEXT NOT NULL,
    queue TEXT NOT NULL,
    worker TEXT NOT NULL,
    detail TEXT NOT NULL,
    tracked INTEGER NOT NULL
) STRICT;

-- What operators have done: the last 100,000 acts, of the last 90 days.
CREATE TABLE audit (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    who TEXT NOT NULL,
    what TEXT NOT NULL,
    about TEXT NOT NULL
) STRICT;

-- Until when there is a subscriber to events, on the steady clock. One row, and only where no map of waiters can be had.
CREATE TABLE audience (
    one INTEGER PRIMARY KEY,
    until INTEGER NOT NULL
) STRICT;
