"""Time passes, and a sweeper tidies up."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.records import State

from .actors import Request
from .audit import check
from .scene import KEEP_DONE, KEEP_FAILED
from .world import World


def sweep(world: World) -> None:
    known = dict(world.jobs)
    swept, _ = world.ask(Request("sweep", "sweep", lambda _, store: store.sweep()))
    check(swept.jobs_purged == len(known.keys() - world.jobs.keys()), "I1: purged, but how many?", swept)
    if swept.sessions_closed:
        world.sometimes("a session expired and was swept")
    if swept.jobs_purged:
        world.sometimes("an ended job was purged")
    if any(job.group == "expired" and not known[job.id].state.final for job in world.jobs.values() if job.id in known):
        world.sometimes("a sweep failed a job that had expired")
    if any(job.group == "crashed" and job.state is State.FAILED for job in world.jobs.values()):
        world.sometimes("a job failed because it crashed too often")


def pass_time(world: World) -> None:
    """To an instant at which something changes, or one millisecond before or after it."""
    waits = sorted({wait for wait in instants(world) if wait > 0})
    if waits and world.choose.pick(4):
        advance(world, max(1, world.choose.one(waits[:6]) + world.choose.one((0, -1, 1))))
    else:
        advance(world, world.choose.one((1, 500, 5_000)))


def instants(world: World) -> Iterable[int]:
    """How long it is until something changes."""
    now, steady = world.clock.now(), world.clock.steady()
    for job in world.model.jobs.values():
        if job.state is State.SCHEDULED:
            yield job.due - now
        if job.finished is not None:
            yield job.finished - now + (KEEP_DONE if job.state is State.DONE else KEEP_FAILED) + 1
        if job.unique_key and job.unique_until is not None:
            yield job.unique_until - now
        if job.expires_at is not None and not job.state.final:
            yield job.expires_at + 1 - now
    for session in world.model._open_sessions():
        if world.model._held(session):
            yield session.seen + session.info.timeout - steady


def advance(world: World, milliseconds: int) -> None:
    world.say(f"{milliseconds:,} ms pass")
    world.clock.advance(milliseconds)
    world.audit.events("after a while")
    world.latest = max(world.latest, world.clock.now())
