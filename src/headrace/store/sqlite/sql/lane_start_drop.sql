-- Starts up to this number need not be remembered.
DELETE FROM lane_start WHERE lane = ?1 AND number <= ?2
