"""Options are declared once, in `headrace.options`: what is written out elsewhere says the same."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any

import click
import msgspec
import pytest

from headrace import Headrace
from headrace.cli import cli
from headrace.editing import edit_of
from headrace.errors import ConfigurationError
from headrace.events import EventQuery, filter_of
from headrace.job import Job
from headrace.options import (
    OF_CALL,
    OF_TASK,
    CallOptions,
    DecoratorOptions,
    JobOptions,
    Overrides,
    ScheduledJobEdits,
    TaskOptions,
    declared,
    editable,
)
from headrace.records import Definition, Lease, Spec
from headrace.schedules import ScheduleEdits
from headrace.shared import SharedTask, shared_task
from headrace.store.facets import Edit
from headrace.store.selecting import JobQuery, query_of
from headrace.task import Task
from headrace.worker.context import Context

NAMES = {"Callable": Callable, "Iterable": Iterable, "Context": Context, "Job": Job, "Any": Any}


def types_of(annotated: Any) -> dict[str, Any]:
    """What type checkers know about options or parameters, by name."""
    return typing.get_type_hints(annotated, localns=NAMES)


def without_none(hint: Any) -> Any:
    """A parameter whose default is None may be None."""
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint
    return typing.Union[tuple(kind for kind in typing.get_args(hint) if kind is not type(None))]  # noqa: UP007


def overload_with_options() -> Any:
    (found,) = (way for way in typing.get_overloads(Headrace.task) if "queue" in inspect.signature(way).parameters)
    return found


def test_the_decorator_is_written_out_as_declared() -> None:
    decorator = overload_with_options()
    parameters = inspect.signature(decorator).parameters
    written, meant = types_of(decorator), types_of(DecoratorOptions)
    assert set(parameters) - {"self", "name"} == set(OF_TASK)
    for name, option in OF_TASK.items():
        assert without_none(written[name]) == without_none(meant[name]), name
        default = parameters[name].default
        if default is not ...:  # (of which the declaration alone says what it is)
            assert default == option.default, name


def test_shared_tasks_take_what_is_declared() -> None:
    ways = typing.get_overloads(shared_task)
    (way,) = (way for way in ways if "options" in way.__annotations__)
    assert way.__annotations__["options"] == f"Unpack[{DecoratorOptions.__name__}]"
    for name in ("using", "call", "enqueue", "aenqueue", "every", "cron", "repeat"):
        assert inspect.signature(getattr(SharedTask, name)) == inspect.signature(getattr(Task, name)), name


def test_calls_take_what_is_declared() -> None:
    assert Task.using.__annotations__["options"] == f"Unpack[{CallOptions.__name__}]"
    assert set(inspect.signature(Task.using).parameters) == {"self", "options", "connection"}
    assert "connection" not in OF_CALL  # what is no option of jobs is not on the command line
    assert vars(sys.modules[Task.__module__])["CallOptions"] is CallOptions


@pytest.mark.parametrize("method", [Job.edit, Job.aedit, edit_of])
def test_editing_a_job_is_written_out_as_declared(method: Any) -> None:
    written = types_of(method)
    assert set(written) - {"job", "data", "args", "kwargs", "return"} == set(editable("job"))
    for name in editable("job"):
        assert without_none(written[name]) == types_of(CallOptions)[name], name


def test_editing_a_schedule_is_written_out_as_declared() -> None:
    written = types_of(ScheduledJobEdits)
    assert set(written) == set(editable("schedule"))
    assert set(written) < set(ScheduleEdits.__annotations__)
    for name in editable("schedule"):
        assert written[name] == types_of(JobOptions)[name], name


@pytest.mark.parametrize(
    ("method", "source", "query"),
    [
        *((method, query_of, JobQuery) for method in (Headrace.jobs, Headrace.ajobs)),
        *((method, filter_of, EventQuery) for method in (Headrace.events, Headrace.aevents)),
    ],
)
def test_what_jobs_and_events_are_asked_by_is_written_out(method: Any, source: Any, query: Any) -> None:
    """In `help()`, as type checkers see it."""
    shown, meant = (inspect.signature(each).parameters for each in (method, source))
    keywords = {name: each for name, each in meant.items() if each.kind is each.KEYWORD_ONLY}
    assert {name: shown[name] for name in shown if name not in {"self", "timeout"}} == keywords
    assert {name: types_of(source)[name] for name in keywords} == types_of(query)


@pytest.mark.parametrize(("method", "first"), [("jobs", "state"), ("ajobs", "state"), ("events", "timeout, job")])
def test_what_they_are_not_asked_by_is_refused(app: Headrace, method: str, first: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"^app\.{method}\(\) does not know 'foo'\. It takes {first}, queue"):
        getattr(app, method)(foo=1)


def test_a_task_has_a_value_for_each_of_its_options() -> None:
    of_lanes = {"lane", "limit", "rate", "weight", "sequence"}
    assert set(TaskOptions.__struct_fields__) == set(OF_TASK) - of_lanes | {"own_queue", "own_retries", "lane"}


def test_records_have_the_defaults_that_are_declared() -> None:
    defaults = {field.name: field.default for field in msgspec.structs.fields(Spec)}
    for name in set(OF_CALL) & set(defaults):
        assert defaults[name] == OF_CALL[name].default, name


def test_a_lease_has_what_a_run_needs_of_a_job() -> None:
    """It can't inherit `Spec`: see there."""
    spec, lease = types_of(Spec), types_of(Lease)
    assert set(spec) - set(lease) == {"lane", "tags", "expires"}
    assert all(lease[name] == spec[name] for name in set(spec) & set(lease))


def test_what_can_be_edited_has_a_place_in_the_record() -> None:
    carried = set(Overrides.__struct_fields__)
    assert carried <= set(OF_CALL)
    assert set(editable("job")) - carried - {"run_after"} <= set(Edit.__struct_fields__)
    assert set(editable("schedule")) - carried <= set(Definition.__struct_fields__)


COMMANDS: list[tuple[list[str], dict[str, Any]]] = [
    (["enqueue"], OF_CALL),
    (["edit"], editable("job")),
    (["schedules", "edit"], editable("schedule")),
]


@pytest.mark.parametrize(("path", "options"), COMMANDS)
def test_every_option_is_a_flag(path: list[str], options: dict[str, Any]) -> None:
    command: Any = cli
    for name in path:
        command = command.get_command(click.Context(command), name)
    flags = {flag.name.removeprefix("option_"): flag for flag in command.params if flag.name.startswith("option_")}
    assert list(flags) == list(options)
    for name, option in options.items():
        assert flags[name].help == option.help != ""


def test_what_is_no_option_of_jobs_is_not_on_the_command_line() -> None:
    for name in set(declared(DecoratorOptions)) - set(declared(JobOptions)):
        assert OF_TASK[name].help == ""
