-- Store a value too large to be carried along in `job`.
INSERT OR REPLACE INTO blob (job, kind, bytes) SELECT seq, ?2, ?3 FROM job WHERE id = ?1
