-- One job, all columns in their order. As bytes and whole numbers: what is neither must not keep a job from being read.
SELECT CAST(created AS BLOB), jobID, CAST(state AS BLOB), CAST(name AS BLOB), CAST(nextRun AS BLOB), CAST(lastRun AS BLOB),
    CAST(repeat AS BLOB), CAST(data AS BLOB), CAST(priority AS INTEGER), CAST(parentJobID AS INTEGER),
    CAST(retryAfter AS BLOB), CAST(sequentialKey AS BLOB)
FROM jobs WHERE jobID = ?1
