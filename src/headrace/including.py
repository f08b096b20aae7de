"""An app's tasks: those that are declared with it, and those of the modules that it includes."""

from __future__ import annotations

import importlib
import threading
from typing import TYPE_CHECKING, Any, cast

from headrace.errors import ConfigurationError
from headrace.task import Task, main_module

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.shared import SharedTask


class Including:
    """The tasks of an app, and the modules that they come from. The base of `Headrace`."""

    def __init__(self) -> None:
        self.known_tasks: dict[str, Task[Any, Any]] = {}
        """The tasks so far, by name: `tasks` first imports what is included."""
        self.unbound: dict[SharedTask[Any, Any], None] = {}
        """Shared tasks of included modules that were not checked with this app so far."""
        self._unimported: dict[str, None] = {}
        self._importing: set[tuple[int, str]] = set()
        """Threads and the modules that they import: one may ask for the tasks while it is imported."""

    @property
    def tasks(self) -> dict[str, Task[Any, Any]]:
        """All tasks by name. The modules that are included are imported for it, if they were not before."""
        if self._unimported or self.unbound:
            self.load_included()
        return self.known_tasks

    def include(self, *modules: str) -> None:
        """Name modules with tasks of this app: `app.include("shop.mail", "shop.orders")`.

        They are imported when the app's tasks are first needed: when a worker, `app.testing()` or a command that
        needs tasks starts, or when `app.tasks` is read. So these modules can import the one that has the app. Their
        shared tasks, and those of modules below them (`shop.mail.lists`), are bound to this app.

        >>> from headrace import Headrace
        >>> app = Headrace("sqlite:///:memory:")
        >>> app.include("no_such_module")
        >>> app.tasks
        Traceback (most recent call last):
        headrace.errors.ConfigurationError: app.include('no_such_module'): there is no module named 'no_such_module'...
        """
        for module in modules:
            if not isinstance(module, str) or not all(part.isidentifier() for part in module.split(".")):
                raise ConfigurationError(
                    f"app.include() takes the full names of modules, as in app.include('shop.mail'), not {module!r}."
                )
        from headrace.shared import include  # noqa: PLC0415  (few programs have shared tasks)

        own = main_module()
        for module in dict.fromkeys(own if module == "__main__" else module for module in modules):
            self._unimported[module] = None
            include(cast("Headrace", self), module)

    def load_included(self) -> None:
        """Import the modules that are included, and make their shared tasks tasks of this app.

        No lock is held meanwhile: Python has one for each module, and a second one could wait for that in a circle.
        """
        me = threading.get_ident()
        for module in tuple(self._unimported):
            if (me, module) not in self._importing:
                self._importing.add((me, module))
                try:
                    _import(module)
                finally:
                    self._importing.discard((me, module))
                self._unimported.pop(module, None)
        asked_by_a_module = any(thread == me for thread, _ in self._importing)
        for shared in tuple(self.unbound):
            task = shared.of(cast("Headrace", self))
            if not asked_by_a_module:  # else a provider may be yet to come
                self._require_providers(task)
                self.unbound.pop(shared, None)

    def _require_providers(self, task: Task[Any, Any]) -> None:
        raise NotImplementedError


def _import(module: str) -> None:
    if module == main_module():
        return  # the program itself: to import it would make a second one of it
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        raise ConfigurationError(
            f"app.include({module!r}): there is no module named {error.name!r}. Is it spelled right, and is the folder "
            "that contains it on Python's path?"
        ) from None
