-- Add to the statistics of a day.
INSERT INTO stat (day, queue, kind, bucket, count, total, squares) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (day, queue, kind, bucket) DO UPDATE SET
    count = count + excluded.count, total = total + excluded.total, squares = squares + excluded.squares
