"""The rules of every transition for SQL databases, one file per step."""
