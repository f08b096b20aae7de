"""Which jobs a command is about: ids, parts of ids, or filters, with a question before many are changed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import Struct

from headrace.cli import exits
from headrace.cli.options import Reading, confirm, yes_option
from headrace.cli.output import progress, say
from headrace.errors import ConfigurationError
from headrace.ops.documents import epoch_ms
from headrace.ops.selection import Selection, count
from headrace.records import Filter, State
from headrace.values.durations import milliseconds
from headrace.values.text import count_of, now_ms

if TYPE_CHECKING:
    from headrace.app import Headrace
    from headrace.ops.act import Verb

F = TypeVar("F", bound=Callable[..., Any])


def _past(text: str) -> int:
    """`2h`, `3 days ago`, `yesterday`, `2026-11-01`, `2026-11-01T12:00Z`: a moment, in milliseconds since 1970.

    Days are those of this machine's zone, which tables show times in.
    """
    if text in _DAYS:
        text = (date.today() - timedelta(days=_DAYS[text])).isoformat()
    try:
        return now_ms() - milliseconds(text.removesuffix(" ago"), "a time")
    except ConfigurationError:
        pass  # not a duration: then it is a date
    try:
        return epoch_ms(datetime.fromisoformat(text).astimezone())
    except (ValueError, OverflowError):
        raise ConfigurationError(f"{text!r} is neither a duration ('2 hours ago') nor a date ('2026-11-01').") from None


_DAYS = {"today": 0, "yesterday": 1}
PAST = Reading("when", _past)


def _argument(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ConfigurationError(f"{text!r} is not NAME=TEXT, as in to=ada@example.org.")
    return name, value


ARGUMENT = Reading("name=text", _argument)

_FILTERS = (
    click.option(
        "--state", "states", multiple=True, type=click.Choice([*map(str, State)]), help="Only these. May be repeated."
    ),
    click.option("--queue", help="Only of this queue."),
    click.option("--task", help="Only of this task, by its full name."),
    click.option("--task-like", metavar="GLOB", help="Only of tasks whose names fit, as in 'shop.mail:*'."),
    click.option("--group", help="Only failed in this group (see 'headrace failures')."),
    click.option("--tag", help="Only with this tag (see 'headrace tags')."),
    click.option("--before", "put_before_ms", type=PAST, help="Only put before this time: '2 hours ago', 2026-11-01."),
    click.option(
        "--after",
        "put_after_ms",
        type=PAST,
        help="Only put after this time. Days begin at midnight in this machine's zone: today, yesterday, 2026-11-01.",
    ),
    click.option("--error", metavar="TEXT", help="Only with this in the error's type or message."),
    click.option(
        "--arg",
        "argument_texts",
        multiple=True,
        type=ARGUMENT,
        help="Only with this text in the value of an argument: to=ada@, or user.id=17 for a value within it.",
    ),
)


EVERYTHING = Selection(wanted=Filter())


def filter_options(command: F) -> F:
    """The filters of `headrace jobs`; the command gets them as `selection`."""

    @functools.wraps(command)
    def with_selection(states: tuple[str, ...], **options: Any) -> Any:
        wanted = {name: options.pop(name) for name in ("queue", "task", "task_like", "group", "tag")}
        others = {name: options.pop(name) for name in ("put_before_ms", "put_after_ms", "error")}
        others["arguments"] = options.pop("argument_texts")
        selection = Selection(wanted=Filter(states=tuple(map(State, states)), **wanted), **others)
        return command(selection=selection, **options)

    for option in reversed(_FILTERS):
        option(with_selection)
    return with_selection  # type: ignore[return-value]


class Bounds(Struct, frozen=True):
    """How far a command may go with all jobs that fit."""

    limit: int | None
    dry_run: bool
    yes: bool


def many_options(command: F) -> F:
    """Filters instead of ids, and what keeps them from doing harm; the command gets `selection` and `bounds`."""

    @functools.wraps(command)
    def with_bounds(**options: Any) -> Any:
        bounds = Bounds(**{name: options.pop(name) for name in Bounds.__struct_fields__})
        return command(bounds=bounds, **options)

    with_bounds = yes_option(with_bounds)
    with_bounds = click.option("--dry-run", is_flag=True, help="Only say how many jobs fit.")(with_bounds)
    with_bounds = click.option("--limit", type=click.IntRange(min=1), help="At most so many of those that fit.")(
        with_bounds
    )
    return filter_options(with_bounds)  # type: ignore[return-value]


def check_choice(ids: tuple[str, ...], selection: Selection) -> None:
    """Jobs are named in one way."""
    if ids and selection != EVERYTHING:
        raise click.UsageError("Give ids or filters (--queue, --task, --state, --group, --tag ...), not both.")
    if not ids and selection == EVERYTHING:
        raise click.UsageError("Which jobs? Give their ids, or filters: --queue, --task, --state, --group, --tag ...")


def act_on_many(app: Headrace, verb: Verb, selection: Selection, bounds: Bounds, as_json: bool) -> None:
    """Do something to all jobs that fit, after a question; say how many that were."""
    from headrace.ops.act import to_all

    selection, done = verb.meant(selection), verb.done
    matching = count(app, selection, bounds.limit)
    if bounds.dry_run:
        say({"matching": matching}, f"{count_of(matching, 'job')} would be {done}.", as_json)
        return
    if not matching:
        say({"matching": 0, done: 0, "refused": 0}, "No jobs fit.", as_json)
        click.get_current_context().exit(exits.NOT_DONE)
    jobs = count_of(matching, "job")
    confirm(f"{verb.name.capitalize()} {jobs}?", bounds.yes, f"{jobs} would be {done}. ")
    with progress(verb.name, matching) as bar:
        good, refused = to_all(
            app, verb, selection, limit=bounds.limit, advance=lambda number: bar.advance(bar.task_ids[0], number)
        )
    text = f"{count_of(good, 'job')} {done}." + (f" {refused:,} refused." if refused else "")
    say({"matching": matching, done: good, "refused": refused}, text, as_json)
    if not good:
        click.get_current_context().exit(exits.NOT_DONE)
