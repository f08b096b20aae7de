"""Finding the app that `module:app` names."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

from headrace.errors import ConfigurationError

if TYPE_CHECKING:
    from types import FrameType

    from headrace.app import Headrace


def load_app(path: str, *, with_tasks: bool = True) -> Headrace:
    """Import the app that `module:app` (or `path/to/file.py:app`, or just `module`) names.

    `module:make_app` is a function that is called for it, without arguments and once per process.
    `with_tasks`: import the modules that the app includes, too.

    >>> load_app("no_such_module:app")
    Traceback (most recent call last):
    headrace.errors.ConfigurationError: Cannot find a module named 'no_such_module'. Is it spelled right, ...
    """
    app = _find_app(path)
    if with_tasks:
        with _telling(path, "Importing"):
            app.load_included()
    return app


def _find_app(path: str) -> Headrace:
    from headrace.app import Headrace  # noqa: PLC0415

    module_name, _, attribute = path.partition(":")
    if not all(module_name.split(".")) and not module_name.endswith(".py"):
        raise ConfigurationError(f"{path!r} names no module. Write module:app, for example shop.tasks:app.")
    module = _import(module_name, path)
    if not attribute:
        apps = [name for name, value in vars(module).items() if isinstance(value, Headrace)]
        if len(apps) != 1:
            found = f"has {len(apps)} apps ({', '.join(apps)})" if apps else "has no Headrace app"
            raise ConfigurationError(f"{module_name} {found}: say which one, as in {module_name}:app.")
        attribute = apps[0]
    try:
        found_app: object = attrgetter(attribute)(module)
    except AttributeError:
        raise ConfigurationError(
            f"{module_name} has no {attribute!r}. Write module:name, where name is your Headrace(...)."
        ) from None
    if isinstance(found_app, Headrace):
        return found_app
    if _is_factory(found_app):
        return _from_factory(found_app, path)
    raise ConfigurationError(f"{path} is a {type(found_app).__name__}, not a Headrace app.")


# -- factories --


class _Made(NamedTuple):
    """An app that a factory has made in this process, and how other processes come by the same one."""

    factory: object
    path: str
    app: Headrace


_made: list[_Made] = []


def _is_factory(found: object) -> TypeGuard[Callable[[], object]]:
    """Whether this is called to make an app. Tasks and classes can be called, too, and are not meant."""
    from headrace.shared import SharedTask  # noqa: PLC0415
    from headrace.task import Task  # noqa: PLC0415

    return callable(found) and not isinstance(found, type | Task | SharedTask)


def _from_factory(factory: Callable[[], object], path: str) -> Headrace:
    """The app that a factory makes. It is called once per process, however often its app is asked for."""
    from headrace.app import Headrace  # noqa: PLC0415

    known = next((made.app for made in _made if made.factory is factory), None)
    if known is not None:
        return known
    _check_factory(factory, path)
    with _telling(path, "Calling"):
        made = factory()
    if not isinstance(made, Headrace):
        raise ConfigurationError(f"{path} is a function that returned a {type(made).__name__}, not a Headrace app.")
    _made.append(_Made(factory, path, made))
    return made


def _check_factory(factory: Callable[[], object], path: str) -> None:
    """Refuse a function that can't be a factory before it is called: it may do anything."""
    import inspect  # noqa: PLC0415
    import typing  # noqa: PLC0415

    from headrace.app import Headrace  # noqa: PLC0415
    from headrace.hooks import is_generator  # noqa: PLC0415

    if inspect.iscoroutinefunction(factory) or is_generator(factory):
        raise ConfigurationError(f"{path} is no plain function: an app is made by one that returns a Headrace.")
    try:
        inspect.signature(factory).bind()
    except TypeError as error:
        raise ConfigurationError(
            f"{path} can't be called without arguments ({error}), as the factory of an app is. Give its parameters "
            "defaults, or write a function that calls it."
        ) from None
    except ValueError:  # it is written in C, and does not tell
        return
    try:
        returns = typing.get_type_hints(factory).get("return", Headrace)
    except Exception:  # annotations may name what only type checkers see
        return
    if isinstance(returns, type) and not issubclass(returns, Headrace) and not issubclass(Headrace, returns):
        raise ConfigurationError(
            f"{path} is a function that returns {returns.__name__.removesuffix('Type')}, and not a Headrace app."
        )


