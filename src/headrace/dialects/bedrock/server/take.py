"""GetJob and GetJobs: hand out jobs that are due, each to exactly one worker, without reading the whole table.

An exact name has a line of its own in an index. A pattern has none, so two searches alternate, each allowed to read a
little more than before: down the line of all names until one matches, and from name to name through the names that
begin like the pattern. The second is quick where jobs of other names stand in front; the first is quick where there are
as many names as jobs. Both find the same jobs, and the search that ends first begins the next time.

Mocked jobs stand in lines of their own: a request for both kinds gets the first jobs of the two lines together.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from headrace.dialects.bedrock.server.requests import Request
from headrace.dialects.bedrock.server.transaction import Answer, Row, Transaction, describe, read_text
from headrace.dialects.bedrock.server.values import (
    LARGEST,
    read_data,
    read_integer,
    read_list,
    render,
    render_object,
    render_text,
)
from headrace.dialects.bedrock.times import next_run, shift
from headrace.dialects.bedrock.wire import MOST_TRIES, Refused
from headrace.values.glob import literal_part

LONGEST_PATTERN = 12_750
MOST_JOBS = 10_000
LARGEST_ANSWER = 4_000_000
"""An answer holds no more jobs than the one, and takes no more jobs once it is larger than the other, however many are
asked for: all other clients wait while it is made."""
FIRST_BUDGET = 8
"""How many rows, or names, a search may read in its first round; eight times as many in each later one."""
REAL, MOCKED = 0, 1


class Wish:
    """Which jobs a request wants: names (exact ones, or one pattern), a priority, mocked ones too or not.

    Equal wishes are always granted or refused together.
    """

    __slots__ = ("_key", "exact", "kinds", "names", "prefix", "priority")

    def __init__(self, name: str, priority: int | None = None, *, mocked: bool = False) -> None:
        entries = read_list(name)
        self.prefix = literal_part(name)
        self.exact = len(entries) > 1 or self.prefix == name
        self.names: tuple[str, ...] = tuple(dict.fromkeys(entries)) if len(entries) > 1 else (name,)
        self.priority = priority
        self.kinds = (REAL, MOCKED) if mocked else (REAL,)
        self._key = (self.names, self.exact, priority, mocked)

    @property
    def is_prefix(self) -> bool:
        """Whether the pattern is nothing but a prefix: text and a star."""
        return not self.exact and self.names[0] == self.prefix + "*"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Wish) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


class Wanted:
    """A checked GetJob or GetJobs: the wish, how many, and whether the answer is a list."""

    __slots__ = ("count", "many", "wish")

    def __init__(self, request: Request) -> None:
        name = request.required("name", LONGEST_PATTERN)
        self.many = request.verb == "getjobs"
        number = request.find("numresults")
        if self.many and number is None:
            raise Refused("402 Missing numResults")
        if not self.many and number is not None:
            raise Refused("402 Cannot use numResults with GetJob; try GetJobs")
        self.count = min(max(1, request.integer("numresults")), MOST_JOBS)
        priority = request.priority(None)
        mocked = request.find("mockrequest") is not None or request.find("getmockedjobs") is not None
        self.wish = Wish(name, priority, mocked=mocked)


class HandOut(NamedTuple):
    """The jobs that a GetJob or GetJobs took: the answer, and the ids to put back should it not be delivered."""

    body: Answer
    ids: list[int]


def get_jobs(tx: Transaction, wanted: Wanted) -> HandOut | None:
    """Take the next jobs in line; None when there are none."""
    found = next_in_line(tx, wanted.wish, wanted.count)
    if not found:
        return None
    taken = []
    bodies = []
    size = 0
    for job_id in found:
        if size > LARGEST_ANSWER:
            break
        row = tx.job(job_id)
        if any(tx.matches(row.name, pattern) for pattern in tx.blacklist) or _tries(row) >= MOST_TRIES:
            tx.fail(row)
            continue
        bodies.append(_describe(tx, row))
        size += len(bodies[-1])
        _start(tx, row)
        taken.append(row.job_id)
    if wanted.many:
        return HandOut(f'{{"jobs":[{",".join(bodies)}]}}', taken)
    return HandOut(bodies[0] if bodies else "{}", taken)


def _tries(row: Row) -> int:
    if "retryAfterCount" not in row.data:
        return 0
    count = read_data(row.data).get("retryAfterCount")
    return read_integer(str(count)) if isinstance(count, int | float | str) else 0


def _describe(tx: Transaction, row: Row) -> str:
    """The job as it was before it was handed out."""
    members = describe(row)
    if row.parent_id:
        parent = tx.find(row.parent_id)
        members.append(("parentData", render_text("") if parent is None else render(parent.data)))
        members.append(("parentJobID", str(row.parent_id)))
    else:
        members += _ended_children(tx, row.job_id)
    return render_object(sorted(members, key=lambda member: member[0].lower()) if len(members) > 9 else members)


def _ended_children(tx: Transaction, job_id: int) -> list[tuple[str, str]]:
    children = tx.rows("ended_children", job_id)
    if not children:
        return []
    lists: dict[str, list[str]] = {"FINISHED": [], "CANCELLED": []}
    for child_id, state, data in children:
        lists[state].append(render_object([("data", render(read_text(data))), ("jobID", str(child_id))]))
    return [
        ("cancelledChildJobs", f"[{','.join(lists['CANCELLED'])}]"),
        ("finishedChildJobs", f"[{','.join(lists['FINISHED'])}]"),
    ]


def _start(tx: Transaction, row: Row) -> None:
    again = shift(row.retry_after, tx.moment) if row.retry_after else None
    if again is not None and row.repeat:
        repeated = next_run(row.repeat, scheduled=row.next_run, started=tx.now_seconds, finished=tx.moment)
        again = None if repeated is None else min(again, repeated)
    if again is None:
        tx.run("start", row.job_id, tx.now_seconds)
        if row.retry_after:  # there is no time to try again at: the worker has it already, and no other will get it
            tx.fail(row)
        return
    tx.run("start_with_retry", row.job_id, tx.now_seconds, again)
    if not row.name.startswith("manual"):
        scheduled = row.repeat[:9].upper() == "SCHEDULED"
        tx.run("count_try", row.job_id, _tries(row) + 1, row.next_run if scheduled else None)


def first_beyond(prefix: str) -> str | bytes:
    """The first text that comes after all texts with a prefix, in the order of their UTF-8 bytes.

    >>> first_beyond("mail/")
    'mail0'
    """
    for end in range(len(prefix), 0, -1):
        code = ord(prefix[end - 1])
        if code < 0x10FFFF:
            return prefix[: end - 1] + chr(0xE000 if code == 0xD7FF else code + 1)
    return b""  # beyond all texts: SQLite puts every blob after every text


class Place(NamedTuple):
    """Where a due job stands. Places are read before jobs, whose data may be large."""

    urgency: int
    """Its priority, negative: the lowest comes first."""
    due: bytes
    job_id: int


def next_in_line(tx: Transaction, wish: Wish, count: int) -> list[int]:
    """Ids of up to so many jobs that are due, in order: priority (higher first), then nextRun, then jobID."""
    return [place.job_id for place in _first(count, [_of_kind(tx, wish, kind, count) for kind in wish.kinds])]


def _first(count: int, lines: Sequence[list[Place]]) -> list[Place]:
    return lines[0] if len(lines) == 1 else sorted(itertools.chain.from_iterable(lines))[:count]


def _of_kind(tx: Transaction, wish: Wish, kind: int, count: int) -> list[Place]:
    if wish.exact:
        return _by_names(tx, wish, kind, wish.names, count)
    pattern = wish.names[0]
    names_first = (pattern, kind) in tx.by_names
    budget = FIRST_BUDGET
    while True:
        for by_names in (names_first, not names_first):
            search = _from_name_to_name if by_names else _down_the_line
            found = search(tx, wish, kind, count, budget)
            if found is not None:
                tx.remember((pattern, kind), by_names=by_names)
                return found
        budget *= 8


def _by_names(tx: Transaction, wish: Wish, kind: int, names: Sequence[str | bytes], count: int) -> list[Place]:
    return _first(count, [list(itertools.islice(_line_of(tx, wish, kind, name), count)) for name in names])


def _line_of(tx: Transaction, wish: Wish, kind: int, name: str | bytes) -> Iterator[Place]:
    for priority in priorities(tx, wish.priority, "top_priority_of_name", kind, name):
        for job_id, due in tx.stream("due_of_name", kind, name, priority, tx.now):
            yield Place(-priority, due, job_id)


def priorities(tx: Transaction, wanted: int | None, statement: str, *of: Any) -> Iterator[int]:
    """The priority that is wanted; if any is, those that waiting jobs have, highest first."""
    if wanted is not None:
        yield wanted
        return
    priority = LARGEST
    while (lower := tx.value(statement, *of, priority)) is not None:
        priority = lower
        yield priority


def _down_the_line(tx: Transaction, wish: Wish, kind: int, count: int, budget: int) -> list[Place] | None:
    """Look at so many due jobs of all names, in order. None: there are more, and not enough have matched."""
    found: list[Place] = []
    for priority in priorities(tx, wish.priority, "top_priority", kind):
        seen = 0
        for job_id, due, matches in tx.stream("due", kind, priority, tx.now, wish.names[0], budget):
            seen += 1
            if matches:
                found.append(Place(-priority, due, job_id))
                if len(found) == count:
                    return found
        if seen == budget:
            return None
        budget -= seen
    return found


def _from_name_to_name(tx: Transaction, wish: Wish, kind: int, count: int, budget: int) -> list[Place] | None:
    """Look at the heads of so many lines. None: more names than that begin like the pattern."""
    pattern = wish.names[0]
    beyond = first_beyond(wish.prefix)
    names: list[bytes] = []  # as they are stored
    found = tx.first("next_name", kind, wish.prefix, beyond, pattern)
    for _ in range(budget):
        if found is None:
            return _by_names(tx, wish, kind, names, count)
        name, matches = found
        if matches:
            names.append(name)
        found = tx.first("name_after", kind, name, beyond, pattern)
    return None
