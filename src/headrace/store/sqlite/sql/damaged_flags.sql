-- The flags of a job, as far as other tables tell them.
SELECT
    4 * EXISTS (SELECT 1 FROM history WHERE job = ?1)
    + 8 * EXISTS (SELECT 1 FROM unique_key WHERE job = ?1)
    + 16 * EXISTS (SELECT 1 FROM blob WHERE job = ?1 AND kind = 0)
    + 32 * EXISTS (SELECT 1 FROM blob WHERE job = ?1 AND kind = 1)
    + 64 * EXISTS (SELECT 1 FROM relation WHERE job = ?1)
    + 128 * (EXISTS (SELECT 1 FROM edge WHERE parent = ?1) OR EXISTS (SELECT 1 FROM follower WHERE parent = ?1))
    + 256 * EXISTS (SELECT 1 FROM laned WHERE job = ?1)
    + 512 * EXISTS (SELECT 1 FROM tag WHERE job = ?1)
    + 1024 * EXISTS (SELECT 1 FROM tracked WHERE job = ?1)
    + 2048 * EXISTS (SELECT 1 FROM recurring WHERE job = ?1)
