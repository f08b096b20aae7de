-- This start of a lane did not happen.
DELETE FROM lane_start WHERE lane = ?1 AND number = ?2
