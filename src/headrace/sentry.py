"""Sentry: each job that fails for good is one event, with what its run put on the scope. See docs/telemetry.md."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from headrace.errors import ConfigurationError
from headrace.logging import FIELDS

try:
    import sentry_sdk
    from sentry_sdk.integrations.logging import ignore_logger
    from sentry_sdk.scope import Scope, use_isolation_scope
except ModuleNotFoundError as error:
    raise ConfigurationError("headrace.sentry needs sentry-sdk: pip install 'headrace[sentry]'.") from error

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.worker.context import Context

FLUSH_SECONDS = 2.0
"""How long a process that ends waits for events that are under way."""

_instrumented: WeakSet[Headrace] = WeakSet()
_last_scope: ContextVar[tuple[Context, Scope] | None] = ContextVar("headrace_sentry_scope", default=None)
"""The latest run of this thread or asyncio task. It fails, if it does, after its middlewares were left."""


def instrument(app: Headrace) -> None:
    """Report failures of an app's jobs to Sentry, wherever they run: `sentry_sdk.init(...)`, then this, beside the app.

    Each run has an isolation scope of its own with the tags `headrace.task`, `headrace.job_id`, `headrace.attempt` and
    `headrace.queue`, so whatever the task captures has them too. A job that fails for good is one event with the tags,
    breadcrumbs and user of that scope. An attempt that is followed by another one is none.

    >>> from headrace import Headrace
    >>> app = Headrace("sqlite:///:memory:")
    >>> instrument(app)
    """
    if app in _instrumented:
        return
    _instrumented.add(app)
    app.middleware(_run_in_scope)
    app.on_failure(_report)
    app.on_stop(_flush)
    _set_up_sdk()


@functools.cache
def _set_up_sdk() -> None:
    # The SDK makes an event of each line at the level `error`. Failures come from `_report`, with the scope of the run.
    ignore_logger("headrace.jobs")
    sentry_sdk.get_global_scope().add_event_processor(_about_the_job)


def _run_in_scope(context: Context) -> Iterator[None]:
    with sentry_sdk.isolation_scope() as scope:
        scope.clear_breadcrumbs()
        _describe(scope, context)
        _last_scope.set((context, scope))
        yield


def _report(context: Context, error: BaseException) -> None:
    last = _last_scope.get()
    if last is not None and last[0] is context:
        with use_isolation_scope(last[1]):
            sentry_sdk.capture_exception(error)
    else:  # it crashed in another process, or another middleware kept it from starting
        with sentry_sdk.isolation_scope() as scope:
            _describe(scope, context)
            sentry_sdk.capture_exception(error)


def _describe(scope: Scope, context: Context) -> None:
    scope.set_transaction_name(context.task, source="task")
    for name, value in zip(FIELDS, (context.id, context.task, context.attempt, context.queue), strict=True):
        scope.set_tag(f"headrace.{name}", value)


def _about_the_job(event: Any, hint: Any) -> Any:
    """Tags events that the SDK makes of a worker's log lines. A crash alone is none: the job runs again, or fails."""
    record = hint.get("log_record")
    if record is None or not record.name.startswith("headrace."):
        return event
    fields = vars(record)
    if fields.get("event") == "job_crashed":
        return None
    if fields.get("job_id"):
        found = {f"headrace.{name}": str(fields[name]) for name in FIELDS if fields.get(name)}
        event["tags"] = {**event.get("tags", {}), **found}
    return event


def _flush() -> None:
    sentry_sdk.flush(FLUSH_SECONDS)
