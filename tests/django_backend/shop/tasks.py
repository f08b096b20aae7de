"""Tasks of the project."""

from __future__ import annotations

import os
from typing import Any

from django.db import connection

from headrace import Backoff, Fail, current
from headrace.django import task

AT_ONCE = Backoff(first=0)


@task
def add(first: int, second: int = 0) -> int:
    return first + second


@task
async def aadd(first: int, second: int = 0) -> int:
    return first + second


@task
def echo(*args: Any, **kwargs: Any) -> Any:
    return [args, kwargs]


@task(retries=2, backoff=AT_ONCE, takes_context=True)
def flaky(context: Any, succeeds_at: int) -> int:
    if context.attempt < succeeds_at:
        raise ValueError(f"attempt {context.attempt}")
    return int(context.attempt)


@task(retries=2, backoff=AT_ONCE, takes_context=True)
async def aflaky(context: Any, succeeds_at: int) -> int:
    if context.attempt < succeeds_at:
        raise ValueError(f"attempt {context.attempt}")
    return int(context.attempt)


@task(retries=5)
def refuse() -> None:
    raise Fail("no")


@task(retries=5)
def unfit() -> Any:
    return object()


@task(retries=5)
def endless() -> float:
    return float("nan")


@task(lane="{tenant}", limit=1, queue_name="mail", priority=7, tags=["mail"])
def send(tenant: str, subject: str = "hello") -> str:
    return f"{tenant}: {subject}"


@task(unique=True)
def once(number: int, kind: str = "a") -> int:
    return number


@task(isolate=True)
def isolated() -> int:
    return os.getpid()


@task
def count_orders() -> list[Any]:
    from shop.models import Order

    return [Order.objects.count(), connection.vendor, current().id]


@task
async def acount_orders() -> int:
    from shop.models import Order

    return await Order.objects.acount()
