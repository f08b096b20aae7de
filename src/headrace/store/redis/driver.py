"""Runs described operations: in a thread, or on an event loop. Reconnects, repeats, and says clearly what went wrong.

Our operations can be repeated (puts are recognised by ids, exchanges and reports by numbers), so a request whose
answer got lost is sent again. A connection with an answer outstanding is never used again.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from redis import exceptions as wire

from headrace.errors import MaybeApplied, StoreCorrupt
from headrace.store.redis import requests, scripts, troubles
from headrace.store.redis.addresses import Address, Place
from headrace.store.redis.connections import LoopShelf, Opener, Shelf, pack, strings
from headrace.store.redis.keys import Keys
from headrace.store.redis.lists import Lists
from headrace.store.redis.operation import Reply, Script, Steps
from headrace.store.redis.troubles import (
    BROKEN,
    DamagedJob,
    Replica,
    Trouble,
    UnknownList,
    answer_of,
    diagnose,
    redirection,
)
from headrace.values.clock import Clock
from headrace.values.durations import doubled

T = TypeVar("T")


def is_write(operation: object) -> bool:
    """Whether this changes something: nobody knows yet if this user may do that."""
    if isinstance(operation, Steps):
        return operation.writes
    return isinstance(operation, Script) and not _only_asks(operation)


def _only_asks(script: Script[Any]) -> bool:
    return script.name in scripts.READS or script.name in scripts.ASKS


class Journey:
    """One request on its way: how often it was tried, and whether it may have been done already."""

    PATIENCE = 3.0
    """Seconds for which trouble that may pass is waited out."""

    def __init__(self, where: str, *, repeatable: bool, reads: bool) -> None:
        self.where = where
        self.sent = False
        """All of it is on its way: from now on a broken connection leaves us unsure."""
        self.unsure = False
        self.asking: Address | None = None
        """A node that is to be asked this once."""
        self.known = False
        """Whether the server was ever reached: what does not answer then may come back."""
        self.redirects = 0
        self._repeatable = repeatable or reads
        self._reads = reads
        self._began = time.monotonic()
        self._attempt = 0

    def set_out(self) -> Address | None:
        """The next attempt begins; at the node named, if one is to be asked this once."""
        self.sent = False
        asking, self.asking = self.asking, None
        return asking

    def stumble(self, error: Exception) -> tuple[float, bool]:
        """How long to pause before the next attempt, and whether to hang up. Raises if there is to be none."""
        self._attempt += 1
        if self.redirects < 5 and redirection(error):
            self.redirects += 1
            return 0.0, True
        self.redirects = 0
        trouble = diagnose(error, self.where)
        if self.sent and isinstance(error, BROKEN) and not isinstance(error, wire.BusyLoadingError):
            self.unsure = True
        patient = self.known and (time.monotonic() - self._began < self.PATIENCE or self._attempt == 1)
        unsure = self.unsure and not self._reads
        if trouble.passes and patient and (self._repeatable or not unsure):
            return doubled(0.01, self._attempt, most=0.5) * random.uniform(0.5, 1.0), trouble.hangs_up  # noqa: S311
        if unsure and trouble.passes:
            raise MaybeApplied(
                f"{self.where}: the connection broke before the answer came. It may or may not have been done."
            ) from error
        raise trouble.error from error


class Driver:
    """One namespace on one server (or on whichever is the right one)."""

    def __init__(self, place: Place, keys: Keys, clock: Clock | None = None) -> None:
        self.keys = keys
        self.where = place.name
        """For people."""
        self.opener = Opener(place, next(iter(keys.known), None))
        self.lists = Lists()
        self._clock = clock
        self._shelf = Shelf(self.opener)
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopShelf] = WeakKeyDictionary()
        number = b"%d" % len(keys.known)
        self._keys = strings((number, *(key.encode() for key in keys.known)))

    # -- what is sent --

    def _command(self, script: Script[Any], *, whole: bool = False) -> bytes:
        """EVALSHA, or EVAL with the whole text where the server does not have it."""
        verb, text = (b"EVAL", scripts.source(script.name)) if whole else (b"EVALSHA", scripts.digest(script.name))
        clock = b"" if self._clock is None else requests.clock(self._clock.now(), self._clock.steady())
        arguments = (clock, *script.arguments)
        count = 3 + len(self.keys.known) + len(arguments)
        return b"*%d\r\n%s%s%s" % (count, strings((verb, text)), self._keys, strings(arguments))

    def packed(self, script: Script[Any]) -> bytes:
        """A script's call as it is sent, for one who sends it along with something else."""
        return self._command(script)

    def _only_reads(self, script: Script[Any]) -> bool:
        """Whether nobody needs to be told that it may or may not have been done."""
        return _only_asks(script)

    def _journey(self, script: Script[Any]) -> Journey:
        return Journey(self.where, repeatable=script.repeatable, reads=self._only_reads(script))

    # -- in a thread --

    def run(self, operation: Script[T] | Steps[T]) -> T:
        """Do it now, in this thread."""
        if isinstance(operation, Script):
            return self._run(operation)
        work = operation.begin()
        answer: Any = None
        while True:
            try:
                step = work.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            answer = self._run(step)

    def _run(self, script: Script[T]) -> T:
        met: set[bytes | str] = set()
        while True:
            try:
                return self._travel(script)
            except (DamagedJob, UnknownList) as trouble:
                self._travel(self._remedy(trouble, met))

    def _travel(self, script: Script[T]) -> T:
        journey = self._journey(script)
        while True:
            try:
                reply = self._once(script, journey)
            except Exception as error:
                self._learn(error, journey)
                if answer_of(error).startswith("WRONGTYPE"):
                    raise self._wrong_type() from error
                pause, hang_up = journey.stumble(error)
                if hang_up:
                    self._shelf.clear()
                time.sleep(pause)
            else:
                return script.read(reply, journey.unsure)

    def _once(self, script: Script[Any], journey: Journey) -> Reply:
        asking = journey.set_out()
        connection = self._shelf.take() if asking is None else self.opener.open(asking)
        good = False
        try:
            try:
                # A node that we are sent to for once may not have the script, and listens to us but once.
                reply = self._ask(connection, self._command(script, whole=asking is not None), journey, script.answers)
            except wire.NoScriptError:
                reply = self._ask(connection, self._command(script, whole=True), journey, script.answers)
            good = True
        except wire.ResponseError:
            good = True
            raise
        finally:
            if good and asking is None:
                self._shelf.give_back(connection)
            else:
                connection.disconnect()
        return reply

    @staticmethod
    def _ask(connection: Any, command: bytes, journey: Journey, answers: int) -> Reply:
        connection.send_packed_command([command], check_health=False)
        journey.sent = True
        if answers == 1:
            return connection.read_response()
        replies: list[Reply] = []
        for _ in range(answers):  # all of them, whatever they say: the connection is used again
            try:
                replies.append(connection.read_response())
            except wire.ResponseError as error:
                replies.append(error)
        return _unless_refused(replies)

    def command(self, *arguments: str | bytes) -> Reply:
        """A single plain command, as `doctor` needs some. Raises what redis-py raises."""
        connection = self._shelf.take()
        good = False
        try:
            encoded = (argument.encode() if isinstance(argument, str) else argument for argument in arguments)
            connection.send_packed_command([pack(*encoded)], check_health=False)
            reply = connection.read_response()
            good = True
        except wire.ResponseError:
            good = True
            raise
        finally:
            if good:
                self._shelf.give_back(connection)
            else:
                connection.disconnect()
        return reply

    # -- on an event loop --

    async def arun(self, operation: Script[T] | Steps[T]) -> T:
        """Do it without blocking the event loop."""
        if isinstance(operation, Script):
            return await self._arun(operation)
        work = operation.begin()
        answer: Any = None
        while True:
            try:
                step = work.send(answer)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            answer = await self._arun(step)

    async def _arun(self, script: Script[T]) -> T:
        met: set[bytes | str] = set()
        while True:
            try:
                return await self._atravel(script)
            except (DamagedJob, UnknownList) as trouble:
                await self._atravel(self._remedy(trouble, met))

    async def _atravel(self, script: Script[T]) -> T:
        journey = self._journey(script)
        shelf = await self._loop_shelf()
        while True:
            try:
                reply = await self._aonce(shelf, script, journey)
            except Exception as error:
                self._learn(error, journey)
                if answer_of(error).startswith("WRONGTYPE"):
                    raise await asyncio.to_thread(self._wrong_type) from error
                pause, hang_up = journey.stumble(error)
                if hang_up:
                    await shelf.clear()
                await asyncio.sleep(pause)
            else:
                return script.read(reply, journey.unsure)

    async def _aonce(self, shelf: LoopShelf, script: Script[Any], journey: Journey) -> Reply:
        asking = journey.set_out()
        connection = await (shelf.take() if asking is None else self.opener.aopen(asking))
        good = False
        try:
            try:
                command = self._command(script, whole=asking is not None)
                reply = await self._aask(connection, command, journey, script.answers)
            except wire.NoScriptError:
                reply = await self._aask(connection, self._command(script, whole=True), journey, script.answers)
            good = True
        except wire.ResponseError:
            good = True
            raise
        finally:  # a cancelled request ends here, too: its connection has an answer outstanding
            if good and asking is None:
                await shelf.give_back(connection)
            else:
                await connection.disconnect(nowait=True)
        return reply

    @staticmethod
    async def _aask(connection: Any, command: bytes, journey: Journey, answers: int) -> Reply:
        await connection.send_packed_command([command], check_health=False)
        journey.sent = True
        if answers == 1:
            return await connection.read_response()
        replies: list[Reply] = []
        for _ in range(answers):
            try:
                replies.append(await connection.read_response())
            except wire.ResponseError as error:
                replies.append(error)
        return _unless_refused(replies)

    async def _loop_shelf(self) -> LoopShelf:
        loop = asyncio.get_running_loop()
        shelf = self._loops.get(loop)
        if shelf is None:
            shelf = self._loops[loop] = LoopShelf(self.opener)
            await shelf.settle_in()
        return shelf

    # -- trouble --

    def _learn(self, error: Exception, journey: Journey) -> None:
        """The server may have been reached, and where our keys live may have changed."""
        journey.known = self.opener.known
        if redirected := redirection(error):
            kind, address = redirected
            if kind == "ASK":
                journey.asking = address
            else:
                self.opener.finder.owner = address
        elif isinstance(error, (*BROKEN, Replica)):
            self.opener.finder.owner = None

    def _remedy(self, trouble: DamagedJob | UnknownList, met: set[bytes | str]) -> Script[None]:
        """What to do before a request is made again. A trouble that it has `met` before is raised: nothing helped."""
        what = trouble.id if isinstance(trouble, DamagedJob) else trouble.token
        if what in met:
            raise trouble
        met.add(what)
        if isinstance(trouble, DamagedJob):
            return troubles.set_aside(trouble, self.keys.prefix)
        return self.lists.keep(trouble)

    def diagnose(self, error: BaseException) -> Trouble:
        """What to tell a user about an exception of redis-py's."""
        return diagnose(error, self.where)

    def _wrong_type(self) -> StoreCorrupt:
        """A script met a key of another type, before it wrote anything: find out which."""
        found = None
        with suppress(wire.RedisError):
            found = next(filter(None, map(self._misfit, self._suspects())), None)
        where = found or f"One of the keys {self.keys.prefix}* has a type that is not ours"
        return StoreCorrupt(f"{where}. {troubles.ELSEWHERE}")

    def _suspects(self) -> Iterator[str]:
        yield from self.keys.known
        cursor = b"0"
        for _ in range(1_000):
            cursor, found = self.command("SCAN", cursor, "MATCH", f"{self.keys.prefix}*", "COUNT", "1000")
            yield from (key.decode() for key in found)
            if cursor == b"0":
                return

    def _misfit(self, key: str) -> str | None:
        found, expected = self.command("TYPE", key).decode(), self.keys.expected_type(key)
        return f"{key} is a {found}, not a {expected}" if expected and found not in ("none", expected) else None

    def close(self) -> None:
        """Let go of everything. What belongs to an event loop is closed by it."""
        self._shelf.clear()
        for loop, shelf in list(self._loops.items()):
            shelf.close(loop)
        self._loops.clear()


def _unless_refused(replies: list[Reply]) -> list[Reply]:
    """Raises the first error among them."""
    for reply in replies:
        if isinstance(reply, wire.ResponseError):
            raise reply
    return replies
