-- Version 1 of the schema: Bedrock's table as its clients know it, and beside it the server's own counter.
-- The order of the columns is what `SELECT *` shows. AUTOINCREMENT: the id of a job that is gone is never given
-- to another, as clients that repeat a FinishJob must not finish another job.
CREATE TABLE jobs (
    created TIMESTAMP NOT NULL,
    jobID INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    state TEXT NOT NULL,
    name TEXT NOT NULL,
    nextRun TIMESTAMP NOT NULL,
    lastRun TIMESTAMP,
    repeat TEXT NOT NULL,
    data TEXT NOT NULL,
    priority INTEGER NOT NULL DEFAULT 500,
    parentJobID INTEGER NOT NULL DEFAULT 0,
    retryAfter TEXT NOT NULL DEFAULT '',
    sequentialKey TEXT NOT NULL DEFAULT ''
);

-- Unique jobs, in every state.
CREATE INDEX jobsName ON jobs (name, {MOCKED});
-- A parent's children.
CREATE INDEX jobsParentJobIDState ON jobs (parentJobID, state) WHERE parentJobID != 0;
-- The line of one name: what GetJob reads for exact names, and name by name for patterns. Mocked jobs stand in lines of their
-- own, so that real ones are found however many there are. (Both lines carry the state, or SQLite would look it up in the table.)
CREATE INDEX jobsMockedNamePriorityNextRun ON jobs ({MOCKED}, name, priority, nextRun, jobID, state)
WHERE state IN ('QUEUED', 'RUNQUEUED');
-- The line of all names: what GetJob reads for '*', and what falls due.
CREATE INDEX jobsMockedPriorityNextRunName ON jobs ({MOCKED}, priority, nextRun, jobID, name, state)
WHERE state IN ('QUEUED', 'RUNQUEUED');
-- The jobs of one sequence, in order.
CREATE INDEX jobsSequentialKeyState ON jobs (sequentialKey, state, created) WHERE sequentialKey != '';

-- How many writes have been committed: one row.
CREATE TABLE server (commitCount INTEGER NOT NULL);
INSERT INTO server VALUES (0);
