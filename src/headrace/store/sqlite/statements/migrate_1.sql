-- From version 1 of the schema to version 2: what schema.sql has and version 1 did not. A test compares the two.

-- Which job has failed because of which that it comes after: it comes back when the last of these is revived. A parent may be gone.
CREATE TABLE culprit (
    child INTEGER NOT NULL,
    parent INTEGER NOT NULL,
    PRIMARY KEY (child, parent)
) STRICT, WITHOUT ROWID;

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

-- Jobs that fail unless they have started by a moment, or so long after they are due. `at`: when that is, while they wait.
CREATE TABLE expiry (
    job INTEGER PRIMARY KEY,
    moment INTEGER,
    patience INTEGER,
    at INTEGER
) STRICT;
CREATE INDEX expiry_at ON expiry (at) WHERE at IS NOT NULL;

-- What only some jobs have and no statement looks for: a JSON map by name (flag {MORE}). For features of later versions.
CREATE TABLE more (
    job INTEGER PRIMARY KEY,
    map BLOB NOT NULL
) STRICT;

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

-- What operators have done: the last 10,000 acts.
CREATE TABLE audit (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    who TEXT NOT NULL,
    what TEXT NOT NULL,
    about TEXT NOT NULL
) STRICT;

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

-- What the process of a session takes, and whether it is to stop.
ALTER TABLE session ADD COLUMN memory INTEGER;
ALTER TABLE session ADD COLUMN stop INTEGER;

-- How soon a job that was handed out by a rate starts.
ALTER TABLE laned ADD COLUMN start_within INTEGER;

-- What a worker tells of a run that ended.
ALTER TABLE history ADD COLUMN account BLOB;

-- Shares of lanes.
ALTER TABLE lane ADD COLUMN weight INTEGER NOT NULL DEFAULT 1;
ALTER TABLE lane ADD COLUMN served INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lane ADD COLUMN round_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE laned ADD COLUMN weight INTEGER NOT NULL DEFAULT 1;

-- An index that does not change with every job that ends.
DROP INDEX lane_idle;
UPDATE lane SET forget_at = NULL WHERE unfinished > 0;
CREATE INDEX lane_idle ON lane (forget_at) WHERE forget_at IS NOT NULL;

-- What falls due next in each queue.
CREATE INDEX job_scheduled_queue ON job (queue, (flags & {LANED}), due) WHERE state = {SCHEDULED};

-- The setting that `--session-timeout` overrides has its name.
UPDATE setting SET name = 'session-timeout' || substr(name, 10) WHERE name = 'heartbeat' OR name LIKE 'heartbeat:%';
