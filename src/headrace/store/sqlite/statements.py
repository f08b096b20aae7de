"""The statements of this database, by name: those of `headrace.store.sql`, and its own."""

import re

from headrace.store import statements
from headrace.store.sql import codes

_LOCKS = re.compile(r" ?/\*\w+\*/")
"""Where a database with many writers locks rows, or has another name for a list. Here there is one writer at a time."""

SQL = {
    name: _LOCKS.sub("", text)
    for package in ("headrace.store.sql", "headrace.store.sqlite")
    for name, text in statements.load(package, "statements", vars(codes)).items()
}
