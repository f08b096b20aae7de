"""Courses: several operations that follow each other, written once for threads and event loops."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar, cast

from headrace.store.contract import Operation, Store

T = TypeVar("T")

Course = Generator[Operation[Any], Any, T]


def ask(operation: Operation[T]) -> Course[T]:
    """One operation as a course: `yield from ask(...)` has the type of its answer."""
    answer: T = yield operation
    return answer


def run_course(store: Store, course: Course[T]) -> T:
    """Run the operations that a generator describes, in this thread. An error is raised where the course asked."""
    try:
        step = next(course)
        while True:
            try:
                answer = store.run(step)
            except BaseException as error:  # (Ctrl-C too: a course may have something to finish)
                step = course.throw(error)
            else:
                step = course.send(answer)
    except StopIteration as end:
        return cast("T", end.value)


async def arun_course(store: Store, course: Course[T]) -> T:
    """The same on an event loop."""
    try:
        step = next(course)
        while True:
            try:
                answer = await store.arun(step)
            except BaseException as error:  # (Ctrl-C too: a course may have something to finish)
                step = course.throw(error)
            else:
                step = course.send(answer)
    except StopIteration as end:
        return cast("T", end.value)
