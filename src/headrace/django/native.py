"""A task of Django as a task of headrace, under the path of its function."""

from __future__ import annotations

from functools import cache
from typing import Any

from msgspec.structs import replace

from headrace.app import Headrace
from headrace.django.arguments import SplitArguments
from headrace.django.library import InvalidTask
from headrace.django.running import Unfit, function_of
from headrace.django.task import CALL_ONLY, options_of
from headrace.errors import ConfigurationError
from headrace.options import task_options
from headrace.task import Task


class NativeTask(Task[Any, Any]):
    """A task of Django, under the path of its function."""

    def __init__(self, app: Headrace, alias: str, task: Any) -> None:
        given = {name: value for name, value in options_of(task).items() if name not in CALL_ONLY}
        given |= {"queue": task.queue_name, "priority": int(task.priority)}
        options = task_options(given, app._retries, app._backoff)
        options = replace(options, fail_on=(*options.fail_on, Unfit))
        function = function_of(alias, task)
        super().__init__(app, function, task.module_path, options)
        self.arguments = SplitArguments(self.name, function)
        self.django_task = task


@cache
def _nowhere() -> Headrace:
    """An app for tasks that are only looked at. Its store is never opened."""
    return Headrace("sqlite:///:memory:")


def check(task: Any) -> None:
    """Refuse a task that headrace can't run as its options say."""
    try:
        NativeTask(_nowhere(), "", task)
    except ConfigurationError as error:
        raise InvalidTask(str(error)) from error
