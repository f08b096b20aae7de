"""The statements of the folder `sql`, by name."""

from headrace.store import statements

SQL = statements.load("headrace.store.sqlite", "sql", {})
