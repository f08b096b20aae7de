"""Signatures that `help()` and editors show."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def takes_keywords_of(source: Callable[..., Any]) -> Callable[[F], F]:
    """Show the keywords of `source` in place of the `**wanted` that a function passes on to it."""
    keywords = [each for each in inspect.signature(source).parameters.values() if each.kind is each.KEYWORD_ONLY]

    def show(function: F) -> F:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
        vars(function)["__signature__"] = signature.replace(parameters=[*own, *keywords])
        return function

    return show
