"""What the server's settings mean for jobs: for `headrace doctor`, and for the store's durability."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from redis import exceptions as wire

from headrace.store import clocks
from headrace.store.contract import Durability
from headrace.store.redis.driver import Driver
from headrace.store.redis.operation import Reply
from headrace.store.redis.troubles import BROKEN, Replica

_NAMES = ("appendonly", "appendfsync", "maxmemory", "maxmemory-policy")
NEARLY_FULL = 0.9
"""The share of its memory that a server may use before we say so."""


class Settings:
    """The few settings that decide, as far as this user may know them."""

    def __init__(self, driver: Driver) -> None:
        self.config: dict[str, str] = {}
        for name in _NAMES:
            answer = _ask(driver, "CONFIG", "GET", name)
            if answer is None:
                break
            self.config.update(zip(map(bytes.decode, answer[::2]), map(bytes.decode, answer[1::2]), strict=True))
        self.info: dict[str, str] = {}
        for section in ("persistence", "memory", "server", "stats"):
            lines = (line.partition(":") for line in (_ask(driver, "INFO", section) or b"").decode().splitlines())
            self.info.update((name, value) for name, colon, value in lines if colon)
        self.ahead = _ahead(driver)
        self.deaf = _ask(driver, "PUBLISH", driver.keys.wake(""), "") is None

    @property
    def appends(self) -> bool | None:
        """Whether all writes are kept in a file. None: this user may not know."""
        if "appendonly" in self.config:
            return self.config["appendonly"] == "yes"
        return self.info["aof_enabled"] == "1" if "aof_enabled" in self.info else None

    @property
    def policy(self) -> str:
        return self.config.get("maxmemory-policy") or self.info.get("maxmemory_policy", "")

    @property
    def fullness(self) -> float:
        """The share of its memory that the server uses; 0 where it has no bound, or does not tell."""
        bound = int(self.config.get("maxmemory") or self.info.get("maxmemory", "0"))
        used = int(self.info.get("used_memory", "0")) - int(self.info.get("mem_not_counted_for_evict", "0"))
        return used / bound if bound else 0.0

    @property
    def durability(self) -> Durability:
        if self.appends is None:
            return Durability.UNKNOWN
        if not self.appends:
            return Durability.NONE
        sync = self.config.get("appendfsync", "everysec")
        return Durability.HOST if sync == "always" else Durability.PROCESS


def durability(driver: Driver) -> Durability:
    """What an acknowledged job survives on this server."""
    return _settings(driver).durability


def advice(driver: Driver, *, jobs_expire: bool) -> list[str]:
    """Sentences for an operator; none if there is nothing to say. `jobs_expire`: jobs are keys with a time to live."""
    settings = _settings(driver)
    # What a policy with this name deletes has a time to live.
    evicts = settings.policy not in ("", "noeviction") and (jobs_expire or not settings.policy.startswith("volatile-"))
    found = []
    if settings.appends is None:
        found.append(
            "What jobs survive is unknown: this user may run neither CONFIG GET nor INFO. Allow one of them "
            "(ACL SETUSER ... +info), or ask whoever runs the server about appendonly and maxmemory-policy."
        )
    elif not settings.appends:
        found.append(
            "Persistence is off (appendonly no): jobs are lost when the server stops. Set appendonly yes, "
            "and appendfsync everysec or always."
        )
    elif settings.config.get("appendfsync") == "no":
        found.append(
            "appendfsync is no: jobs survive the server's death, but many seconds of them are lost with the machine."
        )
    if evicts:
        found.append(
            f"maxmemory-policy is {settings.policy}: a server short of memory deletes jobs. Set it to noeviction."
        )
    elif settings.fullness >= NEARLY_FULL:
        found.append(
            f"The server uses {settings.fullness:.0%} of its maxmemory; at 100% it refuses new jobs. Raise maxmemory, "
            "or keep fewer jobs (headrace purge)."
        )
    if int(settings.info.get("evicted_keys", "0")) > 0 and (evicts or not settings.policy.startswith("volatile-")):
        found.append(
            f"The server has evicted {settings.info['evicted_keys']} keys since it started: jobs may be missing."
        )
    found += clocks.advice(settings.ahead)
    if settings.deaf:
        found.append(
            "This user may not publish and subscribe: workers ask for work once a second instead of being woken. "
            f"Allow the channels of the namespace (ACL SETUSER ... &{driver.keys.prefix}*)."
        )
    version = settings.info.get("redis_version", "")
    if version and tuple(map(int, version.split(".")[:2])) < (6, 2):
        found.append(f"Redis {version} is too old: headrace needs 6.2 or newer.")
    return found


def purged_early(driver: Driver) -> list[str]:
    """Whether failed jobs were purged before their age, because ended jobs took too much memory."""
    try:
        number, at, bound = driver.command(
            "HMGET", driver.keys.meta, "purged_early", "purged_early_at", "history_memory"
        )
    except (*BROKEN, Replica, wire.ResponseError) as error:
        raise driver.diagnose(error).error from error
    if number is None or at is None or bound is None:
        return []
    last = datetime.fromtimestamp(int(at) / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    return [
        f"{int(number):,} failed jobs were purged before their age (failed-history), the last ones at {last}: ended "
        f"jobs took more than {int(bound):,} bytes of memory. Raise history-memory (and the server's maxmemory), or "
        "delete failed jobs that nobody needs."
    ]


def _settings(driver: Driver) -> Settings:
    try:
        return Settings(driver)
    except (*BROKEN, Replica, wire.ResponseError) as error:
        raise driver.diagnose(error).error from error


def _ask(driver: Driver, *words: str) -> Reply:
    """None: this user may not ask, or nobody may."""
    try:
        return driver.command(*words)
    except wire.NoPermissionError:
        return None
    except wire.ResponseError as error:
        if "unknown command" in str(error):
            return None
        raise


def _ahead(driver: Driver) -> float:
    """By how many seconds the server's clock is ahead of this machine's, at least; below 0: behind."""
    before = time.time()
    answer = _ask(driver, "TIME")
    after = time.time()
    if answer is None:
        return 0.0
    return clocks.ahead(int(answer[0]) + int(answer[1]) / 1e6, before, after)
