-- Store a schedule, or what has changed of it.
INSERT INTO schedule (name, definition, version, created, paused, next, runs, last_tick, last_job, started, finished, data)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
ON CONFLICT (name) DO UPDATE SET
    definition = ?2, version = ?3, paused = ?5, next = ?6, runs = ?7, last_tick = ?8, last_job = ?9, started = ?10,
    finished = ?11, data = ?12
