-- The statistics of a day, as far as they were summed up.
SELECT kind, bucket, count, total, squares FROM stat WHERE queue = ?1 AND day = ?2
