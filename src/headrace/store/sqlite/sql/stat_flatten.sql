-- The histograms of a day are given up: what they counted remains in one sum.
INSERT INTO stat (queue, day, kind, bucket, count, total, squares)
SELECT queue, day, kind, -1, sum(count), sum(total), sum(squares)
FROM stat
WHERE day = ?1 AND bucket >= 0
GROUP BY queue, day, kind
ON CONFLICT (day, queue, kind, bucket) DO UPDATE SET
    count = count + excluded.count, total = total + excluded.total, squares = squares + excluded.squares
