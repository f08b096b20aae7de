"""Signatures that `help()` and editors show, and that refusals speak of."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from headrace.errors import ConfigurationError

F = TypeVar("F", bound=Callable[..., Any])


def takes_keywords_of(source: Callable[..., Any]) -> Callable[[F], F]:
    """Have the keywords of `source` in place of the `**wanted` that a method of the app passes on to it.

    >>> from headrace import Headrace
    >>> Headrace("sqlite:///:memory:").jobs(status="done")
    Traceback (most recent call last):
    headrace.errors.ConfigurationError: app.jobs() does not know 'status'. It takes state, queue, task, group, tag, \
tracked, worker, before, after, error, args.
    """
    keywords = [each for each in inspect.signature(source).parameters.values() if each.kind is each.KEYWORD_ONLY]

    def show(function: F) -> F:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        known = [each.name for each in (*own, *keywords) if each.kind is each.KEYWORD_ONLY]

        @wraps(function)
        def checked(*args: Any, **wanted: Any) -> Any:
            if unknown := wanted.keys() - set(known):
                takes = f"It takes {', '.join(known)}."
                raise ConfigurationError(f"app.{function.__name__}() does not know {min(unknown)!r}. {takes}")
            return function(*args, **wanted)

        vars(checked)["__signature__"] = signature.replace(parameters=[*own, *keywords])
        return checked  # type: ignore[return-value]

    return show
