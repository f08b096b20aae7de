"""Every operation of `headrace.ops` has two forms, made of one course."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import pkgutil
from types import ModuleType
from typing import Any

import pytest

from headrace import Headrace, ops
from headrace.errors import DependencyCycle, UnclearId
from headrace.ops import act, look
from headrace.ops.selection import Selection
from headrace.records import Filter
from headrace.store.courses import Course, arun_course, run_course
from headrace.store.facets import Relations, facet

MODULES = [importlib.import_module(f"headrace.ops.{found.name}") for found in pkgutil.iter_modules(ops.__path__)]


def functions(module: ModuleType) -> dict[str, Any]:
    return {name: value for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_what_takes_an_app_has_a_form_for_threads_and_one_for_event_loops(module: ModuleType) -> None:
    own = functions(module)
    for name, value in own.items():
        if not inspect.isfunction(value) or name[0] == "_" or "app" not in inspect.signature(value).parameters:
            continue
        base = name.removesuffix("_course")
        if inspect.iscoroutinefunction(value):
            assert name[1:] in own, f"{module.__name__}.{name} has no form for threads"
        elif f"a{base}" in own:
            assert inspect.iscoroutinefunction(own[f"a{base}"])
            assert own[f"a{base}"].__doc__ in (own[base].__doc__, "The same, from async code.")
            assert inspect.signature(own[base]) == inspect.signature(own[f"a{base}"])
        else:
            assert inspect.signature(value).return_annotation == "Verb", f"{module.__name__}.{name} has no async form"


@pytest.fixture
def app() -> Any:
    app = Headrace("sqlite:///:memory:")

    @app.task(name="add", queue="sums")
    def add(a: int) -> int:
        return a + 1

    yield app
    app.close()


def test_both_forms_do_the_same(app: Headrace) -> None:
    jobs = app.enqueue_many([app.tasks["add"].call(number) for number in range(3)])
    everything = Selection(wanted=Filter(limit=2))

    async def from_an_event_loop() -> None:
        assert await look.ajobs(app, everything) == look.jobs(app, everything)
        assert [queue.ready for queue in await look.aqueues(app)] == [queue.ready for queue in look.queues(app)] == [3]
        assert (await act.ato_jobs(app, act.CANCEL, [jobs[0].id]))[0] == act.Acted(jobs[0].id, True, "cancelled")
        assert await act.ato_all(app, act.DELETE, act.DELETE.meant(everything)) == (3, 0)

    asyncio.run(from_an_event_loop())
    assert [(queue.queue, queue.ready + queue.cancelled) for queue in look.queues(app)] == [("sums", 0)]


@pytest.mark.parametrize("form", ["sync", "async"])
def test_an_error_is_raised_where_the_course_asked(app: Headrace, form: str) -> None:
    first = app.tasks["add"].enqueue(1)
    later = app.tasks["add"].using(after=[first]).enqueue(2)

    def course() -> Course[str]:
        try:
            yield facet(app.store, Relations).depend(first.id, add=[later.id])
        except DependencyCycle:
            return "refused"
        return "done"

    found = run_course(app.store, course()) if form == "sync" else asyncio.run(arun_course(app.store, course()))
    assert found == "refused"


def test_a_part_of_several_ids_is_refused_from_async_code(app: Headrace) -> None:
    app.enqueue_many([app.tasks["add"].call(number) for number in range(3)])
    with pytest.raises(UnclearId, match="is part of several ids"):
        asyncio.run(look.ajob(app, "0"))
