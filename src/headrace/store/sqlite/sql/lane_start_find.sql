-- Which of a lane's starts was at this time? Mostly it is one of the last.
SELECT number FROM lane_start WHERE lane = ?1 AND at = ?2 ORDER BY number DESC LIMIT 1
