-- A job is gone, or was revived by hand: nothing is held against those that it comes after.
DELETE FROM culprit WHERE child = ?1
