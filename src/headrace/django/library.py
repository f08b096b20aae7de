"""Django's tasks under one set of names, whichever package they are in.

Django 6 has them as `django.tasks`; for Django before 6 there is a backport, the package `django_tasks`. They differ in
the names of two exceptions, and in where `normalize_json` is.
"""

from __future__ import annotations

from headrace.errors import ConfigurationError

try:
    import django
except ImportError as error:
    raise ConfigurationError("Django is not installed: pip install 'headrace[django]'.") from error

IS_BACKPORT = django.VERSION < (6, 0)

if IS_BACKPORT:
    try:
        import django_tasks
    except ImportError as error:
        raise ConfigurationError(
            f"Django {django.get_version()} has no tasks of its own: pip install django-tasks, its backport for Django "
            "before 6."
        ) from error
    from django_tasks import signals, task, task_backends
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
    from django_tasks.exceptions import InvalidTaskBackendError as InvalidTaskBackend
    from django_tasks.exceptions import InvalidTaskError as InvalidTask
    from django_tasks.exceptions import TaskResultDoesNotExist
    from django_tasks.utils import normalize_json

    PACKAGE = django_tasks.__name__
else:
    from django.tasks import signals, task, task_backends
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
    from django.tasks.exceptions import InvalidTask, InvalidTaskBackend, TaskResultDoesNotExist
    from django.utils.json import normalize_json

    PACKAGE = "django.tasks"

__all__ = [
    "IS_BACKPORT",
    "PACKAGE",
    "BaseTaskBackend",
    "InvalidTask",
    "InvalidTaskBackend",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultStatus",
    "normalize_json",
    "signals",
    "task",
    "task_backends",
]
