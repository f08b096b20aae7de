-- Events: their numbers.

-- name: event_newest
-- The number of the newest event there ever was.
SELECT seq FROM sqlite_sequence WHERE name = 'event'

-- name: event_trim
-- So many events are kept.
DELETE FROM event WHERE seq <= (SELECT seq FROM sqlite_sequence WHERE name = 'event') - ?1