# -- what goes on while an app is imported --


under_way: list[str] = []
"""The apps that are being imported at this moment, the outermost first."""

WARNED_VARIABLE = "HEADRACE_WARNED_OF"
"""The app whose import was found to enqueue: a worker's other processes import it, too, and need not say it again."""

log = logging.getLogger("headrace")


def refuse_while_loading() -> None:
    """Running a worker is nothing that an app may do while a worker imports it: that one would import it, too."""
    if under_way:
        raise ConfigurationError(
            f"Importing {under_way[0]} runs a worker, and it is imported to run its tasks. "
            'Put it under `if __name__ == "__main__":`.'
        )


def warn_of_enqueue() -> None:
    """Say once that an app enqueues while it is imported: each process of each worker would do so again."""
    path = under_way[0]
    if os.environ.get(WARNED_VARIABLE) == path:
        return
    os.environ[WARNED_VARIABLE] = path
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "headrace":
        frame = frame.f_back
    place = "" if frame is None else f" ({frame.f_code.co_filename}, line {frame.f_lineno})"
    log.warning(
        "importing %s enqueues a job%s: each process that imports it, such as every worker process, enqueues another. "
        'Put it under `if __name__ == "__main__":`.',
        path,
        place,
    )


ROOT_VARIABLE = "HEADRACE_ROOT"
"""The folder of the pyproject.toml that names the app, if it is not the current one: modules are found there, too, also
by a worker's processes."""


def _import(name: str, path: str) -> object:
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    root = os.environ.get(ROOT_VARIABLE)
    if root and root not in sys.path:
        sys.path.insert(0, root)
    with _telling(path, "Importing"):
        try:
            return _import_file(Path(name)) if name.endswith(".py") else importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            raise ConfigurationError(
                f"Cannot find a module named {error.name!r}. Is it spelled right, and are you in the folder that "
                f"contains it ({root or os.getcwd()})? Write module:app, for example shop.tasks:app."
            ) from None


@contextmanager
def _telling(path: str, doing: str) -> Iterator[None]:
    """While the user's modules run: make a sentence of whatever they raise, with their line."""
    under_way.append(path)
    try:
        yield
    except ConfigurationError as error:
        if type(error) is ConfigurationError and (place := _place(error)):
            raise ConfigurationError(f"{place}: {error}") from error
        raise
    except BaseException as error:
        place = "" if isinstance(error, SyntaxError) else _place(error)  # that one says it by itself
        raise ConfigurationError(
            f"{doing} {path} failed: {type(error).__name__}: {error}{f' (in {place})' if place else ''}"
        ) from error
    finally:
        under_way.pop()


def _place(error: BaseException) -> str:
    """The user's own line that an error comes from: the innermost one outside of headrace, Python and packages."""
    import sysconfig  # noqa: PLC0415  (for errors alone)

    ours = (os.path.dirname(__file__) + os.sep, "<frozen importlib", str(importlib.__file__))
    foreign = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(ours)]
    own = [frame for frame in frames if not frame.filename.startswith(foreign)] or frames  # the app may be a package
    return f"{own[-1].filename}, line {own[-1].lineno}" if own else ""


def _import_file(file: Path) -> object:
    if not file.is_file():
        raise ConfigurationError(f"There is no file {file}.")
    name = file.stem
    if name in sys.modules and getattr(sys.modules[name], "__file__", None) == str(file.resolve()):
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def path_of(app: Headrace) -> str | None:
    """How another process can import this app, if it can."""
    for made in _made:
        if made.app is app:
            return made.path
    for name, module in tuple(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is None:
            continue
        for attribute, value in tuple(vars(module).items()):
            if value is app:
                return f"{file}:{attribute}" if name == "__main__" else f"{name}:{attribute}"
    return None
