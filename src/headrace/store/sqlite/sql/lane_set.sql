-- How a lane is now.
UPDATE lane SET
    running_limit = ?2, rate = ?3, per = ?4, sequence = ?5, unfinished = ?6, running = ?7, front = ?8, turn = ?9, starts = ?10,
    forget_at = ?11, front_due = ?12
WHERE seq = ?1
