"""The PostgreSQL store: connections, wake-ups, and the statements that are its own."""
