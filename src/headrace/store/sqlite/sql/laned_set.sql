-- Where a job is in its lane.
UPDATE laned SET place = ?2, lane = ?3, rank = ?4, due = ?5, start_within = ?6 WHERE job = ?1
