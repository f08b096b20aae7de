"""The backend: what Django asks to enqueue tasks and to look at their results."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.checks import ERROR
from django.db import transaction

from headrace.app import Headrace
from headrace.django import registry, results
from headrace.django.library import BaseTaskBackend, InvalidTask, InvalidTaskBackend, normalize_json, signals
from headrace.django.task import HeadraceTask, options_of_call
from headrace.errors import ConfigurationError
from headrace.loading import load_app
from headrace.store.courses import arun_course, run_course

if TYPE_CHECKING:
    from headrace.task import Call


class HeadraceBackend(BaseTaskBackend):
    """A backend of Django's tasks whose jobs live in a store of headrace and are run by its workers.

    `OPTIONS`: `store`, the URL of the store (`$HEADRACE_STORE` if not given), or `app`, the path of an app of your own
    (`"shop.jobs:app"`); `database`, the alias whose transactions jobs are part of. docs/django.md has an example of
    each.
    """

    task_class = HeadraceTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    @property
    def app(self) -> Headrace:
        """The app that the tasks belong to: workers, schedules, `app.testing()`."""
        if self._app is None:
            settings = repr((sorted(self.queues), self.options, os.environ.get("HEADRACE_STORE")))
            self._app = registry.app_for(self.alias, settings, self._make_app)
        return self._app

    _app: Headrace | None = None

    def _make_app(self) -> Headrace:
        from headrace.django.checks import problems, store_url  # noqa: PLC0415

        for problem in problems(self):
            if problem.level >= ERROR:
                raise InvalidTaskBackend(f"{problem.msg} {problem.hint or ''}".strip())
        path = self.options.get("app")
        own = {"name": f"django {self.alias}", "tz": settings.TIME_ZONE}
        try:
            app = load_app(path) if path else Headrace(store_url(self), **own)
        except ConfigurationError as error:
            raise InvalidTaskBackend(f"TASKS[{self.alias!r}]['OPTIONS']['app']: {error}") from error
        app.more_queues |= self.queues or {"*"}
        return app

    def native(self, task: Any) -> Any:
        """A task as headrace knows it, of this backend's app."""
        return registry.native(self.app, self.alias, task)

    def declared(self, path: str) -> Any:
        """The declared task with this path, or None. Tasks modules of installed apps are imported, and nothing else."""
        found = registry.task_named(path)
        if found is None:
            from headrace.django.discovery import discover  # noqa: PLC0415  (most processes know their tasks)

            discover()
            found = registry.task_named(path)
        return found

    # -- enqueueing --

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Put a job: in the transaction of `OPTIONS["database"]`, or after its commit, or at once if there is none."""
        call, result = self._prepare(task, args, kwargs)
        alias = self.options.get("database")
        if alias is None:
            return self._put(call, result)
        from headrace.django.joining import joined_connection  # noqa: PLC0415  (it needs connections)

        connection = joined_connection(self.app, alias)
        if connection is None:
            transaction.on_commit(partial(self._put, call, result), using=alias)
            return result
        (job,) = self.app.enqueue_many([call], connection=connection)
        self._was_put(result, job)
        if job.created_now:
            transaction.on_commit(partial(signals.task_enqueued.send, type(self), task_result=result), using=alias)
        return result

    async def aenqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """The same, without blocking the event loop. Connections of Django belong to the thread of its sync code."""
        if self.options.get("database") is not None:
            return await sync_to_async(self.enqueue, thread_sensitive=True)(task, args, kwargs)
        call, result = self._prepare(task, args, kwargs)
        (job,) = await self.app.aenqueue_many([call])
        if not job.created_now:
            return await self.aget_result(job.id)
        self._was_put(result, job)
        await signals.task_enqueued.asend(type(self), task_result=result)
        return result

    def _prepare(self, task: Any, args: Any, kwargs: Any) -> tuple[Call[Any], Any]:
        """A call, checked and encoded, and the result that stands for it."""
        self.validate_task(task)
        args, kwargs = normalize_json(args), normalize_json(kwargs)
        try:
            native = self.native(task)
            options = options_of_call(task, native.django_task)
            call = native.using(**options).call(*args, **kwargs) if options else native.call(*args, **kwargs)
        except ConfigurationError as error:
            raise InvalidTask(str(error)) from error
        return call, results.new_result(self, task, call.new.id, args, kwargs)

    def _put(self, call: Call[Any], result: Any) -> Any:
        job = self.app._enqueue(call, None)
        if not job.created_now:
            return self.get_result(job.id)
        self._was_put(result, job)
        signals.task_enqueued.send(type(self), task_result=result)
        return result

    def _was_put(self, result: Any, job: Any) -> None:
        object.__setattr__(result, "id", job.id)
        object.__setattr__(result, "enqueued_at", results.moment(self.app.clock.now()))

    # -- results --

    def get_result(self, result_id: str) -> Any:
        """The result of a job by its id, as of now. `TaskResultDoesNotExist` if there is none."""
        store = self.app.store
        return results.result_of(self, *run_course(store, results.look_course(store, result_id)))

    async def aget_result(self, result_id: str) -> Any:
        """The same, from async code."""
        store = self.app.store
        return results.result_of(self, *await arun_course(store, results.look_course(store, result_id)))

    def check(self, **_: Any) -> Any:
        """What `manage.py check` finds about the settings of this backend."""
        from headrace.django.checks import problems  # noqa: PLC0415

        return problems(self)
