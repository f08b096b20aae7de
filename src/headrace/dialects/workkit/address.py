"""From a URL, or a Redis server and a name, to a schedule: its server, its two keys, and how it is to be treated."""

from __future__ import annotations

from urllib.parse import quote, urlencode

from msgspec import Struct

from headrace.errors import ConfigurationError
from headrace.store.redis.addresses import Place, parse_for
from headrace.store.redis.keys import Keys as RedisKeys
from headrace.store.urls import shown_url
from headrace.values.durations import Duration, milliseconds
from headrace.values.names import check_name

from .times import ORDERS, PUBLISHED

EXAMPLE = "workkit+redis://localhost:6379/0?schedule=app-tasks"
PREFIX = "workkit+"
SHORTEST_LEASE = 2_000


class Keys(RedisKeys):
    """The two keys of a schedule, and the channel on which listeners of ours are woken.

    >>> Keys("app-tasks").known
    ('app-tasks:jobs', 'app-tasks:next')
    """

    def __init__(self, schedule: str) -> None:
        self.prefix = f"{schedule}:"
        self.known = (f"{schedule}:jobs", f"{schedule}:next")
        self.channel = f"{schedule}:wake"

    def expected_type(self, key: str) -> str | None:
        return dict(zip(self.known, ("hash", "zset"), strict=True)).get(key)


class Settings(Struct, frozen=True, kw_only=True):
    """How a schedule is treated, as options of its URL or arguments of `create` say. Durations in milliseconds."""

    schedule: str
    lease: int = 60_000
    repair_after: int | None = None
    modules: tuple[str, ...] = ()
    cron_order: str = PUBLISHED


def parse_url(url: str) -> tuple[Place, Settings]:
    """
    >>> place, settings = parse_url("workkit+redis://example.org/2?schedule=app-tasks&lease=30s")
    >>> place.name, place.options["db"], settings.schedule, settings.lease
    ('Redis at example.org:6379', 2, 'app-tasks', 30000)
    """
    place, options = parse_for("WorkKit", url, EXAMPLE, Settings.__struct_fields__)
    schedule = options.pop("schedule", None)
    if not schedule:
        raise ConfigurationError(f"{shown_url(url)!r} does not say which schedule. Write for example {EXAMPLE}.")
    modules = tuple(filter(None, options.pop("modules", "").split(",")))
    settings = make_settings(schedule, modules=modules, **options)
    if place.kind == "cluster" and not ("{" in schedule and "}" in schedule):
        raise ConfigurationError(
            f"{shown_url(url)!r}: on a cluster the two keys of the schedule {schedule!r} live on different servers. "
            f"A name with braces keeps them together: {{{schedule}}}."
        )
    return place, settings


def make_settings(
    schedule: str,
    *,
    lease: Duration = "60s",
    repair_after: Duration | None = None,
    modules: tuple[str, ...] = (),
    cron_order: str = PUBLISHED,
) -> Settings:
    """What a user said, checked."""
    length = milliseconds(lease, "lease")
    if length < SHORTEST_LEASE:
        raise ConfigurationError(f"lease must be at least 2 seconds, not {lease!r}: it is renewed while a job runs.")
    if cron_order not in ORDERS:
        raise ConfigurationError(f"cron_order is {' or '.join(map(repr, ORDERS))}, not {cron_order!r}.")
    return Settings(
        schedule=check_name("schedule", schedule),
        lease=length,
        repair_after=None if repair_after is None else milliseconds(repair_after, "repair_after"),
        modules=modules,
        cron_order=cron_order,
    )


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:.3f}".rstrip("0").rstrip(".") + "s"


def url_of(redis: str, settings: Settings) -> str:
    """The store URL that says all of this.

    >>> url_of("redis://127.0.0.1:6379/", Settings(schedule="app-tasks", lease=30_000))
    'workkit+redis://127.0.0.1:6379/?schedule=app-tasks&lease=30s'
    >>> url_of("redis://127.0.0.1:6379/", Settings(schedule="app-tasks", repair_after=1_209_600_001))
    'workkit+redis://127.0.0.1:6379/?schedule=app-tasks&repair_after=1209600.001s'
    """
    options = {"schedule": settings.schedule}
    if settings.lease != 60_000:
        options["lease"] = _seconds(settings.lease)
    if settings.repair_after is not None:
        options["repair_after"] = _seconds(settings.repair_after)
    if settings.modules:
        options["modules"] = ",".join(settings.modules)
    if settings.cron_order != PUBLISHED:
        options["cron_order"] = settings.cron_order
    joint = "&" if "?" in redis else "?"
    return f"{PREFIX}{redis}{joint}{urlencode(options, safe='{},', quote_via=quote)}"
