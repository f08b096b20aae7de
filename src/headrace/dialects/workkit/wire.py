"""What is said to the server: each script's arguments, and what its answers mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from headrace.dialects.on_redis import DialectDriver
from headrace.store.redis.operation import Reply, Script
from headrace.store.redis.scripts import Scripts

from .payload import as_bytes, member_of
from .times import Timekeeper, in_reach

T = TypeVar("T")

WAKE_WITHIN = 2_000
"""Listeners are woken for jobs due within this many milliseconds; before later ones they look by themselves."""
SURE_AFTER = 10_000
"""A job due later than this can't have run while an insertion was sent again: its repeat is recognised."""


class ScheduleDriver(DialectDriver):
    """Connections to a schedule's server. Every script gets a clock (a test's, or none) and the two keys."""

    SCRIPTS = Scripts("headrace.dialects.workkit")
    # A renewal is no read, but its repeat is recognised: it may be sent again.
    READS = frozenset({"counts", "get", "look", "oldest", "orphans", "page", "recurring", "renew", "strangers"})

    def _suspects(self) -> Iterator[str]:
        yield from self.keys.known


class Answer(IntEnum):
    """What became of one entry, as prelude.lua has it."""

    OK = 0
    STALE = 2
    LATER = 3
    """A published listener has it out for an instant."""
    AS_WISHED = 4
    """It has the wanted score already: our own doing if the request was sent twice, somebody else's if not."""
    GONE = 5
    """The job was removed: the same applies."""


class NewEntry(NamedTuple):
    """A job to be inserted."""

    id: str
    text: bytes
    due: int

    @property
    def arguments(self) -> tuple[bytes, ...]:
        return as_bytes(self.id), self.text, member_of(self.id), b"%d" % self.due


class Settlement(NamedTuple):
    """What is to become of a claimed entry: another score, or (None) the end of the job."""

    member: bytes
    id: str
    token: int
    target: int | None
    insist: bool
    """Add the entry if it is absent."""


class Claim(NamedTuple):
    """An entry that is ours now, and what it was before."""

    member: bytes
    id: str
    due: int
    payload: bytes


class Exchanged(NamedTuple):
    """The answer of `exchange`."""

    now: int
    next_due: int | None
    answers: list[Answer]
    claims: list[Claim]
    token: int
    passed: list[tuple[str, str]]
    resume: int | None


