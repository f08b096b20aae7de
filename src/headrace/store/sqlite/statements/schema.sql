-- The schema of a file, beside tables.sql.

-- The least seq that a new job may get, should that be more than one above the newest: written when the newest
-- job is deleted, read by every put. (AUTOINCREMENT does the same, and writes a page more with every put.)
CREATE TABLE seq_floor (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    seq INTEGER NOT NULL
) STRICT;
CREATE TRIGGER newest_deleted AFTER DELETE ON job
WHEN old.seq > coalesce((SELECT max(seq) FROM job), 0)
BEGIN
    INSERT INTO seq_floor (one, seq) VALUES (1, old.seq + 1)
    ON CONFLICT (one) DO UPDATE SET seq = max(seq, excluded.seq);
END;

-- How many jobs have each tag.
CREATE TRIGGER tag_added AFTER INSERT ON tag BEGIN
    INSERT INTO tag_count (tag, jobs) VALUES (new.tag, 1) ON CONFLICT (tag) DO UPDATE SET jobs = jobs + 1;
END;
CREATE TRIGGER tag_removed AFTER DELETE ON tag BEGIN
    UPDATE tag_count SET jobs = jobs - 1 WHERE tag = old.tag;
    DELETE FROM tag_count WHERE tag = old.tag AND jobs = 0;
END;

-- For people: read-only by nature, stable across versions of the schema.
CREATE VIEW jobs AS
SELECT
    job.id,
    job.task,
    job.queue,
    CASE job.state
        WHEN {SCHEDULED} THEN 'scheduled' WHEN {READY} THEN 'ready' WHEN {RUNNING} THEN 'running'
        WHEN {BLOCKED} THEN 'blocked' WHEN {DONE} THEN 'done' WHEN {FAILED} THEN 'failed' ELSE 'cancelled'
    END AS state,
    job.priority,
    strftime('%Y-%m-%d %H:%M:%f', job.created / 1000.0, 'unixepoch') AS created,
    strftime('%Y-%m-%d %H:%M:%f', job.due / 1000.0, 'unixepoch') AS due,
    strftime('%Y-%m-%d %H:%M:%f', job.started / 1000.0, 'unixepoch') AS started,
    strftime('%Y-%m-%d %H:%M:%f', job.finished / 1000.0, 'unixepoch') AS finished,
    job.attempts,
    job.crashes,
    session.name AS worker,
    job.failure AS failure_group,
    CAST(coalesce((SELECT bytes FROM blob WHERE blob.job = job.seq AND kind = {BODY}), job.body) AS TEXT) AS arguments,
    CAST(coalesce((SELECT bytes FROM blob WHERE blob.job = job.seq AND kind = {RESULT}), job.result) AS TEXT) AS result,
    CAST(job.error AS TEXT) AS error,
    CAST(job.data AS TEXT) AS data
FROM job
LEFT JOIN session ON session.seq = job.session;

CREATE VIEW schedules AS
SELECT
    name,
    json_extract(CAST(definition AS TEXT), '$.rule') AS rule,
    json_extract(CAST(definition AS TEXT), '$.task') AS task,
    json_extract(CAST(definition AS TEXT), '$.queue') AS queue,
    strftime('%Y-%m-%d %H:%M:%f', next / 1000.0, 'unixepoch') AS next,
    strftime('%Y-%m-%d %H:%M:%f', last_tick / 1000.0, 'unixepoch') AS last_tick,
    runs,
    paused,
    json_extract(CAST(definition AS TEXT), '$.declared_by') AS declared_by
FROM schedule;
