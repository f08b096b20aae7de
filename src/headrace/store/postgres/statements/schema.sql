-- Version 1 of the schema, beside tables.sql. It is created with the schema on the search path.

CREATE TABLE meta (
    one integer PRIMARY KEY CHECK (one = 1),
    version integer NOT NULL,
    oldest integer NOT NULL DEFAULT 1,  -- programs that know this version, or a later one, work on the schema
    place text NOT NULL DEFAULT gen_random_uuid()::text  -- by which a caller's connection is known to lead here
);
INSERT INTO meta (one, version) VALUES (1, {SCHEMA_VERSION});

-- What a job begins with.
ALTER TABLE job ALTER token SET DEFAULT 0, ALTER attempts SET DEFAULT 0, ALTER crashes SET DEFAULT 0, ALTER flags SET DEFAULT 0;

-- Rows that change often leave room on their pages, and vacuum comes soon.
ALTER TABLE job SET (
    fillfactor = 85, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_insert_scale_factor = 0.5, autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE session SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
ALTER TABLE lane SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1);
ALTER TABLE laned SET (fillfactor = 70);
ALTER TABLE stat SET (fillfactor = 70);
ALTER TABLE audience SET (fillfactor = 10);

-- How many jobs have each tag.
CREATE FUNCTION count_tags() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO {SCHEMA}.tag_count (tag, jobs) VALUES (new.tag, 1)
        ON CONFLICT (tag) DO UPDATE SET jobs = tag_count.jobs + 1;
    ELSE
        UPDATE {SCHEMA}.tag_count SET jobs = jobs - 1 WHERE tag = old.tag;
        DELETE FROM {SCHEMA}.tag_count WHERE tag = old.tag AND jobs = 0;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER tag_counted AFTER INSERT OR DELETE ON tag FOR EACH ROW EXECUTE FUNCTION count_tags();

-- Events are numbered by a row, not by a sequence: a transaction that is rolled back leaves no gap, and as all of them have the
-- rules' lock, the order of numbers is that of commits.
CREATE TABLE event_counter (one integer PRIMARY KEY CHECK (one = 1), newest bigint NOT NULL) WITH (fillfactor = 10);

-- When a process last began to sweep, on the steady clock; 0: there is more to sweep.
CREATE TABLE upkeep (one integer PRIMARY KEY CHECK (one = 1), swept bigint NOT NULL) WITH (fillfactor = 10);

-- Waiters: workers (kind {WORKER}), clients that wait for the end of a job (kind {CLIENT}) and subscribers to events (kind {SUBSCRIBER}). One
-- that is armed sleeps, and is woken through its channel. Nothing of it survives a crash of the server, nor need it.
CREATE UNLOGGED TABLE waiter (
    id bigint PRIMARY KEY, channel text NOT NULL, kind bigint NOT NULL, armed boolean NOT NULL,
    pid bigint NOT NULL,             -- the server process of the connection that listens
    asks bigint,                     -- the number of the request that an idle worker sends when it is woken; a put may answer it
    stops bigint NOT NULL,           -- how often running jobs were to stop since it came
    queues text[] COLLATE "C" NOT NULL, patterns text[] COLLATE "C" NOT NULL,
    about text COLLATE "C"           -- a worker's session, or the job that a client waits for
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- For people: read-only by nature, stable across versions of the schema.
CREATE VIEW jobs AS
SELECT
    job.id, job.task, job.queue,
    CASE job.state
        WHEN {SCHEDULED} THEN 'scheduled' WHEN {READY} THEN 'ready' WHEN {RUNNING} THEN 'running'
        WHEN {BLOCKED} THEN 'blocked' WHEN {DONE} THEN 'done' WHEN {FAILED} THEN 'failed' ELSE 'cancelled'
    END AS state,
    job.priority, to_timestamp(job.created / 1000.0) AS created, to_timestamp(job.due / 1000.0) AS due,
    to_timestamp(job.started / 1000.0) AS started, to_timestamp(job.finished / 1000.0) AS finished,
    job.attempts, job.crashes, session.name AS worker, job.failure AS failure_group,
    convert_from(coalesce((SELECT bytes FROM blob WHERE blob.job = job.seq AND kind = {BODY}), job.body), 'UTF8') AS arguments,
    convert_from(coalesce((SELECT bytes FROM blob WHERE blob.job = job.seq AND kind = {RESULT}), job.result), 'UTF8') AS result,
    convert_from(job.error, 'UTF8') AS error, convert_from(job.data, 'UTF8') AS data
FROM job LEFT JOIN session ON session.seq = job.session;

CREATE VIEW schedules AS
SELECT
    name, definition.json ->> 'rule' AS rule, definition.json ->> 'task' AS task, definition.json ->> 'queue' AS queue,
    to_timestamp(next / 1000.0) AS next, to_timestamp(last_tick / 1000.0) AS last_tick, runs, paused,
    definition.json ->> 'declared_by' AS declared_by
FROM schedule, LATERAL (SELECT convert_from(schedule.definition, 'UTF8')::jsonb AS json) AS definition;