class Wire:
    """Describes calls of scripts. Every answer tells the server's time, which the timekeeper is told in turn."""

    def __init__(self, timekeeper: Timekeeper) -> None:
        self._timekeeper = timekeeper

    def _script(
        self, name: str, arguments: tuple[bytes, ...], read: Callable[[Reply, bool], T], *, repeatable: bool = True
    ) -> Script[T]:
        def read_all(reply: Reply, repeated: bool) -> T:
            self._timekeeper.told(int(reply[0]))
            return read(reply, repeated)

        return Script(name, arguments, read_all, repeatable=repeatable)

    def time(self) -> Script[int]:
        return self._script("renew", (), lambda reply, _: int(reply[0]))

    def insert(self, entries: Sequence[NewEntry], now: int) -> Script[list[bool]]:
        """The published insertion. True per job that is new: one that was sent twice meets itself, and counts as new.

        A repeat can be told from a new job while the first can't have run.
        """
        return self._script(
            "put",
            (b"%d" % WAKE_WITHIN, *_flat(entry.arguments for entry in entries)),
            lambda reply, repeated: [bool(new) or repeated for new in reply[1]],
            repeatable=all(entry.due > now + SURE_AFTER for entry in entries),
        )

    def exchange(
        self,
        settlements: Sequence[Settlement],
        *,
        lease: int = 0,
        wanted: int = 0,
        offset: int = 0,
        likenesses: bytes = b"",
        skip: Sequence[str] = (),
        last_token: int = 0,
        again: bool = False,
    ) -> Script[Exchanged]:
        """`again`: the same settlements may have arrived before."""
        numbers = (b"%d" % lease, b"%d" % wanted, b"%d" % offset)
        arguments = [*numbers, likenesses, as_bytes("\n".join(skip)), b"%d" % last_token]
        for member, identity, token, target, insist in settlements:
            score = b"" if target is None else b"%d" % target
            arguments += (member, as_bytes(identity), b"%d" % token, score, b"1" if insist else b"")

        def read(reply: Reply, repeated: bool) -> Exchanged:
            now, due, codes, claims, token, passed, resume = reply
            return Exchanged(
                int(now),
                _number(due),
                [_forgive(code, again or repeated) for code in codes],
                [Claim(member, _text(name), _score(score), payload) for member, name, score, payload in claims],
                int(token),
                [(_text(name), _text(job)) for name, job in passed],
                None if resume < 0 else resume,
            )

        return self._script("exchange", tuple(arguments), read)

    def look(self, likenesses: bytes, skip: Sequence[str], told: Callable[[], int | None]) -> Script[tuple[bool, int]]:
        """A waiter's question: is there news? `told`: the next run time that the worker knows of."""

        def read(reply: Reply, _: bool) -> tuple[bool, int]:
            now, due, known = int(reply[0]), _number(reply[2]), told()
            # A run time that the worker has not been told of is news, too: it sleeps until the one that it knows.
            sooner = due is not None and (known is None or known <= now or due < known)
            return bool(reply[1]) or sooner, -1

        return self._script("look", (likenesses, as_bytes("\n".join(skip))), read)

    def renew(self, leases: Sequence[tuple[bytes, str, int, int]]) -> Script[tuple[int, list[Answer]]]:
        """Per lease (member, id, token, new token)."""
        arguments = _flat(
            (member, as_bytes(name), b"%d" % token, b"%d" % later) for member, name, token, later in leases
        )

        def read(reply: Reply, repeated: bool) -> tuple[int, list[Answer]]:
            codes = [Answer.OK if repeated and code == Answer.AS_WISHED else Answer(code) for code in reply[1]]
            return int(reply[0]), codes

        return self._script("renew", arguments, read)

    def get(self, ids: Sequence[str]) -> Script[list[tuple[bytes, float | None] | None]]:
        """Payload and score per job."""

        def read(reply: Reply, _: bool) -> list[tuple[bytes, float | None] | None]:
            return [(found[0], float(found[1]) if found[1] else None) if found else None for found in reply[1]]

        return self._script("get", _ids_and_members(ids), read)

    def page(self, start: int, count: int) -> Script[list[tuple[str, float, bytes]]]:
        """Id, score and payload per entry."""
        return self._script(
            "page",
            (b"%d" % start, b"%d" % count),
            lambda reply, _: [(_text(name), float(score), payload) for name, score, payload in reply[1]],
        )

    def counts(self, lease: int) -> Script[tuple[int, int, int, int]]:
        """Jobs, entries, those that are due, those that are leased."""
        return self._script("counts", (b"%d" % (lease + 1000),), lambda reply, _: tuple(reply[1:]))

    def oldest(self) -> Script[tuple[int, int | None]]:
        """Now, and when the first entry is due, if there is one."""
        return self._script("oldest", (), lambda reply, _: (int(reply[0]), int(reply[1]) if reply[1] else None))

    def remove(self, ids: Sequence[str]) -> Script[list[bool]]:
        """True per job that was there."""
        return self._script(
            "remove", _ids_and_members(ids), lambda reply, _: [bool(there) for there in reply[1]], repeatable=False
        )

    def orphans(self, cursor: bytes) -> Script[tuple[bytes, list[tuple[str, bytes]]]]:
        """The next cursor; id and payload of jobs that have no entry of the usual spelling."""
        return self._script(
            "orphans", (cursor,), lambda reply, _: (reply[1], [(_text(name), payload) for name, payload in reply[2]])
        )

    def strangers(self, cursor: bytes) -> Script[tuple[bytes, list[str]]]:
        """The next cursor; ids of jobs whose entries are spelled in another way."""
        return self._script("strangers", (cursor,), lambda reply, _: (reply[1], [_text(name) for name in reply[2]]))

    def recurring(self, cursor: bytes, one_time: str) -> Script[tuple[bytes, list[tuple[str, bytes, float | None]]]]:
        """The next cursor; id, payload and score of jobs whose crons do not all match the pattern `one_time`."""

        def read(reply: Reply, _: bool) -> tuple[bytes, list[tuple[str, bytes, float | None]]]:
            return reply[1], [(_text(name), text, float(score) if score else None) for name, text, score in reply[2]]

        return self._script("recurring", (cursor, one_time.encode()), read)

    def replace(self, new: NewEntry, old: Sequence[str]) -> Script[bool]:
        """False: one of the old jobs is gone, or the new one is there already. Nothing was changed."""
        arguments = (*new.arguments, *_ids_and_members(old))
        return self._script("replace", arguments, lambda reply, _: bool(reply[1]), repeatable=False)

    def repair(self, entries: Sequence[tuple[str, int]]) -> Script[list[bool]]:
        """Per job (id, run time): True if it was given an entry."""
        arguments = _flat((as_bytes(name), member_of(name), b"%d" % due) for name, due in entries)
        return self._script("repair", arguments, lambda reply, _: [bool(done) for done in reply[1]])


def _ids_and_members(ids: Sequence[str]) -> tuple[bytes, ...]:
    return _flat((as_bytes(identity), member_of(identity)) for identity in ids)


def _flat(arguments: Iterable[tuple[bytes, ...]]) -> tuple[bytes, ...]:
    return tuple(chain.from_iterable(arguments))


def _forgive(code: int, again: bool) -> Answer:
    """What a second request finds done was done by the first."""
    return Answer.OK if again and code in (Answer.AS_WISHED, Answer.GONE) else Answer(code)


def _text(value: bytes) -> str:
    return value.decode(errors="surrogateescape")


def _number(value: Any) -> int | None:
    return _score(value) if value else None


def _score(value: bytes) -> int:
    """Scores are whole milliseconds; those of peers that do otherwise are cut."""
    return int(in_reach(float(value)))
