-- Those after a start that did not happen get the numbers before theirs, negative at first, so that none is there twice.
UPDATE lane_start SET number = 1 - number WHERE lane = ?1 AND number > ?2
