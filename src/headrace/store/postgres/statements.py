"""The statements of this database, by name: those of `headrace.store.sql` in PostgreSQL's words, and its own.

The shared texts are SQLite's, and are translated here once, when the module is loaded. What can't be translated word by
word has a statement of the same name in `statements/own.sql`. An empty one says that another statement has done it.
"""

from __future__ import annotations

import re

from headrace.records import Verdict
from headrace.store import statements
from headrace.store.sql import codes
from headrace.store.sql.admission import DUE_AT_ONCE
from headrace.store.sql.transaction import EVERYONE, INLINE
from headrace.values.names import LONGEST

SCHEMA_VERSION = 1
UNIQUE_WAIT = 2_000
"""Milliseconds that a put waits for an open transaction that has put a job with the same unique key."""
RULES, PUTS, MIGRATION = 1, 2, 3
"""Advisory locks of a schema, in the order in which they are taken.

The first is that of the rules: only its holder changes lanes, relations, unique keys and controls. The second is shared
by all that may concern a sleeper, and a waiter has it alone while it goes to sleep. The third is for changes of the
schema. Rows are locked after these: sessions, then jobs by seq.
"""
NOT_PLAIN = "HR002"
"""The code of the error by which a function takes back what it has written."""
NOT_HERE = "HR003"
"""The code of the error by which a function says that a caller's connection leads to another database."""
WORKER, CLIENT, SUBSCRIBER = range(3)
"""`waiter.kind`."""
_CONSTANTS = {
    **vars(codes),
    "SCHEMA_VERSION": SCHEMA_VERSION,
    "PUTS": PUTS,
    "WORKER": WORKER,
    "CLIENT": CLIENT,
    "SUBSCRIBER": SUBSCRIBER,
    "EVERYONE": EVERYONE,
    "INLINE": INLINE,
    "LONGEST_NAME": LONGEST,
    "UNIQUE_WAIT": UNIQUE_WAIT,
    "DUE_AT_ONCE": DUE_AT_ONCE,
    "OK": f"{Verdict.OK:02x}",
    "NOT_PLAIN": NOT_PLAIN,
    "NOT_HERE": NOT_HERE,
    "SCHEMA": "{SCHEMA}",  # these two are the store's own
    "KEY": "{KEY}",
}

_WORDS: tuple[tuple[str, str], ...] = (
    # A subquery that locks might be run more than once by a join; an array is made once.
    (r"\bIN \(\s*(SELECT [^()]* /\*skip\*/)\s*\)", r"= ANY (ARRAY(\1))"),
    (r"json_each\(\?(\d+)/\*text\*/\)", r"unnest($\1::text[]) AS each(value)"),
    (r"json_each\(\?(\d+)/\*pairs\*/\)", r"jsonb_array_elements($\1::jsonb) AS each(value)"),
    (r"json_each\(\?(\d+)\)", r"unnest($\1::bigint[]) AS each(value)"),
    (r"LIMIT \?(\d+)", r"LIMIT nullif($\1, -1)"),
    (r"\?(\d+)", r"$\1"),
    (r" INDEXED BY \w+", ""),
    (r"\bCROSS JOIN\b", "JOIN"),
    (r"\bUPDATE OR FAIL\b", "UPDATE"),
    (r"\bx''", "''::bytea"),
    (r"\bifnull\(", "coalesce("),
)


def translate(text: str) -> str:
    """A statement of SQLite in PostgreSQL's words.

    >>> translate("SELECT seq FROM job INDEXED BY job_held WHERE seq IN (SELECT value FROM json_each(?1)) LIMIT ?2")
    'SELECT seq FROM job WHERE seq IN (SELECT value FROM unnest($1::bigint[]) AS each(value)) LIMIT nullif($2, -1)'
    """
    for pattern, words in _WORDS:
        text = re.sub(pattern, words, text)
    return text


def _with_locks(text: str) -> str:
    return text.replace("/*lock*/", "FOR UPDATE").replace("/*skip*/", "FOR UPDATE SKIP LOCKED")


def _without_locks(text: str) -> str:
    return text.replace("/*lock*/", "").replace("/*skip*/", "")


_ALL = {
    **statements.load("headrace.store.sql", "statements", _CONSTANTS),
    **statements.load("headrace.store.postgres", "statements", _CONSTANTS),
}
SCHEMA = "\n\n".join(_ALL.pop(name) for name in ("schema", "functions", "arrivals_schema"))
"""All that creates a schema. `{SCHEMA}` stands for its name, `{KEY}` for the first number of its advisory locks."""
WRITING = {name: _with_locks(translate(text)) for name, text in _ALL.items()}
"""In transactions that write: what they read of jobs and sessions is locked, so that it is so until they end."""
READING = {name: _without_locks(translate(text)) for name, text in _ALL.items()}
