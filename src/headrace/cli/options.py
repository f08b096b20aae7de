"""Options that commands share, and the way from them to a store or an app."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, get_args, get_origin

import click
from click.core import ParameterSource

from headrace.errors import ConfigurationError, StoreUnavailable

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.options import Option

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


# -- kinds of values --


class Reading(click.ParamType):  # type: ignore[type-arg]
    """A kind of value: what a function makes of the text, or refuses with `ConfigurationError`."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except ConfigurationError as error:
            self.fail(str(error), param, ctx)


def _duration(text: str) -> int:
    """`30`, `30s`, `5 minutes`: milliseconds."""
    from headrace.values.durations import milliseconds

    return milliseconds(float(text) if re.fullmatch(r"\d+(\.\d+)?", text) else text, "the duration")


def _size(text: str) -> int:
    """`500MB`, `2GB`, `1GiB`: bytes."""
    from headrace.values.names import read_size

    return read_size("the size", text)


def _names(text: str) -> tuple[str, ...]:
    """`mail,default`: names, in order."""
    from headrace.values.names import check_name

    names = tuple(check_name("queue", name.strip()) for name in text.split(","))
    if len(set(names)) != len(names):
        raise ConfigurationError("a queue is named twice.")
    return names


DURATION = Reading("duration", _duration)
SIZE = Reading("size", _size)
NAMES = Reading("a,b,…", _names)


# -- options --


only_store_option = click.option(
    "--store", metavar="URL", help="Where the jobs live; goes before the app's own and $HEADRACE_STORE."
)
app_option = click.option(
    "--app",
    "app_path",
    metavar="MODULE:APP",
    envvar="HEADRACE_APP",
    help="The app, as module:app. [$HEADRACE_APP, pyproject.toml]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
arguments_option = click.option(
    "--argument", "arguments", multiple=True, metavar="ARGUMENT", help="All arguments anew, as for 'enqueue'."
)
yes_option = click.option("--yes", is_flag=True, help="Don't ask.")


class Asked(NamedTuple):
    """Where a command looks, and whether it prints for programs."""

    store: str | None = None
    app_path: str | None = None
    as_json: bool = False

    def app(self, *, with_tasks: bool = False) -> AbstractContextManager[Headrace]:
        """An app at a store that is there: a misspelt path must not make an empty store, and say that all is well.

        `with_tasks`: the app that was named itself; else one without tasks, whose code need not even be loaded if the
        store was named, too: a mistake in it keeps no operator from looking.
        """
        from headrace.app import Headrace
        from headrace.store.urls import file_of

        named = self.named_app(with_tasks=with_tasks) if with_tasks or not self.store else None
        bare = Headrace(self.store or (None if named is None else named.url))
        path = file_of(bare.url)
        if path is not None and not path.exists():
            raise StoreUnavailable(
                f"There is no store at {path.absolute()}: nothing has been enqueued there yet, or it is somewhere "
                "else. Say where with --store, $HEADRACE_STORE or --app."
            )
        return _at_store(named if with_tasks and named is not None else bare, bare.url, create=False)

    def named_app(self, *, with_tasks: bool = False) -> Headrace | None:
        """The app that was named, with its own store."""
        from headrace.loading import load_app

        path = path_of_app(self.app_path)
        return None if path is None else load_app(path, with_tasks=with_tasks)


def common_options(command: F) -> F:
    """`--store`, `--app` and `--json`, before a subcommand's name or behind it; the command gets them as `asked`."""

    @functools.wraps(command)
    def with_asked(store: str | None, app_path: str | None, as_json: bool, **options: Any) -> Any:
        ctx = click.get_current_context()
        above: Asked = ctx.obj or Asked()
        if above.app_path and ctx.get_parameter_source("app_path") is not ParameterSource.COMMANDLINE:
            app_path = above.app_path  # what was written before the subcommand goes before $HEADRACE_APP
        ctx.obj = Asked(store or above.store, app_path, as_json or above.as_json)
        return command(asked=ctx.obj, **options)

    return only_store_option(app_option(json_option(with_asked)))  # type: ignore[return-value]


def confirm(question: str, yes: bool, because: str = "") -> None:
    """Ask before something is done, unless `--yes` was given. `because`: what to tell where nobody can be asked."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{because}Nobody is there to be asked: add --yes.")
    click.confirm(question, abort=True, err=True)


# -- options of jobs, as headrace.options declares them --


def job_options(options: Mapping[str, Option], flags: Mapping[str, str] | None = None) -> Callable[[F], F]:
    """A flag for each of these options. `flags`: those that have another name in this command."""

    def decorate(command: F) -> F:
        for name, option in reversed(list(options.items())):
            flag = (flags or {}).get(name) or option.flag or f"--{name.replace('_', '-')}"
            made = click.option(flag, f"option_{name}", help=option.help, metavar=option.metavar, **_kind(name))
            command = made(command)
        return command

    return decorate


def _kind(name: str) -> dict[str, Any]:
    """What the command line makes of an option's type."""
    from headrace.options import type_of
    from headrace.values.durations import Duration

    hint = type_of(name)
    if hint is bool:
        return {"is_flag": True, "default": None}
    if hint is int:
        return {"type": int}
    if hint in (Duration, Duration | None):
        return {"type": DURATION}
    if get_origin(hint) is Literal:
        return {"type": click.Choice(get_args(hint))}
    return {"multiple": True} if get_origin(hint) in (Iterable, Sequence, Mapping) else {}


def given_options(options: Mapping[str, Option], written: Mapping[str, Any]) -> dict[str, Any]:
    """What was written on the command line, as Python would say it."""
    given: dict[str, Any] = {}
    for name, option in options.items():
        value = written[f"option_{name}"]
        if value is None or value == ():
            continue
        kind = _kind(name)
        if "is_flag" in kind:
            value = not option.default
        elif kind.get("type") is DURATION:
            value /= 1000
        elif option.metavar == PAIR:
            value = each_once(map(_pair, value))
        given[name] = value
    return given


PAIR = "KEY=VALUE"


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"{text!r} is not a key with its value. Write {PAIR}.")
    return key, value


