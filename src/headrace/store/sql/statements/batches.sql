-- Batches that are staged in parts, as they cost more than one transaction should.

-- name: batch_begin
-- A client begins to stage a batch.
INSERT INTO batch (staged) VALUES (?1) RETURNING seq

-- name: batch_staged
-- Its client is alive.
UPDATE batch SET staged = ?2 WHERE seq = ?1

-- name: batch_accept
-- All parts are there: from now on the batch is certain to come in.
UPDATE batch SET put = ?2 WHERE seq = ?1

-- name: batch_first
-- The oldest batch.
SELECT seq, staged, put FROM batch ORDER BY seq LIMIT 1

-- name: batch_delete
-- All of it has come in, or was forgotten.
DELETE FROM batch WHERE seq = ?1

-- name: part_put
-- Stage a part, unless sweeps have forgotten the batch.
INSERT INTO part (batch, number, jobs, linked) SELECT seq, ?2, ?3, 0 FROM batch WHERE seq = ?1

-- name: part_first
-- The next part of a batch, and when the batch was put.
SELECT part.seq, part.number, part.linked, batch.put
FROM part JOIN batch ON batch.seq = part.batch
WHERE part.batch = ?1
ORDER BY part.seq LIMIT 1

-- name: part_jobs
-- The jobs of a part.
SELECT jobs FROM part WHERE seq = ?1

-- name: part_linked
-- So many parents of its job have been linked.
UPDATE part SET linked = ?2 WHERE seq = ?1

-- name: part_delete
-- It has come in.
DELETE FROM part WHERE seq = ?1

-- name: parts_forget
-- Forget some parts of a batch.
DELETE FROM part WHERE seq IN (SELECT seq FROM part WHERE batch = ?1 ORDER BY seq LIMIT 10)
