"""`create`: from a name and a handler to a queue."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from headrace.dialects.hworker.api import Hworker, Logger, print_line
from headrace.dialects.hworker.driver import HworkerDriver, Keys
from headrace.dialects.hworker.hands import Failure, Retry
from headrace.dialects.hworker.options import EXAMPLE, FAILED_SIZE, TIMEOUT, Options
from headrace.errors import ConfigurationError
from headrace.store.redis.addresses import parse_for

J = TypeVar("J")
S = TypeVar("S")

URL = "redis://localhost:6379/0"


def create(
    name: str,
    handler: Callable[[S, J], Any],
    *,
    state: S,
    connection: str | Hworker[Any, Any] = URL,
    timeout: float = TIMEOUT,
    exceptions: Literal["fail", "retry"] = "fail",
    failed_size: int = FAILED_SIZE,
    failed_key: str | None = None,
    logger: Logger = print_line,
    debug: bool = False,
    job_type: Any = None,
    keep_alive: bool = True,
    prefetch: int = 1,
) -> Hworker[S, J]:
    """A queue with this name, whose jobs `handler(state, job)` runs. Nothing is connected before it is used.

    The handler returns `Success()` (or nothing), `Retry(message)` or `Failure(message)`; what it throws counts as one
    of the latter two, as `exceptions` says. `job_type` is what payloads must fit (if not given, the annotation of the
    handler's second parameter): one that does not is broken.

    `connection`: a URL, or another queue whose connections to share. `timeout` (seconds) is the monitor's; a job that
    runs longer is kept alive, unless `keep_alive` is False. `failed_size` bounds the list of failures, and `failed_key`
    is another key for it. `prefetch`: how many jobs a worker may take at once; with 1 it takes none before it can run
    it. `logger` gets the queue's name and a line; `debug` tells it of every job.

    >>> from headrace.dialects.hworker import Success
    >>> mail = create("mail", lambda state, job: Success(), state=None, timeout=30)
    >>> mail.name, mail.options.timeout
    ('mail', 30)
    """
    if exceptions not in ("fail", "retry"):
        raise ConfigurationError(f"exceptions is 'fail' or 'retry', not {exceptions!r}.")
    options = Options(
        name=name,
        timeout=timeout,
        failed_size=failed_size,
        failed_key=failed_key,
        keep_alive=keep_alive,
        prefetch=prefetch,
    ).check()
    return Hworker(
        _driver(connection, Keys(failed_key)),
        handler,
        state,
        options,
        exceptions=Failure if exceptions == "fail" else Retry,
        job_type=_job_type(handler) if job_type is None else job_type,
        logger=logger,
        debug=debug,
    )


def _driver(connection: str | Hworker[Any, Any], keys: Keys) -> HworkerDriver:
    if isinstance(connection, Hworker):
        return connection._driver.with_keys(keys)
    return HworkerDriver(parse_for("hworker", connection, EXAMPLE)[0], keys)


def _job_type(handler: Callable[..., Any]) -> Any:
    try:
        hints = typing.get_type_hints(handler)
        parameters = list(inspect.signature(handler).parameters)
    except (TypeError, ValueError, NameError):
        return Any
    return hints.get(parameters[1], Any) if len(parameters) > 1 else Any
