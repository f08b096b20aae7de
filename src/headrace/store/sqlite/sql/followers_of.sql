-- Some of those who name an ended job, and whether each needs it: it is unfinished, and that one is done, or it waits for nothing any
-- more. (One that does may wait for the very end of a failed one.)
SELECT
    child,
    coalesce(job.state < 4, FALSE)
    AND (?2 = 4 OR NOT EXISTS (SELECT 1 FROM edge WHERE edge.child = follower.child))
FROM follower LEFT JOIN job ON job.seq = follower.child
WHERE follower.parent = ?1
ORDER BY follower.child LIMIT ?3
