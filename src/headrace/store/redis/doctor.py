"""What the server's settings mean for jobs: for `headrace doctor`, and for the store's durability."""

from __future__ import annotations

from redis import exceptions as wire

from headrace.store.contract import Durability
from headrace.store.redis.driver import Driver
from headrace.store.redis.troubles import BROKEN, Replica

_NAMES = ("appendonly", "appendfsync", "maxmemory", "maxmemory-policy")


class Settings:
    """The few settings that decide; what the server will not tell is None."""

    def __init__(self, driver: Driver) -> None:
        self.told: dict[str, str] = {}
        self.forbidden = False
        for name in _NAMES:
            try:
                answer = driver.command("CONFIG", "GET", name)
            except wire.ResponseError:
                self.forbidden = True
                break
            self.told.update(zip(map(_text, answer[::2]), map(_text, answer[1::2]), strict=True))
        self.deaf = False
        try:
            driver.command("PUBLISH", driver.keys.wake(""), "")
        except wire.NoPermissionError:
            self.deaf = True
        self.info: dict[str, str] = {}
        for section in ("persistence", "memory", "server", "stats"):
            try:
                text = _text(driver.command("INFO", section))
            except wire.ResponseError:
                continue
            lines = (line.partition(":") for line in text.splitlines())
            self.info.update((name, value) for name, colon, value in lines if colon)

    @property
    def appends(self) -> bool:
        return self.told.get("appendonly", "yes" if self.info.get("aof_enabled") == "1" else "no") == "yes"

    @property
    def policy(self) -> str:
        return self.told.get("maxmemory-policy") or self.info.get("maxmemory_policy", "")

    @property
    def durability(self) -> Durability:
        if not self.appends:
            return Durability.NONE
        sync = self.told.get("appendfsync", "everysec")
        return Durability.HOST if sync == "always" else Durability.PROCESS


def durability(driver: Driver) -> Durability:
    """What an acknowledged job survives on this server."""
    try:
        return Settings(driver).durability
    except (*BROKEN, Replica) as error:
        raise driver.diagnose(error).error from error


def advice(driver: Driver) -> list[str]:
    """Sentences for an operator; none if there is nothing to say."""
    try:
        settings = Settings(driver)
    except (*BROKEN, Replica) as error:
        raise driver.diagnose(error).error from error
    found = []
    if not settings.appends:
        found.append(
            "Persistence is off (appendonly no): jobs are lost when the server stops. Set appendonly yes, "
            "and appendfsync everysec or always."
        )
    elif settings.told.get("appendfsync") == "no":
        found.append(
            "appendfsync is no: jobs survive the server's death, but many seconds of them are lost with the machine."
        )
    if settings.policy not in ("", "noeviction"):
        found.append(
            f"maxmemory-policy is {settings.policy}: a server short of memory deletes jobs. Set it to noeviction."
        )
    if int(settings.info.get("evicted_keys", "0")) > 0:
        found.append(
            f"The server has evicted {settings.info['evicted_keys']} keys since it started: jobs may be missing."
        )
    if settings.forbidden:
        found.append("This user may not run CONFIG GET: eviction and durability were judged from INFO alone.")
    if settings.deaf:
        found.append(
            "This user may not publish and subscribe: workers ask for work once a second instead of being told. "
            "Allow the channels of the namespace (ACL SETUSER ... &{ns}:*)."
        )
    version = settings.info.get("redis_version", "")
    if version and tuple(map(int, version.split(".")[:2])) < (6, 2):
        found.append(f"Redis {version} is too old: headrace needs 6.2 or newer.")
    return found


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value
