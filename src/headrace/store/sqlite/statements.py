"""The statements of this database, by name: those of `headrace.store.sql`, and its own."""

from headrace.store import statements
from headrace.store.sql import codes

SQL = {
    **statements.load("headrace.store.sql", "statements", vars(codes)),
    **statements.load("headrace.store.sqlite", "statements", vars(codes)),
}
