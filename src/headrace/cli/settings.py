"""`headrace settings`: numbers that all workers of a store go by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headrace.cli.options import existing_app, json_option, store_options
from headrace.cli.output import show_json, show_table
from headrace.store.contract import Facet
from headrace.store.facets import Queues, Settings, facet
from headrace.store.settings import (
    CONCURRENCY,
    DEFINITIONS,
    check_in_store,
    checked,
    definition_of,
    found_in,
    in_store,
    read,
    spoken,
)
from headrace.values.names import check_name, check_queue, read_number

if TYPE_CHECKING:
    from headrace.store import Store

LIMIT = "how many jobs of a queue run at once at most"


@click.command("settings")
@click.argument("name", required=False)
@click.argument("value", required=False)
@store_options
@json_option
@click.option("--queue", help="For this queue alone.")
@click.option("--unset", is_flag=True, help="Go back to the default.")
def settings_command(
    name: str | None,
    value: str | None,
    store: str | None,
    app_path: str | None,
    as_json: bool,
    queue: str | None,
    unset: bool,
) -> None:
    """Show and change what all workers of the store go by.

    They are kept in the store, and hold for all who use it, from now on. Workers read session-timeout when they start.

    \b
    Examples:
      headrace settings
      headrace settings jobs-history '3 days'
      headrace settings session-timeout 60s --queue reports
      headrace settings max-concurrency 4 --queue mail
      headrace settings jobs-history --unset
    """
    if name is None and queue is not None:
        raise click.UsageError("Which setting of this queue? There is session-timeout, and max-concurrency.")
    if unset and (name is None or value is not None):
        raise click.UsageError("Say which one to unset, without a value: headrace settings NAME --unset")
    with existing_app(store, app_path) as found_app:
        opened = found_app.store
        if value is not None or unset:
            assert name is not None
            _change(opened, name, queue, value)
        found = found_in(opened)
        entries = _all(opened, found)
        if name is not None:
            check_in_store(opened, name)
    if name is not None:
        wanted = name if queue is None else f"{name}:{queue}"
        entries = [entry for entry in entries if entry["name"] == wanted] or [_entry(wanted, found)]
    if as_json:
        show_json({"settings": entries})
        return
    rows = [(entry["name"], entry["text"], "" if entry["set"] else "default", entry["meaning"]) for entry in entries]
    show_table(("name", "value", "", "meaning"), rows, whole="name value", folds="meaning")


def _change(store: Store, name: str, queue: str | None, value: str | None) -> None:
    if name == CONCURRENCY:
        if queue is None:
            raise click.UsageError(f"{CONCURRENCY} is for one queue: add --queue.")
        number = None if value is None else read_number(CONCURRENCY, value)
        name_of_one = check_name("queue", queue) if number is None else check_queue(queue)
        store.run(facet(store, Queues).limit(name_of_one, number))
        return
    full = name if queue is None else f"{name}:{check_name('queue', queue)}"
    changes = checked({full: None if value is None else read(full, value)})
    store.run(facet(store, Settings).set_settings(changes))


def _all(store: Store, found: dict[str, int]) -> list[dict[str, Any]]:
    """All there is to set, those of queues included that have been."""
    names = sorted({*in_store(store), *found}, key=lambda name: (list(DEFINITIONS).index(name.partition(":")[0]), name))
    entries = [_entry(name, found) for name in names]
    if Facet.QUEUES in store.facets:
        limits = store.run(facet(store, Queues).controls())
        entries += [_limit(f"{CONCURRENCY}:{c.queue}", c.limit) for c in limits if c.limit is not None]
    return entries


def _entry(name: str, found: dict[str, int]) -> dict[str, Any]:
    """A setting as it holds now. The default for one queue is what holds for all."""
    base, _, queue = name.partition(":")
    if base == CONCURRENCY:
        return _limit(name, None)
    definition = definition_of(name)
    default = found.get(base, definition.default) if queue else definition.default
    effective = found.get(name, default)
    return {
        "name": name,
        "value": effective,
        "unit": "ms" if definition.duration else "bytes" if definition.size else None,
        "set": name in found,
        "default": default,
        "text": spoken(definition, effective),
        "meaning": definition.meaning,
    }


def _limit(name: str, value: int | None) -> dict[str, Any]:
    text = "no limit" if value is None else f"{value:,}"
    return {
        "name": name, "value": value, "unit": None, "set": value is not None, "default": None, "text": text,
        "meaning": LIMIT,
    }  # fmt: skip
