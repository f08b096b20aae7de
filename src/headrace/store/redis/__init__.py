"""The distributed store: Redis (6.2 or newer) or Valkey, one script per operation."""
