-- Somebody listens, until then at least.
INSERT INTO audience (one, until) VALUES (1, ?1) ON CONFLICT (one) DO UPDATE SET until = excluded.until
