-- When a lane's start of this number was.
SELECT at FROM lane_start WHERE lane = ?1 AND number = ?2
