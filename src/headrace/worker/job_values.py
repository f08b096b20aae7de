"""Values that an app provides per job: made when a run begins, left when it ends, whichever way it does.

A run's exception is thrown into the generators that are open, so that they can roll back. It stays what the run ended
with, even if a generator keeps it to itself; an exception of a generator's own takes its place.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.app import Headrace

RunCoroutine = Callable[[Coroutine[Any, Any, Any]], Any]


@contextmanager
def job_values(app: Headrace, wanted: Mapping[str, str], run_coroutine: RunCoroutine) -> Iterator[dict[str, Any]]:
    """The values for parameters (`wanted`: their names by parameter), in a thread. Async ones are made on its loop."""
    with ExitStack() as stack:
        made: dict[str, Any] = {}
        for name in dict.fromkeys(wanted.values()):
            value = app.job_providers[name]()
            if isinstance(value, Generator):
                value = stack.enter_context(_Open(value))
            elif isinstance(value, AsyncGenerator):
                opened = _OpenAsync(value)
                value = run_coroutine(opened.__aenter__())
                stack.push(lambda *how, opened=opened: run_coroutine(opened.__aexit__(*how)))
            elif inspect.iscoroutine(value):
                value = run_coroutine(value)
            made[name] = value
        yield {parameter: made[name] for parameter, name in wanted.items()}


@asynccontextmanager
async def ajob_values(app: Headrace, wanted: Mapping[str, str]) -> AsyncIterator[dict[str, Any]]:
    """The same on the event loop of an async task, in the task's own coroutine."""
    async with AsyncExitStack() as stack:
        made: dict[str, Any] = {}
        for name in dict.fromkeys(wanted.values()):
            value = app.job_providers[name]()
            if isinstance(value, Generator):
                value = stack.enter_context(_Open(value))
            elif isinstance(value, AsyncGenerator):
                value = await stack.enter_async_context(_OpenAsync(value))
            elif inspect.iscoroutine(value):
                value = await value
            made[name] = value
        yield {parameter: made[name] for parameter, name in wanted.items()}


class _Open:
    """A generator from its value to its end. It keeps no exception from the run."""

    def __init__(self, generator: Generator[Any, Any, Any]) -> None:
        self._inner = contextmanager(lambda: generator)()

    def __enter__(self) -> Any:
        return self._inner.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inner.__exit__(kind, error, trace)


class _OpenAsync:
    """The same of an async generator."""

    def __init__(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._inner = asynccontextmanager(lambda: generator)()

    async def __aenter__(self) -> Any:
        return await self._inner.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._inner.__aexit__(kind, error, trace)
