"""What an app provides to its tasks per process: made once, cleaned up at its end."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Coroutine, Generator, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.app import Headrace

log = logging.getLogger("headrace.worker")


class Resources:
    """Start hooks, provided values, stop hooks: the life of one process that runs tasks."""

    def __init__(self, app: Headrace, run_coroutine: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._app = app
        self.run_coroutine = run_coroutine
        """On the loop that all of these live on."""
        self.values: dict[str, Any] = {}
        """What is provided, by name. What is there before the start stays, in place of what providers would make."""
        self._open: list[tuple[str, Generator[Any, None, None]]] = []

    def start(self, names: Iterable[str] | None = None) -> None:
        """Run the start hooks, then make the values: all of them, or those that are named."""
        try:
            for hook in self._app.start_hooks:
                self._resolve(hook())
            for name in self._app.providers if names is None else names:
                if name in self._app.providers and name not in self.values:
                    self.values[name] = self._make(name)
        except BaseException:
            self.stop()
            raise

    def _make(self, name: str) -> Any:
        made = self._app.providers[name]()
        if isinstance(made, Generator):
            self._open.append((name, made))
            return next(made)
        return self._resolve(made)

    def _resolve(self, made: Any) -> Any:
        return self.run_coroutine(made) if inspect.iscoroutine(made) else made

    def stop(self) -> None:
        """Clean up in the opposite order. What fails is logged, and keeps nothing else from being cleaned up."""
        for name, generator in reversed(self._open):
            try:
                next(generator, None)
            except Exception:
                log.exception("cleaning up %r failed", name, extra={"event": "hook_failed"})
        for hook in reversed(self._app.stop_hooks):
            try:
                self._resolve(hook())
            except Exception:
                log.exception("the stop hook %r failed", hook, extra={"event": "hook_failed"})
