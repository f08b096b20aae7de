"""Which jobs this program can run: the app's tasks, and functions of modules that the operator has allowed.

Jobs and tasks are found by name, and names are never evaluated. A Clojure program writes `#'your-app.cache/clear`; the
Python function of that name is `your_app.cache:clear`.
"""

from __future__ import annotations

import importlib
import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from headrace.errors import ConfigurationError
from headrace.task import Task
from headrace.values.names import check_name

from .literals import is_literal

if TYPE_CHECKING:
    from headrace.app import Headrace

log = logging.getLogger("headrace.workkit")

VAR = "#'"
"""How Clojure's reader marks a reference to a function."""


class Handlers:
    """Finds the task that a job on the wire names.

    `modules` are imported when a job names a function of theirs; only functions that they define themselves are run.
    """

    def __init__(self, modules: Sequence[str] = ()) -> None:
        self._modules = frozenset(check_name("module", module) for module in modules)
        self._app: Headrace | None = None
        self._names: tuple[str, ...] = ()
        """Without an app: what the sessions of this process say they know."""
        self._by_wire: dict[str, str] = {}
        self._likenesses = b""
        self._counted = -1

    def serve(self, app: Headrace) -> None:
        self._app = app
        self._counted = -1

    def add_names(self, names: Iterable[str]) -> None:
        """A session has introduced itself."""
        self._names = tuple(sorted({*self._names, *names}))

    @property
    def likenesses(self) -> bytes:
        """What the scripts tell our jobs by, a line each."""
        self._refresh()
        return self._likenesses

    def find(self, job: str) -> str | None:
        """The name of the task that a job on the wire names, or None if it can't be run here."""
        self._refresh()
        known = self._known()
        python = python_name(job)
        for name in (job, job.removeprefix(VAR), self._by_wire.get(job, ""), python):
            if name and name in known:
                return name
        return self._import(python) if self._app is not None else None

    def _known(self) -> Iterable[str]:
        return self._names if self._app is None else self._app.tasks

    def _refresh(self) -> None:
        names = list(self._known())
        if len(names) == self._counted:
            return
        self._by_wire = {}
        for name in names:
            other = self._by_wire.setdefault(wire_name(name), name)
            if other != name:
                raise ConfigurationError(
                    f"The tasks {other!r} and {name!r} would both be written as {wire_name(name)!r}: rename one."
                )
        modules = [f"{likeness(module)}:" for module in sorted(self._modules)]
        self._likenesses = "\n".join([*map(likeness, names), *modules]).encode()
        self._counted = len(names)

    def _import(self, name: str) -> str | None:
        """A function of an allowed module, made a task."""
        module_name, _, function_name = name.partition(":")
        if module_name not in self._modules:
            return None
        try:
            function = public_function(module_name, function_name)
        except Exception as error:
            log.warning("the module %r cannot be imported: %s: %s", module_name, type(error).__name__, error)
            return None
        if function is None:
            return None
        assert self._app is not None
        try:
            self._app.task(name=name)(function)
        except ConfigurationError as error:
            log.warning("%s", error)
            return None
        return name


def public_function(module: str, name: str) -> Callable[..., Any] | None:
    """The function of this name that a listener may run: a public one that the module itself defines."""
    function = None if name.startswith("_") else vars(importlib.import_module(module)).get(name)
    if isinstance(function, Task):  # of another app: it runs here as the function that it is
        function = function.function
    return function if inspect.isfunction(function) and function.__module__ == module else None


def wire_name(task: str) -> str:
    """What is written for a task, so that a Clojure listener can resolve it.

    >>> wire_name("your_app.cache:clear")
    "#'your-app.cache/clear"
    >>> wire_name("some.ns/func-name"), wire_name("#'a/b"), wire_name("clear")
    ("#'some.ns/func-name", "#'a/b", 'clear')
    >>> wire_name("(fn [x] (some.ns/func-name x))")
    '(fn [x] (some.ns/func-name x))'
    """
    if task.startswith(VAR) or is_literal(task):
        return task
    module, colon, function = task.partition(":")
    if colon and module and "/" not in task:
        return f"{VAR}{module}/{function}".replace("_", "-")
    return f"{VAR}{task}" if "/" in task else task


def python_name(job: str) -> str:
    """The Python function that a job names, as `module:function`; the name itself where it names none.

    >>> python_name("#'your-app.cache/clear")
    'your_app.cache:clear'
    >>> python_name("(fn [x] (println x))")
    '(fn [x] (println x))'
    """
    module, slash, function = job.removeprefix(VAR).partition("/")
    return f"{module}:{function}".replace("-", "_") if job.startswith(VAR) and slash else job


def likeness(name: str) -> str:
    """The same for all spellings under which a name may be found. The scripts compare these (see `scan.lua`).

    >>> likeness("#'your-app.cache/clear") == likeness("your_app.cache:clear") == "your_app.cache:clear"
    True
    """
    return name.removeprefix(VAR).replace("-", "_").replace("/", ":")
