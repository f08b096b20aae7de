"""What the jobs before a job have returned: requests that it takes the job to ask, for few and for many."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

from bench.growth import row
from bench.tools import Report
from headrace import Headrace, current
from store.redis.servers import Server

FEW, MANY = 10, 3_000


def requests_for(url: str, parents: int) -> int:
    """How many requests `current().results()` sends in a job that comes after so many."""
    app, sent = Headrace(url), list[object]()

    @app.task(name="parent")
    def parent(number: int) -> int:
        return number

    @app.task(name="child")
    def child() -> int:
        with counted(app.store, sent):
            return sum(current().results())

    jobs = app.enqueue_many([parent.call(number) for number in range(parents)])
    last = child.using(after=jobs).enqueue()
    app.worker().run_until_empty()
    assert last.result() == sum(range(parents))
    app.close()
    return len(sent)


@contextmanager
def counted(store: Any, sent: list[object]) -> Iterator[None]:
    """Of this thread: others look after the worker meanwhile."""
    run, here = store.run, get_ident()

    def noted(operation: object) -> object:
        if get_ident() == here:
            sent.append(operation)
        return run(operation)

    store.run = noted
    try:
        yield
    finally:
        store.run = run


@row(f"results of {FEW} and {MANY:,} jobs before")
def results(report: Report) -> None:
    server = Server()
    try:
        for store, url in (("SQLite", "sqlite:///:memory:"), ("Redis", f"{server.url}?ns=results")):
            report.add(f"{store}: requests for {FEW} results", requests_for(url, FEW), "", 1, at_most=True)
            report.add(f"{store}: requests for {MANY:,} results", requests_for(url, MANY), "", 3, at_most=True)
    finally:
        server.close()
