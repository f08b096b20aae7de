"""Bedrock::Jobs: a server of that protocol on an SQLite file, and a client of it."""
