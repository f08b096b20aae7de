"""headrace: a job queue and scheduler for Python."""