def each_once(pairs: Iterable[tuple[str, T]]) -> dict[str, T]:
    """What was written by name. Of two values for a name, nobody can tell which was meant."""
    found: dict[str, T] = {}
    for name, value in pairs:
        if name in found:
            raise click.UsageError(f"{name!r} is given twice.")
        found[name] = value
    return found


# -- from options to stores and apps --


def app_at(url: str) -> AbstractContextManager[Headrace]:
    """An app without tasks at a store, which is made if it is not there."""
    from headrace.app import Headrace

    return _at_store(Headrace(url), url)


def required_app(app_path: str | None, store: str | None) -> AbstractContextManager[Headrace]:
    """The app of a command that cannot do without, at the store that was asked for."""
    from headrace.loading import load_app

    app = load_app(required_path(app_path, "Say --app module:app"))
    return _at_store(app, store or app.url)


def required_path(app_path: str | None, how: str) -> str:
    """How to import the app of a command that cannot do without. `how`: what to write on its command line."""
    path = path_of_app(app_path)
    if path is None:
        raise click.UsageError(
            f"Which app? {how}, set $HEADRACE_APP, or name it in the pyproject.toml of your project:\n\n"
            '[tool.headrace]\napp = "shop.tasks:app"'
        )
    return path


def path_of_app(app_path: str | None) -> str | None:
    """How to import the app: as the command line or $HEADRACE_APP says, else as pyproject.toml does."""
    if app_path is not None:
        return app_path
    from headrace.project import app_of_project

    return app_of_project()


@contextmanager
def _at_store(app: Headrace, url: str, *, create: bool = True) -> Iterator[Headrace]:
    from headrace.store import open_store

    opened = open_store(url, create=create)
    before = app.use_store(opened)
    try:
        yield app
    finally:
        app.use_store(before)
        opened.close()
