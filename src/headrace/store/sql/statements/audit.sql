-- What operators have done.

-- name: audit_put
-- Note an act.
INSERT INTO audit (at, who, what, about) VALUES (?1, ?2, ?3, ?4)

-- name: audit_read
-- The newest acts, up to the one with this number.
SELECT seq, at, who, what, about FROM audit WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2

-- name: audit_trim
-- Acts beyond the number that is kept.
DELETE FROM audit WHERE seq <= (SELECT max(seq) FROM audit) - ?1

-- name: audit_age
-- Of the oldest acts, those from before a moment.
DELETE FROM audit WHERE seq < (SELECT min(seq) FROM audit) + ?1 AND at < ?2
