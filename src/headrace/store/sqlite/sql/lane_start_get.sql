-- When a lane's start of this number was, at the latest.
SELECT at FROM lane_start WHERE lane = ?1 AND number = ?2
