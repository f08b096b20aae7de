"""The statements of this database, by name."""

from headrace.store import statements
from headrace.store.sql import codes

SQL = statements.load("headrace.store.sqlite", "statements", vars(codes))
