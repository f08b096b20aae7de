-- Remove a schedule.
DELETE FROM schedule WHERE name = ?1
