"""Two forms of every operation of `headrace.ops`: for threads, and for event loops."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from headrace.store.courses import Course, arun_course, run_course

if TYPE_CHECKING:
    from headrace.app import Headrace

P = ParamSpec("P")
T = TypeVar("T")


def forms(
    course: Callable[Concatenate[Headrace, P], Course[T]],
) -> tuple[Callable[Concatenate[Headrace, P], T], Callable[Concatenate[Headrace, P], Coroutine[Any, Any, T]]]:
    """A function that runs a course in this thread, and one to await. The course gets the same arguments."""
    name = course.__name__.removesuffix("_course")

    @wraps(course)
    def run(app: Headrace, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run_course(app.store, course(app, *args, **kwargs))

    @wraps(course)
    async def arun(app: Headrace, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await arun_course(app.store, course(app, *args, **kwargs))

    run.__name__ = run.__qualname__ = name
    arun.__name__ = arun.__qualname__ = f"a{name}"
    return run, arun


def threaded(function: Callable[P, T]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The async form of what does more than ask the store: a thread runs it."""

    @wraps(function)
    async def arun(*args: P.args, **kwargs: P.kwargs) -> T:
        from asyncio import to_thread  # noqa: PLC0415  (few programs that import this have an event loop)

        return await to_thread(function, *args, **kwargs)

    arun.__name__ = arun.__qualname__ = f"a{function.__name__}"
    return arun
