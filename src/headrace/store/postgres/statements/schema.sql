-- The schema, beside tables.sql. It is created with the schema on the search path.

CREATE TABLE meta (
    one integer PRIMARY KEY CHECK (one = 1),
    version integer NOT NULL,
    oldest integer NOT NULL DEFAULT {SCHEMA_VERSION},  -- programs that know this version, or a later one, work on the schema
    place text NOT NULL DEFAULT gen_random_uuid()::text  -- by which a caller's connection is known to lead here
);
INSERT INTO meta (one, version) VALUES (1, {SCHEMA_VERSION});

-- Nothing is in these: they are locked, for which a role needs rights here. (An advisory lock needs none.) The first is that of the rules,
-- the second that of puts: see docs/stores/postgres.md.
CREATE TABLE {RULES} ();
CREATE TABLE {PUTS} ();

-- Unique keys that open transactions have put jobs with: a row is there while its transaction is open, and locks the key.
CREATE TABLE key_lock (key bigint PRIMARY KEY) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Numbers that rules can reckon with, whichever program writes them: one beyond would raise an error wherever it is met. (Domains: a
-- constraint of the table is read anew by each statement, which costs a put a third.)
CREATE DOMAIN job_moment AS bigint CHECK (VALUE BETWEEN {FIRST_MOMENT} AND {LAST_MOMENT});
CREATE DOMAIN job_number AS bigint CHECK (VALUE BETWEEN -{HIGHEST_COUNT} AND {HIGHEST_COUNT});
ALTER TABLE job
    ALTER due TYPE job_moment, ALTER created TYPE job_moment, ALTER priority TYPE job_number, ALTER token TYPE job_number,
    ALTER attempts TYPE job_number, ALTER crashes TYPE job_number, ALTER max_crashes TYPE job_number;

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

-- Counts that many transactions add to are appended here, and sweeps fold them: a row that all of them change would be a lock of all.
CREATE TABLE stat_delta (
    day bigint NOT NULL, queue text COLLATE "C" NOT NULL, kind bigint NOT NULL, bucket bigint NOT NULL,
    count bigint NOT NULL, total double precision NOT NULL, squares double precision NOT NULL
);
CREATE TABLE tag_delta (tag text COLLATE "C" NOT NULL, jobs bigint NOT NULL);
CREATE TABLE failing_delta (name text COLLATE "C" NOT NULL, at bigint NOT NULL);

-- How many jobs have each tag.
CREATE FUNCTION count_tags() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO {SCHEMA}.tag_delta (tag, jobs)
    SELECT tag, CASE TG_OP WHEN 'INSERT' THEN count(*) ELSE -count(*) END FROM changed GROUP BY tag;
    RETURN NULL;
END $$;
CREATE TRIGGER tag_added AFTER INSERT ON tag REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_tags();
CREATE TRIGGER tag_removed AFTER DELETE ON tag REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION count_tags();

-- Add up what was appended about tags. One that is removed may be met before it was added: then its count is negative until the rest
-- is folded.
CREATE FUNCTION fold_tags() RETURNS void LANGUAGE sql AS $$
    WITH gone AS (
        DELETE FROM {SCHEMA}.tag_delta
        WHERE ctid = ANY (ARRAY(SELECT ctid FROM {SCHEMA}.tag_delta LIMIT {FOLDED_AT_ONCE} FOR UPDATE SKIP LOCKED)) RETURNING tag, jobs
    )
    INSERT INTO {SCHEMA}.tag_count (tag, jobs) SELECT tag, sum(jobs) FROM gone GROUP BY tag ORDER BY tag
    ON CONFLICT (tag) DO UPDATE SET jobs = tag_count.jobs + excluded.jobs;
    DELETE FROM {SCHEMA}.tag_count WHERE jobs = 0;
$$;

-- Events are numbered by a row, not by a sequence: a transaction that is rolled back leaves no gap, and as the row is locked from
-- then to the commit, the order of numbers is that of commits.
CREATE TABLE event_counter (one integer PRIMARY KEY CHECK (one = 1), newest bigint NOT NULL) WITH (fillfactor = 10);

-- When a process last began to sweep, on the steady clock; 0: there is more to sweep.
CREATE TABLE upkeep (one integer PRIMARY KEY CHECK (one = 1), swept bigint NOT NULL) WITH (fillfactor = 10);

-- Waiters: workers (kind {WORKER}), clients that wait for the end of a job (kind {CLIENT}) and subscribers to events (kind {SUBSCRIBER}). One
-- that is armed sleeps, and is woken through its channel: a hint to look, which anyone may send. Nothing of it survives a crash of the server, nor need it.
CREATE UNLOGGED TABLE waiter (
    id bigint PRIMARY KEY, channel text NOT NULL, kind bigint NOT NULL, armed boolean NOT NULL,
    pid bigint NOT NULL,             -- the server process of the connection that listens
    stops bigint NOT NULL,           -- how often running jobs were to stop since it came
    deaf_at bigint,                  -- when that connection was last found to hear nothing
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
