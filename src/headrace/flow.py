"""Jobs that belong together: one after another, or many and then one. A thin layer on `using(after=...)`.

>>> from headrace import Headrace, current, flow
>>> app = Headrace("sqlite:///:memory:")
>>> @app.task
... def double(number: int) -> int:
...     return number * 2
>>> @app.task
... def add_up() -> int:
...     return sum(current().results())
>>> total = flow.group(*(double.call(number) for number in range(4)), then=add_up.call())[-1]
>>> app.worker().run_until_empty()
>>> total.result()
12
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from headrace import enqueueing
from headrace.errors import ArgumentsError, ConfigurationError
from headrace.job import Job
from headrace.options import Policy, check_policy
from headrace.shared import SharedTask
from headrace.store.contract import Facet
from headrace.task import Call, Task

if TYPE_CHECKING:
    from headrace.app import Headrace

__all__ = ["achain", "agroup", "chain", "group"]


def chain(*calls: Call[Any], if_failed: Policy = "fail") -> list[Job[Any]]:
    """Put jobs that run one after another, each when the one before is done: all of them or none.

    Each finds what the one before returned in `current().results()`. `if_failed` says what becomes of those behind
    one that fails: they fail too, and come back when it is revived (the default); wait for its revival; or run anyway.

    >>> from headrace import Headrace, current, flow
    >>> app = Headrace("sqlite:///:memory:")
    >>> @app.task
    ... def start() -> int:
    ...     return 20
    >>> @app.task
    ... def more() -> int:
    ...     return current().results()[0] + 1
    >>> jobs = flow.chain(start.call(), more.call(), more.call())
    >>> app.worker().run_until_empty()
    >>> [job.result() for job in jobs]
    [20, 21, 22]
    """
    return _put(_chained(calls, if_failed))


async def achain(*calls: Call[Any], if_failed: Policy = "fail") -> list[Job[Any]]:
    """The same, from async code."""
    return await _aput(_chained(calls, if_failed))


def _chained(calls: tuple[Call[Any], ...], if_failed: Policy) -> list[Call[Any]]:
    linked: list[Call[Any]] = []
    for call in _checked("chain", calls):
        linked.append(_after(call, linked[-1:], if_failed))
    return linked


def group(*calls: Call[Any], then: Call[Any] | None = None, if_failed: Policy = "fail") -> list[Job[Any]]:
    """Put jobs that run side by side, and then one that runs when all of them are done: all of them or none.

    The one in `then` comes last in the answer; it finds what the others returned in `current().results()`.
    With `if_failed="run"` it runs even if some of them failed, and `current().results(failed="skip")` leaves those out.
    """
    return _put(_grouped(calls, then, if_failed))


async def agroup(*calls: Call[Any], then: Call[Any] | None = None, if_failed: Policy = "fail") -> list[Job[Any]]:
    """The same, from async code."""
    return await _aput(_grouped(calls, then, if_failed))


def _grouped(calls: tuple[Call[Any], ...], then: Call[Any] | None, if_failed: Policy) -> list[Call[Any]]:
    _checked("group", calls)
    if then is None:
        return list(calls)
    if type(then) is not Call:
        raise ArgumentsError(f"group(then=...) takes a task.call(...) value, not {_described(then)}.")
    if not calls:
        raise ArgumentsError("A group needs at least one call for another to come after.")
    return [*calls, _after(then, calls, if_failed)]


def _checked(taker: str, calls: tuple[Call[Any], ...]) -> tuple[Call[Any], ...]:
    for call in calls:
        if type(call) is not Call:
            unpacked = f" Unpack it: {taker}(*calls)." if isinstance(call, Iterable) else ""
            raise ArgumentsError(f"{taker}() takes task.call(...) values, not {_described(call)}.{unpacked}")
    return calls


def _described(other: object) -> str:
    hint = f": write {other.__name__}.call(...)" if isinstance(other, Task | SharedTask) else ""
    return f"{type(other).__name__}{hint}"


def _after(call: Call[Any], first: list[Call[Any]] | tuple[Call[Any], ...], if_failed: Policy) -> Call[Any]:
    if not first:
        return call
    policy = check_policy(if_failed)
    for other in first:
        if other.new.unique_key is not None:
            raise ArgumentsError(
                f"{other.task.name} is called as unique, and another job may stand for it: "
                "nothing can be put after it in the same step. Enqueue it first, then use after=[job]."
            )
    new = call.new
    if new.lane is not None and new.lane.sequence:
        raise ConfigurationError("A job in a sequence can't wait for others: they might be behind it.")
    after = tuple(dict.fromkeys((*new.after, *(other.new.id for other in first))))
    return replace(call, new=replace(new, after=after, if_failed=policy))


def _put(calls: list[Call[Any]]) -> list[Job[Any]]:
    return enqueueing.enqueue_many(_app_of(calls), calls, whole=True)


async def _aput(calls: list[Call[Any]]) -> list[Job[Any]]:
    return await enqueueing.aenqueue_many(_app_of(calls), calls, whole=True)


def _app_of(calls: list[Call[Any]]) -> Headrace:
    if not calls:
        raise ArgumentsError("There is no call to enqueue.")
    app = calls[0].task.app
    if any(call.new.after for call in calls):
        app.require(Facet.RELATIONS, "A flow")
    return app
