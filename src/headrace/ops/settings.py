"""What all workers of a store share: look at it, change it. What there is to set: `headrace.store.settings`."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from headrace.errors import ConfigurationError
from headrace.ops import audit
from headrace.ops.forms import forms
from headrace.ops.look import controls_course
from headrace.store.courses import Course, arun_course, run_course
from headrace.store.facets import QueueControl, Queues, Settings, facet
from headrace.store.settings import (
    CONCURRENCY,
    DEFINITIONS,
    Definition,
    check_in_store,
    checked,
    definition_of,
    finding,
    found_in,
    in_store,
    read,
    spoken,
)
from headrace.values.durations import Duration
from headrace.values.names import check_name, read_number

if TYPE_CHECKING:
    from headrace.app import Headrace

LIMIT = "how many jobs of a queue run at once at most"


class Setting(Struct, frozen=True):
    """A setting as it holds now."""

    name: str
    """`session-timeout:mail` is that of a queue."""
    value: int | None
    unit: str | None
    """Of value and default: ms, bytes, or None for a number of things."""
    set: bool
    """False: it is the default."""
    default: int | None
    text: str
    """The value in words."""
    meaning: str


def settings_course(app: Headrace) -> Course[list[Setting]]:
    """All there is to set, those of queues included that have been."""
    found = yield from finding(app.store)
    limits = (yield from controls_course(app.store)).values()
    bases = list(DEFINITIONS)
    names = sorted({*in_store(app.store), *found}, key=lambda name: (bases.index(name.partition(":")[0]), name))
    return [
        *(_setting(name, found) for name in names),
        *(_limit(f"{CONCURRENCY}:{c.queue}", c.limit) for c in limits if c.limit is not None),
    ]


settings, asettings = forms(settings_course)


def setting_course(app: Headrace, name: str) -> Course[Setting]:
    """One of them, by name."""
    check_in_store(app.store, name)
    every = yield from settings_course(app)
    found = {setting.name: setting.value for setting in every if setting.set and setting.value is not None}
    return next((setting for setting in every if setting.name == name), None) or _setting(name, found)


setting, asetting = forms(setting_course)


def change_course(app: Headrace, name: str, value: Any) -> Course[None]:
    """Set one of them; None: back to the default. Text is read, as in "3 days"."""
    base, _, queue = name.partition(":")
    before = yield from setting_course(app, name)
    if base == CONCURRENCY:
        limit = read_number(CONCURRENCY, value) if isinstance(value, str) else value
        yield app.queue(_queue_of(name, queue)).limiting(limit)
    else:
        changes = checked({name: None if value is None else read(name, value)})
        yield facet(app.store, Settings).set_settings(changes)
    after = yield from setting_course(app, name)
    yield from audit.note(app.store, "set", f"{name}: from {_noted(before)} to {_noted(after)}")


change, achange = forms(change_course)


def _noted(setting: Setting) -> str:
    return setting.text if setting.set else f"the default, {setting.text}"


def _setting(name: str, found: dict[str, int]) -> Setting:
    """A setting as it holds now. The default for one queue is what holds for all."""
    base, _, queue = name.partition(":")
    if base == CONCURRENCY:
        return _limit(name, None)
    definition = definition_of(name)
    default = found.get(base, definition.default) if queue else definition.default
    value = found.get(name, default)
    unit = "ms" if definition.duration else "bytes" if definition.size else None
    return Setting(name, value, unit, name in found, default, spoken(definition, value), definition.meaning)


def _limit(name: str, value: int | None) -> Setting:
    text = "no limit" if value is None else f"{value:,}"
    return Setting(name, value, None, value is not None, None, text, LIMIT)


class AppSettings(MutableMapping[str, "timedelta | int | None"]):
    """The settings of an app's store: `app.settings`. Durations are timedeltas; `del` goes back to the default.

    >>> from headrace import Headrace
    >>> app = Headrace("sqlite:///:memory:")
    >>> app.settings["jobs-history"]
    datetime.timedelta(days=7)
    >>> app.settings["jobs-history"] = "12 hours"
    >>> app.settings["session-timeout:mail"] = 30
    >>> app.settings.changed()
    {'jobs-history': datetime.timedelta(seconds=43200), 'session-timeout:mail': datetime.timedelta(seconds=30)}
    >>> del app.settings["jobs-history"]
    """

    def __init__(self, app: Headrace) -> None:
        self._app = app

    def __getitem__(self, name: str) -> timedelta | int | None:
        return run_course(self._app.store, self._getting(name))

    async def aget(self, name: str) -> timedelta | int | None:
        """What `app.settings[name]` gives, from async code."""
        return await arun_course(self._app.store, self._getting(name))

    def _getting(self, name: str) -> Course[timedelta | int | None]:
        store = self._app.store
        base, _, queue = name.partition(":")
        if base == CONCURRENCY:
            wanted = _queue_of(name, queue)
            controls: list[QueueControl] = yield facet(store, Queues).controls()
            return next((control.limit for control in controls if control.queue == wanted), None)
        definition = definition_of(name)
        check_in_store(store, name)
        found = yield from finding(store)
        return _shown(definition, found.get(name, found.get(base, definition.default)))

    def __setitem__(self, name: str, value: Duration | int | None) -> None:
        self._app._create_store()
        change(self._app, name, value)

    async def aset(self, name: str, value: Duration | int | None) -> None:
        """What `app.settings[name] = value` does, from async code; None goes back to the default."""
        await self._app._acreate_store()
        await achange(self._app, name, value)

    def __delitem__(self, name: str) -> None:
        self[name] = None

    def __iter__(self) -> Iterator[str]:
        yield from in_store(self._app.store)

    def __len__(self) -> int:
        return len(in_store(self._app.store))

    def changed(self) -> dict[str, timedelta | int | None]:
        """Only what somebody has set, by name."""
        return _all_shown(found_in(self._app.store))

    async def achanged(self) -> dict[str, timedelta | int | None]:
        """The same, from async code."""
        store = self._app.store
        return _all_shown(await arun_course(store, finding(store)))


def _all_shown(found: dict[str, int]) -> dict[str, timedelta | int | None]:
    return {name: _shown(definition_of(name), found[name]) for name in sorted(found)}


def _queue_of(name: str, queue: str) -> str:
    if not queue:
        raise ConfigurationError(f"{CONCURRENCY} is set for a queue: write '{CONCURRENCY}:mail' for {name!r}.")
    return check_name("queue", queue)


def _shown(definition: Definition, value: int | None) -> timedelta | int | None:
    return timedelta(milliseconds=value) if definition.duration and value is not None else value
