"""How the store calls its script: one call is one step, in a thread or on an event loop.

What is None among the arguments is nil there, and so a field of that value is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from headrace.dialects.on_redis import RedisDialect, test_clock
from headrace.errors import StillNeeded, StoreError
from headrace.store.contract import Operation
from headrace.store.redis.operation import Reply, Script
from headrace.values.clock import Clock

from . import texts
from .driver import QlessDriver, open_driver, refusal
from .scripts import store_script

T = TypeVar("T")


class ScriptStore(RedisDialect):
    """What all parts of the store share: a connection, a clock, and how priorities are counted."""

    driver: QlessDriver

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        self.url = url
        self.driver, self._lower_first = open_driver(url, source=store_script())
        self._clock = test_clock(clock)

    def run(self, operation: Operation[T]) -> T:
        try:
            return super().run(operation)
        except StoreError as error:
            _explain(error)
            raise

    async def arun(self, operation: Operation[T]) -> T:
        try:
            return await super().arun(operation)
        except StoreError as error:
            _explain(error)
            raise

    def _script(
        self,
        operation: str,
        arguments: Sequence[object],
        read: Callable[[float, Any], T],
        *,
        repeatable: bool = True,
        exact: bool = False,
    ) -> Script[T]:
        """A call of one of the classes in lua/store: `Clients.get`. `read` gets the time and the answer, in which odd
        bytes are written out, unless it is to be `exact`.
        """

        def answer(reply: Reply, _: bool) -> T:
            return read(float(reply[0]), texts.understood(reply[1], exact=exact))

        now = b"" if self._clock is None else repr(self._clock.now() / 1000).encode()
        words = (*operation.encode().split(b"."), now, msgspec.msgpack.encode(arguments))
        return Script(operation, words, answer, repeatable=repeatable)

    def _yes_or_no(self, operation: str, *arguments: object, repeatable: bool = False) -> Script[list[bool]]:
        """An operation on several jobs that answers with one number for each."""

        def read(_: float, answers: Any) -> list[bool]:
            if isinstance(answers, dict) and answers:
                raise StillNeeded(answers["needed"], answers["by"])
            return list(map(bool, answers))

        return self._script(operation, arguments, read, repeatable=repeatable)


def _explain(error: StoreError) -> None:
    """What the library refused is told in its own words, without the server's."""
    if type(error) is StoreError and (text := refusal(error)) is not None:
        raise StoreError(text) from error
