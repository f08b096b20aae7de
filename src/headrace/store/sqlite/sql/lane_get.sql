-- A lane.
SELECT seq, queue, key, running_limit, rate, per, sequence, unfinished, running, front, front_due, turn, starts, forget_at
FROM lane
WHERE queue = ?1 AND key = ?2
