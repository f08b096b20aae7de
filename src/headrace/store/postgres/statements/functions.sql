-- Functions of the schema: plain jobs in one round trip, and wake-ups.
-- {SCHEMA} is the schema's name. What a function can't do alone it leaves to
-- the rules, and writes nothing, or takes it back with an error of its own.

-- Wake those that a transaction concerns, which must have the lock {PUTS} of puts, shared: so none has gone to sleep since it looked.
-- When the server's queue of notifications is full, one that notifies fails as it commits, and a job is worth more than a wake-up: sleepers look by
-- themselves, every 10 s. (Any role can fill that queue, by listening in a transaction that stays open.)
CREATE OR REPLACE FUNCTION {SCHEMA}.wake(_queues text[], _workers bigint[], _ended text[], _stop bigint, _happened bigint)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE woken bigint; can boolean := pg_notification_queue_usage() < {NEARLY_FULL};
BEGIN
    IF _stop <> 0 THEN
        PERFORM pg_notify(channel, id::text) FROM {SCHEMA}.waiter WHERE kind = {WORKER} AND can;
        UPDATE {SCHEMA}.waiter SET stops = stops + 1, armed = armed AND NOT can WHERE kind = {WORKER};
    END IF;
    IF NOT can THEN RETURN; END IF;
    IF _stop = 0 AND cardinality(_queues) > 0 THEN
        FOR place IN 1 .. cardinality(_queues) LOOP
            WITH chosen AS MATERIALIZED (
                SELECT id FROM {SCHEMA}.waiter
                WHERE armed AND kind = {WORKER} AND (
                    _queues[place] = ANY (queues)
                    OR EXISTS (SELECT 1 FROM unnest(patterns) AS pattern WHERE _queues[place] ~ pattern)
                )
                ORDER BY id LIMIT _workers[place] FOR UPDATE SKIP LOCKED
            ), told AS (
                UPDATE {SCHEMA}.waiter SET armed = FALSE FROM chosen WHERE waiter.id = chosen.id RETURNING channel, waiter.id
            )
            SELECT count(pg_notify(channel, id::text)) FROM told INTO woken;
        END LOOP;
    END IF;
    IF cardinality(_ended) > 0 OR _happened <> 0 THEN
        WITH told AS (
            UPDATE {SCHEMA}.waiter SET armed = FALSE
            WHERE armed AND (kind = {CLIENT} AND about = ANY (_ended) OR kind = {SUBSCRIBER} AND _happened <> 0) RETURNING channel, id
        )
        SELECT count(pg_notify(channel, id::text)) FROM told INTO woken;
    END IF;
END $$;

