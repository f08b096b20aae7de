-- The latest start that a lane remembers.
SELECT max(at) FROM lane_start WHERE lane = ?1
