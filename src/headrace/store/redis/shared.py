"""What all stores on a Redis server have in common: how they run their operations, and what the server promises."""

from __future__ import annotations

from functools import cached_property
from typing import TypeVar, cast

from headrace.store.contract import Durability, Guard, NoGuard, Operation
from headrace.store.redis import doctor
from headrace.store.redis.driver import Driver
from headrace.store.redis.layout import PUT_AT_ONCE
from headrace.store.redis.operation import BATCH, Script, Steps
from headrace.store.urls import HiddenUrl

T = TypeVar("T")


class OnRedis:
    """A store whose operations are scripts."""

    url = HiddenUrl()
    driver: Driver
    leases_in_jobs = False
    in_process = False
    batch = BATCH
    put_at_once: int | None = PUT_AT_ONCE
    jobs_expire = False
    """Whether the store's jobs are keys with a time to live, as servers with a policy `volatile-*` delete."""

    def run(self, operation: Operation[T]) -> T:
        return self.driver.run(cast("Script[T] | Steps[T]", operation))

    async def arun(self, operation: Operation[T]) -> T:
        return await self.driver.arun(cast("Script[T] | Steps[T]", operation))

    def close(self) -> None:
        self.driver.close()

    @cached_property
    def durability(self) -> Durability:
        """What the server's own settings promise. Asked once."""
        return doctor.durability(self.driver)

    def advice(self) -> list[str]:
        """What an operator should know about this server, in sentences; none if all is well."""
        return doctor.advice(self.driver, jobs_expire=self.jobs_expire)

    def guard(self, session: str) -> Guard:
        return NoGuard()