-- The last words of a transaction that writes: from here to its commit none goes to sleep. It is taken back if it went by what is no
-- longer so: that its queues have no controls and its tasks are not blocked (_free), or that there is no subscriber (_unheard).
CREATE OR REPLACE FUNCTION {SCHEMA}.conclude(
    _queues text[], _workers bigint[], _ended text[], _stop bigint, _happened bigint, _free bigint, _unheard bigint, _steady bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOCK TABLE {SCHEMA}.{PUTS} IN ROW EXCLUSIVE MODE;
    IF _free <> 0 AND (EXISTS (SELECT 1 FROM {SCHEMA}.control) OR EXISTS (SELECT 1 FROM {SCHEMA}.block_list))
        OR _unheard <> 0 AND EXISTS (SELECT 1 FROM {SCHEMA}.audience WHERE until > _steady)
    THEN
        RAISE EXCEPTION USING ERRCODE = '{OUTDATED}', MESSAGE = 'a control, a block or a subscriber came meanwhile';
    END IF;
    IF _stop <> 0 OR EXISTS (SELECT 1 FROM {SCHEMA}.waiter WHERE armed) THEN
        PERFORM {SCHEMA}.wake(_queues, _workers, _ended, _stop, _happened);
    END IF;
END $$;

-- Give a unique key to a job, from the one that was seen to have it (null: none). If another has got it meanwhile, all is taken back.
CREATE OR REPLACE FUNCTION {SCHEMA}.take_key(_key text, _job bigint, _until bigint, _from bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO {SCHEMA}.unique_key (key, job, until) VALUES (_key, _job, _until)
    ON CONFLICT (key) DO UPDATE SET job = excluded.job, until = excluded.until WHERE unique_key.job = _from;
    IF NOT FOUND THEN
        RAISE EXCEPTION USING ERRCODE = '{OUTDATED}', MESSAGE = 'another job has got this unique key meanwhile';
    END IF;
END $$;

-- A waiter goes to sleep. Once it has the lock alone, whatever was put before is there to be seen, and whatever is put later sees it.
-- A worker that can take no more is not armed, and is woken only when a job is to stop. _echo: what its process wants to hear itself say.
-- _lost: how many milliseconds ago it did not hear that.
CREATE OR REPLACE FUNCTION {SCHEMA}.arm(
    _id bigint, _channel text, _pid bigint, _kind bigint, _armed bigint, _queues text[], _patterns text[], _about text,
    _echo text, _lost bigint
) RETURNS bigint LANGUAGE sql SET lock_timeout = {LOCK_WAIT} AS $$
    SELECT pg_notify(_channel, _echo) WHERE _echo IS NOT NULL AND pg_notification_queue_usage() < {NEARLY_FULL};
    LOCK TABLE {SCHEMA}.{PUTS} IN SHARE ROW EXCLUSIVE MODE;
    INSERT INTO {SCHEMA}.waiter AS known (id, channel, pid, kind, armed, stops, queues, patterns, about, deaf_at)
    VALUES (_id, _channel, _pid, _kind, _armed <> 0, 0, _queues, _patterns, _about, (extract(epoch FROM clock_timestamp()) * 1000)::bigint - _lost)
    ON CONFLICT (id) DO UPDATE SET armed = _armed <> 0, pid = _pid, deaf_at = excluded.deaf_at
    RETURNING known.stops;
$$;

-- A waiter is gone, or was left behind by a process that died.
CREATE OR REPLACE FUNCTION {SCHEMA}.forget_waiter(_id bigint) RETURNS void LANGUAGE sql SET lock_timeout = {LOCK_WAIT} AS $$ DELETE FROM {SCHEMA}.waiter WHERE id = _id $$;
CREATE OR REPLACE FUNCTION {SCHEMA}.forget_waiters() RETURNS boolean LANGUAGE sql SET lock_timeout = {LOCK_WAIT} AS $$
    DELETE FROM {SCHEMA}.waiter WHERE pid <> ALL (ARRAY(SELECT pid FROM pg_stat_activity));
    SELECT EXISTS (SELECT 1 FROM {SCHEMA}.waiter WHERE armed AND kind = {WORKER});
$$;

-- This process sweeps now, unless another has begun within a time.
CREATE OR REPLACE FUNCTION {SCHEMA}.claim_sweep(_every bigint, _steady bigint) RETURNS boolean LANGUAGE sql SET lock_timeout = {LOCK_WAIT} AS $$
    INSERT INTO {SCHEMA}.upkeep AS last (one, swept)
    VALUES (1, coalesce(_steady, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)) ON CONFLICT (one) DO UPDATE
    SET swept = excluded.swept WHERE last.swept NOT BETWEEN excluded.swept - _every + 1 AND excluded.swept RETURNING TRUE;
$$;

-- Put plain jobs. (The lock of puts comes after the insert: none can go to sleep meanwhile.)
CREATE OR REPLACE FUNCTION {SCHEMA}.put_plain(
    _ids text[], _tasks text[], _queues text[], _priorities bigint[], _max_crashes bigint[], _bodies bytea[], _options bytea[],
    _run_ats bigint[], _delays bigint[], _now bigint, _steady bigint
) RETURNS void LANGUAGE plpgsql SET plan_cache_mode = force_generic_plan SET lock_timeout = {LOCK_WAIT} AS $$
BEGIN
    _now := coalesce(_now, extract(epoch FROM clock_timestamp()) * 1000);
    INSERT INTO {SCHEMA}.job (id, task, queue, state, priority, due, created, max_crashes, body, options)
    SELECT
        id, task, queue, CASE WHEN coalesce(run_at, _now + delay) > _now THEN {SCHEDULED} ELSE {READY} END, priority,
        coalesce(run_at, _now + delay), _now, most, body, options
    FROM unnest(_ids, _tasks, _queues, _priorities, _max_crashes, _bodies, _options, _run_ats, _delays)
        AS new (id, task, queue, priority, most, body, options, run_at, delay)
    ON CONFLICT (id) DO NOTHING;
    LOCK TABLE {SCHEMA}.{PUTS} IN ROW EXCLUSIVE MODE;
    IF EXISTS (SELECT 1 FROM {SCHEMA}.audience WHERE until > coalesce(_steady, _now)) THEN
        RAISE EXCEPTION USING ERRCODE = '{NOT_PLAIN}', MESSAGE = 'there is a subscriber to events';
    END IF;
    IF EXISTS (SELECT 1 FROM {SCHEMA}.waiter WHERE armed) THEN
        PERFORM {SCHEMA}.wake(array_agg(queue), array_agg(number), '{}', 0, 0) FROM (
            SELECT queue, sum(CASE WHEN run_at IS NULL AND delay = 0 THEN 1 ELSE {EVERYONE} END)::bigint AS number
            FROM unnest(_queues, _run_ats, _delays) AS new (queue, run_at, delay) GROUP BY queue
        ) AS each;
    END IF;
END $$;

-- Put one plain job. (If there is one with its id, that is an error: to look first takes longer, and so does PERFORM.) The insert comes
-- first: if an open transaction has put a job with this id, it is waited for without the lock of puts.
CREATE OR REPLACE FUNCTION {SCHEMA}.put_one(
    _id text, _task text, _queue text, _priority bigint, _max_crashes bigint, _body bytea, _options bytea, _run_at bigint,
    _delay bigint, _now bigint, _steady bigint
) RETURNS void LANGUAGE plpgsql SET lock_timeout = {LOCK_WAIT} AS $$
DECLARE heard boolean; slept boolean;
BEGIN
    _now := coalesce(_now, extract(epoch FROM clock_timestamp()) * 1000);
    _run_at := coalesce(_run_at, _now + _delay);
    INSERT INTO {SCHEMA}.job (id, task, queue, state, priority, due, created, max_crashes, body, options) VALUES (
        _id, _task, _queue, CASE WHEN _run_at > _now THEN {SCHEDULED} ELSE {READY} END, _priority, _run_at, _now, _max_crashes,
        _body, _options
    );
    LOCK TABLE {SCHEMA}.{PUTS} IN ROW EXCLUSIVE MODE;
    SELECT EXISTS (SELECT 1 FROM {SCHEMA}.audience WHERE until > coalesce(_steady, _now)), EXISTS (SELECT 1 FROM {SCHEMA}.waiter WHERE armed)
    INTO heard, slept;
    IF heard THEN RAISE EXCEPTION USING ERRCODE = '{NOT_PLAIN}', MESSAGE = 'there is a subscriber to events'; END IF;
    IF slept THEN PERFORM {SCHEMA}.wake(ARRAY[_queue], ARRAY[CASE WHEN _run_at > _now THEN {EVERYONE} ELSE 1 END], '{}', 0, 0); END IF;
END $$;

-- Settle what is simply done, promote what has fallen due, and take from the heads of some lines. The leases, by queue, after a first
-- row with the time of the next due job, now, the next tick, and whether the request was recorded. No row: the rules have to.
-- A client that stands still while it reads keeps the locks if the answer is large. So what is large is left out, with the flag of a large
-- body, and many leases (_apart) are left out altogether: `leases_of` reads them when this is committed.
CREATE OR REPLACE FUNCTION {SCHEMA}.exchange_plain(
    _session text, _number bigint, _unrecorded bigint, _apart bigint, _refs bigint[], _tokens bigint[], _began bigint[], _ended bigint[],
    _spent bigint[], _results bytea[], _data bytea[], _started bigint[], _queues text[], _slots bigint, _spare bigint,
    _lag bigint, _now bigint, _steady bigint
) RETURNS TABLE (
    negative bigint, due bigint, seq bigint, token bigint, id text, task text, queue text, body bytea, options bytea, data bytea,
    attempts bigint, crashes bigint, max_crashes bigint, created bigint, deferred_since bigint, flags bigint
) LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
SET plan_cache_mode = force_generic_plan SET lock_timeout = {LOCK_WAIT} AS $$
#variable_conflict use_column
DECLARE
    own record; last record; name text; heads tid[]; moved bigint; taken bigint := 0; settles bigint := cardinality(_refs);
BEGIN
    LOCK TABLE {SCHEMA}.{PUTS} IN ROW EXCLUSIVE MODE;
    _now := coalesce(_now, extract(epoch FROM clock_timestamp()) * 1000);
    _steady := coalesce(_steady, _now);
    SELECT
        seq, (SELECT due FROM {SCHEMA}.job WHERE state = {SCHEDULED} ORDER BY due LIMIT 1) AS first_due,
        (SELECT next FROM {SCHEMA}.schedule WHERE paused = 0 AND next IS NOT NULL ORDER BY next LIMIT 1) AS next_tick,
        settles = 0 AND cardinality(_started) = 0 AND _steady < seen + coalesce((SELECT value FROM {SCHEMA}.setting WHERE name = 'max-worker-age'), {SILENT}) / 4
            AND NOT EXISTS (SELECT 1 FROM {SCHEMA}.job WHERE state = {READY} AND queue = ANY (_queues))
            AND NOT EXISTS (SELECT 1 FROM {SCHEMA}.job WHERE state = {RUNNING} AND job.session = session.seq) AS idle
    FROM {SCHEMA}.session WHERE id = _session AND closed IS NULL AND number < _number AND _unrecorded < _number
        AND (_steady < seen + timeout OR NOT EXISTS (SELECT 1 FROM {SCHEMA}.job WHERE state = {RUNNING} AND job.session = session.seq))
        AND NOT EXISTS (SELECT 1 FROM {SCHEMA}.ended) AND NOT EXISTS (SELECT 1 FROM {SCHEMA}.control)
        AND NOT EXISTS (SELECT 1 FROM {SCHEMA}.block_list) AND NOT EXISTS (SELECT 1 FROM {SCHEMA}.arrival)
        AND NOT EXISTS (SELECT 1 FROM {SCHEMA}.expiry WHERE at < _now) AND NOT EXISTS (SELECT 1 FROM {SCHEMA}.audience WHERE until > _steady)
        AND NOT EXISTS (SELECT 1 FROM {SCHEMA}.lane WHERE queue = ANY (_queues))
        AND NOT EXISTS (SELECT 1 FROM {SCHEMA}.laned WHERE place = {IS_SCHEDULED} AND due <= _now)
    INTO own;
    IF NOT FOUND THEN RETURN; END IF;
    IF own.idle AND coalesce(own.first_due > _now, TRUE) THEN
        negative := own.first_due; due := _now; created := own.next_tick; flags := 0;
        RETURN NEXT; RETURN;
    END IF;
    UPDATE {SCHEMA}.session SET
        seen = _steady, seen_at = _now, number = _number, answer = decode(repeat('{OK}', settles::integer), 'hex')
    WHERE seq = own.seq AND closed IS NULL AND number < _number;
    IF NOT FOUND THEN RETURN; END IF;  -- since it was read
    IF settles > 0 THEN
        _lag := _now - _lag;
        UPDATE {SCHEMA}.job SET
            state = {DONE}, result = given.result, started = coalesce(given.began + _lag, started),
            finished = coalesce(given.ended + _lag, _now), attempts = attempts + given.spent,
            flags = flags & ~{OF_ONE_RUN}, data = coalesce(given.data, job.data), error = NULL, failure = NULL,
            deferred_since = NULL
        FROM unnest(_refs, _tokens, _began, _ended, _spent, _results, _data)
            AS given (seq, token, began, ended, spent, result, data)
        WHERE job.seq = given.seq AND job.token = given.token AND +job.session = own.seq AND +job.state = {RUNNING}
            AND job.flags & {HOOKED} = 0;
        GET DIAGNOSTICS moved = ROW_COUNT;
        IF moved <> settles OR (
            EXISTS (SELECT 1 FROM {SCHEMA}.completion) AND EXISTS (SELECT 1 FROM {SCHEMA}.completion WHERE job = ANY (_refs))
        ) THEN RAISE EXCEPTION USING ERRCODE = '{NOT_PLAIN}', MESSAGE = 'some leases are more than plain, or not held'; END IF;
        IF EXISTS (SELECT 1 FROM {SCHEMA}.waiter WHERE armed AND kind = {CLIENT}) THEN
            PERFORM {SCHEMA}.wake('{}', '{}', ARRAY(SELECT id FROM {SCHEMA}.job WHERE seq = ANY (_refs)), 0, 0);
        END IF;
    END IF;
    IF cardinality(_started) > 0 THEN
        UPDATE {SCHEMA}.job SET flags = flags & ~{SPARE} WHERE seq = ANY (_started) AND +session = own.seq AND +state = {RUNNING};
    END IF;
    IF own.first_due <= _now AND cardinality(_queues) > 0 THEN  -- its own queues come first, each with its share
        UPDATE {SCHEMA}.job SET state = {READY} WHERE seq = ANY (ARRAY(
            SELECT due.seq FROM unnest(_queues) AS served (name), LATERAL (
                SELECT seq FROM {SCHEMA}.job
                WHERE state = {SCHEDULED} AND flags & {LANED} = 0 AND queue = name AND due <= _now
                ORDER BY due LIMIT {DUE_AT_ONCE} / cardinality(_queues) FOR UPDATE SKIP LOCKED
            ) AS due
        ));
        GET DIAGNOSTICS moved = ROW_COUNT;
        UPDATE {SCHEMA}.job SET state = {READY} WHERE flags & {LANED} = 0 AND seq = ANY (ARRAY(
            SELECT seq FROM {SCHEMA}.job WHERE state = {SCHEDULED} AND due <= _now ORDER BY due LIMIT {DUE_AT_ONCE} - moved FOR UPDATE SKIP LOCKED
        ));
        own.first_due := (SELECT due FROM {SCHEMA}.job WHERE state = {SCHEDULED} ORDER BY due LIMIT 1);
    END IF;
    negative := own.first_due; due := _now; created := own.next_tick; flags := 1;
    RETURN NEXT;
    FOREACH name IN ARRAY _queues LOOP
        EXIT WHEN taken >= _slots + _spare;
        heads := ARRAY(
            SELECT ctid FROM {SCHEMA}.job
            WHERE state = {READY} AND queue = name AND flags & {LANED} = 0
            ORDER BY priority DESC, due, seq LIMIT _slots + _spare - taken FOR UPDATE SKIP LOCKED
        );
        SELECT -priority AS negative, due, seq FROM {SCHEMA}.job WHERE ctid = heads[_slots - taken] INTO last;
        RETURN QUERY WITH handed_out AS (
            UPDATE {SCHEMA}.job SET
                state = {RUNNING}, token = token + 1, session = own.seq, turn = _number, started = _now,
                flags = CASE
                    WHEN taken >= _slots OR (-priority, due, seq) > (last.negative, last.due, last.seq) THEN flags | {SPARE}
                    ELSE flags & ~{SPARE}
                END
            WHERE ctid = ANY (heads) RETURNING *
        ) SELECT
            -priority, due::bigint, seq, token::bigint, id, task, queue, body, CASE WHEN octet_length(options) <= {INLINE} THEN options END,
            CASE WHEN octet_length(data) <= {INLINE} THEN data END, attempts::bigint, crashes::bigint,
            max_crashes::bigint, created::bigint, deferred_since,
            CASE WHEN greatest(octet_length(options), octet_length(data)) > {INLINE} THEN flags | {LARGE_BODY} ELSE flags END
        FROM handed_out WHERE _apart = 0;
        taken := taken + cardinality(heads);
    END LOOP;
    IF taken > 0 AND EXISTS (SELECT 1 FROM {SCHEMA}.expiry) THEN
        UPDATE {SCHEMA}.expiry SET at = NULL FROM {SCHEMA}.job
        WHERE expiry.job = job.seq AND job.state = {RUNNING} AND job.session = own.seq AND job.turn = _number;
    END IF;
END $$;

-- The leases that an exchange has handed out, as far as they are still held, with large bodies.
CREATE OR REPLACE FUNCTION {SCHEMA}.leases_of(_session text, _number bigint) RETURNS TABLE (
    negative bigint, due bigint, seq bigint, token bigint, id text, task text, queue text, body bytea, options bytea, data bytea,
    attempts bigint, crashes bigint, max_crashes bigint, created bigint, deferred_since bigint, flags bigint
) LANGUAGE plpgsql STABLE SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan SET lock_timeout = {LOCK_WAIT} AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT
        -priority, due::bigint, seq, token::bigint, id, task, queue,
        CASE WHEN flags & {LARGE_BODY} <> 0 THEN coalesce((SELECT bytes FROM {SCHEMA}.blob WHERE job = seq AND kind = {BODY}), body) ELSE body END,
        options, data, attempts::bigint, crashes::bigint, max_crashes::bigint, created::bigint, deferred_since, flags::bigint
    FROM {SCHEMA}.job WHERE state = {RUNNING} AND session = (SELECT seq FROM {SCHEMA}.session WHERE id = _session) AND turn = _number;
END $$;
