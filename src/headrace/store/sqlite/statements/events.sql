-- Events: their numbers.

-- name: event_newest
-- The number of the newest event there ever was.
SELECT seq FROM sqlite_sequence WHERE name = 'event'
