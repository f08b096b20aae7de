-- The second half of closing a gap.
UPDATE lane_start SET number = -number WHERE lane = ?1 AND number < 0
