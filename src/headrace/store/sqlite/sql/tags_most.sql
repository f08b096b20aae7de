-- The most used words.
SELECT tag, jobs FROM tag_count ORDER BY jobs DESC, tag LIMIT ?1
