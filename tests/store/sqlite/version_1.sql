-- A file as version 0.1 wrote it, dumped: jobs in all states, a lane, a dependency, unique keys, a tag, a schedule.
PRAGMA application_id = 1752327013;
PRAGMA user_version = 1;
CREATE TABLE audience (
    one INTEGER PRIMARY KEY,
    until INTEGER NOT NULL
) STRICT;
CREATE TABLE blob (
    job INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (job, kind)
) STRICT, WITHOUT ROWID;
CREATE TABLE control (
    queue TEXT PRIMARY KEY,
    running_limit INTEGER,
    paused_by TEXT,
    paused_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE TABLE edge (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    parent INTEGER NOT NULL,
    child INTEGER NOT NULL,
    if_failed INTEGER NOT NULL
) STRICT;
INSERT INTO "edge" VALUES(1,4,7,0);
CREATE TABLE ended (
    seq INTEGER PRIMARY KEY,
    parent INTEGER NOT NULL,
    id TEXT NOT NULL,
    how INTEGER NOT NULL,            -- 4 done, 5 failed, 6 cancelled, 7 removed before it was done
    seen INTEGER NOT NULL,           -- edges up to this one have been looked at,
    upto INTEGER NOT NULL            -- those up to this one are to be
) STRICT;
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
CREATE TABLE follower (
    parent INTEGER NOT NULL,
    child INTEGER NOT NULL,
    PRIMARY KEY (parent, child)
) STRICT, WITHOUT ROWID;
INSERT INTO "follower" VALUES(4,7);
CREATE TABLE history (
    seq INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    at INTEGER NOT NULL,
    what TEXT NOT NULL,
    detail TEXT NOT NULL,
    worker TEXT NOT NULL
) STRICT;
INSERT INTO "history" VALUES(1,2,1794781561626,'started','','vm-20783');
INSERT INTO "history" VALUES(2,2,1794781561628,'failed','ValueError: boom','vm-20783');
CREATE TABLE job (
    seq INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    task TEXT NOT NULL,
    queue TEXT NOT NULL,
    state INTEGER NOT NULL,          -- 0 scheduled, 1 ready, 2 running, 3 blocked, 4 done, 5 failed, 6 cancelled
    priority INTEGER NOT NULL,
    due INTEGER NOT NULL,
    created INTEGER NOT NULL,
    token INTEGER NOT NULL,          -- grows with every hand-out and take-away
    attempts INTEGER NOT NULL,
    crashes INTEGER NOT NULL,
    max_crashes INTEGER NOT NULL,
    flags INTEGER NOT NULL,          -- 1 cancelling, 2 spare, 4 history, 8 unique, 16 large body, 32 large result,
    session INTEGER,                 -- who holds it, or held it last
    turn INTEGER,                    -- the number of the exchange that handed it out
    started INTEGER,
    finished INTEGER,
    deferred_since INTEGER,
    progress_done REAL,
    progress_total REAL,
    failure TEXT,                    -- the group it failed in
    body BLOB NOT NULL,
    options BLOB,
    unique_key TEXT,                 -- the key it was put with; the table `unique_key` says who has it
    data BLOB,
    result BLOB,
    error BLOB
) STRICT;
INSERT INTO "job" VALUES(1,'01a1e151421370008dca3e89fadff757','shop:add','default',4,0,1794781561522,1794781561522,1,1,0,3,0,1,1,1794781561626,1794781561626,NULL,NULL,NULL,NULL,X'7B2261223A312C2262223A327D',NULL,NULL,NULL,X'33',NULL);
INSERT INTO "job" VALUES(2,'01a1e15142b37000a10a6a08bce3d36a','shop:boom','default',5,0,1794781561523,1794781561523,1,1,0,3,4,1,1,1794781561626,1794781561628,NULL,NULL,NULL,'ValueError',X'7B7D',NULL,NULL,NULL,NULL,X'7B2274797065223A2256616C75654572726F72222C226D657373616765223A22626F6F6D222C2274726163656261636B223A2254726163656261636B20286D6F737420726563656E742063616C6C206C617374293A5C6E202046696C65205C222F776F726B2F77742F6C6561642F7372632F68656164726163652F776F726B65722F72756E2E70795C222C206C696E652035332C20696E20706572666F726D5C6E2020202076616C7565203D207461736B2E66756E6374696F6E282A617267732C202A2A6B7761726773295C6E2020202020202020202020205E5E5E5E5E5E5E5E5E5E5E5E5E5E5E5E5E5E5E5E5E5E5E5E5E5E5E5E5E5E5C6E202046696C65205C222F746D702F6D616B655F76312E70795C222C206C696E652031302C20696E20626F6F6D5C6E2020202064656620626F6F6D2829202D3E204E6F6E653A2072616973652056616C75654572726F72285C22626F6F6D5C22295C6E2020202020202020202020202020202020202020202020205E5E5E5E5E5E5E5E5E5E5E5E5E5E5E5E5E5E5E5E5E5E5E5E5C6E56616C75654572726F723A20626F6F6D5C6E227D');
INSERT INTO "job" VALUES(3,'b2352030bc4feb720dad5e4f52cec787','shop:add','default',4,0,1794781561523,1794781561523,1,1,0,3,8,1,1,1794781561626,1794781561626,NULL,NULL,NULL,NULL,X'7B2261223A352C2262223A357D',NULL,'shop:add
b2352030bc4feb720dad5e4f52cec787',NULL,X'3130',NULL);
INSERT INTO "job" VALUES(4,'01a1e1514325700088f0350a05c2125b','shop:add','default',1,0,1794781561637,1794781561637,0,0,0,3,128,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,X'7B2261223A332C2262223A347D',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "job" VALUES(5,'0d2d64c12a0ebe77d0315041cda3df9e','shop:add','default',1,0,1794781561642,1794781561642,0,0,0,3,8,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,X'7B2261223A372C2262223A377D',NULL,'shop:add
0d2d64c12a0ebe77d0315041cda3df9e',NULL,NULL,NULL);
INSERT INTO "job" VALUES(6,'01a1e151432a700083fc8ad4711491cb','shop:add','default',1,0,1794781561642,1794781561642,0,0,0,3,8,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,X'7B2261223A382C2262223A387D',NULL,'shop:add
k',NULL,NULL,NULL);
INSERT INTO "job" VALUES(7,'01a1e151432a70019e2dd602ffb1e82b','shop:add','default',3,0,1794781561642,1794781561642,0,0,0,3,64,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,X'7B2261223A312C2262223A317D',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "job" VALUES(8,'01a1e151438b7000a59869e38ceba7c2','shop:add','default',0,0,4102444800000,1794781561739,0,0,0,3,0,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,X'7B2261223A322C2262223A327D',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "job" VALUES(9,'01a1e151438b7001877e0311ac99a854','shop:add','default',1,5,1794781561739,1794781561739,0,0,0,3,512,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,X'7B2261223A322C2262223A337D',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "job" VALUES(10,'01a1e151438b7002b619edc8d6496e4f','shop:add','default',1,0,1794781561739,1794781561739,0,0,0,3,256,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,X'7B2261223A302C2262223A307D',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "job" VALUES(11,'01a1e151438c70009499c831aada21ae','shop:add','default',3,0,1794781561740,1794781561740,0,0,0,3,256,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,X'7B2261223A312C2262223A317D',NULL,NULL,NULL,NULL,NULL);
INSERT INTO "job" VALUES(12,'01a1e151438c7001a2a76f18c40843a5','shop:add','default',3,0,1794781561740,1794781561740,0,0,0,3,256,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,X'7B2261223A322C2262223A327D',NULL,NULL,NULL,NULL,NULL);
CREATE TABLE lane (
    seq INTEGER PRIMARY KEY,
    queue TEXT NOT NULL,
    key TEXT NOT NULL,
    running_limit INTEGER,
    rate INTEGER,
    per INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    unfinished INTEGER NOT NULL,
    running INTEGER NOT NULL,
    front INTEGER,                   -- the job that stands in the queue's line, or will when the rate allows it
    front_due INTEGER,               -- when that one was due before the lane said when
    turn INTEGER,                    -- in a sequence: the job that the others wait for
    starts INTEGER NOT NULL,         -- how many there were; `lane_start` has the last ones
    forget_at INTEGER,               -- when nothing needs to be remembered any more, if it has no unfinished jobs
    UNIQUE (queue, key)
) STRICT;
INSERT INTO "lane" VALUES(1,'default','s',1,NULL,1000,1,3,0,10,1794781561739,10,0,NULL);
CREATE TABLE lane_start (
    lane INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (lane, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE laned (
    job INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    running_limit INTEGER,
    rate INTEGER,
    per INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    place INTEGER NOT NULL,          -- 0 elsewhere, 1 in the lane's own line, 2 running, 3 scheduled
    lane INTEGER,
    rank INTEGER NOT NULL,           -- in the line: its priority, negative; 0 in a sequence
    due INTEGER NOT NULL             -- in the line, and while scheduled; 0 in a sequence
) STRICT;
INSERT INTO "laned" VALUES(10,'s',1,NULL,1000,1,0,NULL,0,0);
INSERT INTO "laned" VALUES(11,'s',1,NULL,1000,1,1,1,0,0);
INSERT INTO "laned" VALUES(12,'s',1,NULL,1000,1,1,1,0,0);
CREATE TABLE progress (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE recurring (
    job INTEGER PRIMARY KEY,
    schedule TEXT NOT NULL,
    tick INTEGER
) STRICT;
CREATE TABLE relation (
    job INTEGER PRIMARY KEY,
    parents TEXT NOT NULL,           -- their ids, as a JSON array
    if_failed INTEGER NOT NULL,      -- 0 wait, 1 fail, 2 run
    delay INTEGER                    -- to count from when the last one is met
) STRICT;
INSERT INTO "relation" VALUES(7,'["01a1e1514325700088f0350a05c2125b"]',0,0);
CREATE TABLE schedule (
    name TEXT PRIMARY KEY,
    definition BLOB NOT NULL,        -- JSON: the rule, the job, what to do about trouble
    version INTEGER NOT NULL,        -- grows with every change: who changes it says which one was seen
    created INTEGER NOT NULL,
    paused INTEGER NOT NULL,
    next INTEGER,
    runs INTEGER NOT NULL,
    last_tick INTEGER,
    last_job TEXT,
    started INTEGER,                 -- of the last job, until the next tick has been worked out from it
    finished INTEGER,
    data BLOB
) STRICT;
INSERT INTO "schedule" VALUES('shop:add 738869e4359f',X'7B2272756C65223A2265766572792035206D696E7574657320555443222C227461736B223A2273686F703A616464222C22626F6479223A2265794A68496A6F354C434A69496A6F3566513D3D222C227175657565223A2264656661756C74222C227072696F72697479223A302C226D61785F63726173686573223A332C226F7074696F6E73223A6E756C6C2C226C616E65223A6E756C6C2C2274616773223A5B5D2C226F7665726C6170223A22616C6C6F77222C226D697366697265223A226F6E6365222C226C696D6974223A3130302C226772616365223A36303030302C226A6974746572223A302C227374617274223A6E756C6C2C22656E64223A6E756C6C2C226F6666736574223A302C226D61785F72756E73223A6E756C6C2C2263617272795F64617461223A66616C73652C226465636C617265645F6279223A6E756C6C7D',1,1794781561766,0,1794781800000,0,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE seq_floor (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    seq INTEGER NOT NULL
) STRICT;
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
    closed INTEGER
) STRICT;
INSERT INTO "session" VALUES(1,'01a1e15142fd70008f932ac257b4be6a',X'7B226964223A223031613165313531343266643730303038663933326163323537623462653661222C226E616D65223A22766D2D3230373833222C22686F7374223A22686F7374222C226E6F6465223A22766D222C22706964223A32303738332C2270726F63657373223A302C2273746172746564223A22313037353930222C22717565756573223A5B2264656661756C74225D2C227461736B73223A5B2273686F703A616464222C2273686F703A626F6F6D225D2C2274696D656F7574223A31353030307D','vm-20783',15000,1794781561597,1076370,1794781561628,2,X'',1794781561637);
CREATE TABLE setting (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE stat (
    queue TEXT NOT NULL,
    day INTEGER NOT NULL,            -- since 1970, UTC
    kind INTEGER NOT NULL,           -- 0 waits, 1 runs, 2 retries, 3 failures
    bucket INTEGER NOT NULL,         -- see headrace.stats; -1: all together
    count INTEGER NOT NULL,
    total REAL NOT NULL,             -- milliseconds
    squares REAL NOT NULL,
    PRIMARY KEY (day, queue, kind, bucket)
) STRICT, WITHOUT ROWID;
INSERT INTO "stat" VALUES('default',20772,3,-1,1,0.0,0.0);
CREATE TABLE tag (
    job INTEGER NOT NULL,
    tag TEXT NOT NULL,
    PRIMARY KEY (job, tag)
) STRICT, WITHOUT ROWID;
INSERT INTO "tag" VALUES(9,'red');
CREATE TABLE tag_count (
    tag TEXT PRIMARY KEY,
    jobs INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "tag_count" VALUES('red',1);
CREATE TABLE tracked (
    job INTEGER PRIMARY KEY
) STRICT;
CREATE TABLE unique_key (
    key TEXT PRIMARY KEY,
    job INTEGER NOT NULL,
    until INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO "unique_key" VALUES('shop:add
0d2d64c12a0ebe77d0315041cda3df9e',5,NULL);
INSERT INTO "unique_key" VALUES('shop:add
b2352030bc4feb720dad5e4f52cec787',3,NULL);
INSERT INTO "unique_key" VALUES('shop:add
k',6,NULL);
CREATE TRIGGER newest_deleted AFTER DELETE ON job
WHEN old.seq > coalesce((SELECT max(seq) FROM job), 0)
BEGIN
    INSERT INTO seq_floor (one, seq) VALUES (1, old.seq + 1)
    ON CONFLICT (one) DO UPDATE SET seq = max(seq, excluded.seq);
END;
CREATE INDEX job_ready ON job (queue, priority DESC, due, seq) WHERE state = 1;
CREATE INDEX job_scheduled ON job (due, queue) WHERE state = 0;
CREATE INDEX job_held ON job (session, queue) WHERE state = 2;
CREATE INDEX job_finished ON job (state, finished, queue) WHERE state >= 4;
CREATE INDEX job_blocked ON job (queue) WHERE state = 3;
CREATE INDEX job_failure ON job (failure, seq) WHERE state = 5;
CREATE INDEX session_open ON session (seq) WHERE closed IS NULL;
CREATE INDEX session_closed ON session (closed) WHERE closed IS NOT NULL;
CREATE INDEX unique_key_job ON unique_key (job);
CREATE INDEX history_job ON history (job, seq);
CREATE INDEX tag_jobs ON tag (tag, job);
CREATE INDEX tag_most ON tag_count (jobs DESC, tag);
CREATE TRIGGER tag_added AFTER INSERT ON tag BEGIN
    INSERT INTO tag_count (tag, jobs) VALUES (new.tag, 1) ON CONFLICT (tag) DO UPDATE SET jobs = jobs + 1;
END;
CREATE TRIGGER tag_removed AFTER DELETE ON tag BEGIN
    UPDATE tag_count SET jobs = jobs - 1 WHERE tag = old.tag;
    DELETE FROM tag_count WHERE tag = old.tag AND jobs = 0;
END;
CREATE INDEX stat_bucket ON stat (day) WHERE bucket >= 0;
CREATE INDEX schedule_next ON schedule (next, name) WHERE paused = 0 AND next IS NOT NULL;
CREATE INDEX recurring_schedule ON recurring (schedule, job);
CREATE INDEX edge_parent ON edge (parent);
CREATE UNIQUE INDEX edge_child ON edge (child, parent);
CREATE INDEX follower_child ON follower (child);
CREATE INDEX ended_parent ON ended (parent);
CREATE INDEX lane_idle ON lane (forget_at) WHERE unfinished = 0;
CREATE INDEX laned_place ON laned (lane, place, rank, due, job) WHERE lane IS NOT NULL;
CREATE INDEX laned_due ON laned (due) WHERE place = 3;
CREATE VIEW jobs AS
SELECT
    job.id,
    job.task,
    job.queue,
    CASE job.state
        WHEN 0 THEN 'scheduled' WHEN 1 THEN 'ready' WHEN 2 THEN 'running' WHEN 3 THEN 'blocked'
        WHEN 4 THEN 'done' WHEN 5 THEN 'failed' ELSE 'cancelled'
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
    CAST(coalesce((SELECT bytes FROM blob WHERE blob.job = job.seq AND kind = 0), job.body) AS TEXT) AS arguments,
    CAST(coalesce((SELECT bytes FROM blob WHERE blob.job = job.seq AND kind = 1), job.result) AS TEXT) AS result,
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
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('session',1);
INSERT INTO "sqlite_sequence" VALUES('edge',1);
