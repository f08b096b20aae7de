"""What producers do: new jobs, and puts that are repeated when a reply was lost."""

from __future__ import annotations

from typing import Any

from headrace.records import Expiry, IfFailed, NewJob, Snapshot, State
from headrace.store.contract import Facet

from .actors import Request
from .scene import CHANGING, KEYS, LANES, LARGE, QUEUES, TAGS
from .words import Refused, job_in_words
from .world import World


def put(world: World) -> None:
    if world.unanswered_puts and world.choose.pick(2) == 0:
        request = world.unanswered_puts.pop(0)
        world.sometimes("a put was repeated after its reply was lost")
    else:
        jobs = [_new_job(world) for _ in range(world.choose.one((1, 2, 3, 4)))]
        words = f"put {', '.join(map(job_in_words, jobs))}"
        request = Request("put", words, lambda _, store: store.put(jobs), jobs)
    known = dict(world.jobs)
    answer, _ = world.ask(request)
    world.sent.append(request)
    if world.choose.weighted("reply to put", (6, 1)) == 1:
        world.words[-1] += " (reply lost)"
        world.unanswered_puts.append(request)
    _mark_put(world, request.about, answer, known)


def _mark_put(world: World, jobs: list[NewJob], answer: Any, known: dict[str, Snapshot]) -> None:
    if isinstance(answer, Refused):
        why = {
            "NoWorkers": "a put was refused for want of a worker",
            "DependencyCycle": "a cycle was refused",
            "ConfigurationError": "a lane was refused",
        }
        world.sometimes(why[answer.why])
        return
    for new, put in zip(jobs, answer, strict=True):
        job = world.jobs.get(new.id)
        if new.after and job and job.state is State.BLOCKED:
            world.sometimes("a job waited for another")
        elif new.lane and job and job.state is State.BLOCKED:
            world.sometimes("a job waited for its turn")
        if new.lane and job and job.state is State.SCHEDULED and new.delay is None and new.run_at is None:
            world.sometimes("a rate put a start off")
        holders = [job for job in known.values() if new.unique_key and job.unique_key == new.unique_key]
        if not put.created:
            world.sometimes("a put found its id taken" if put.id == new.id else "a put found its key taken")
        elif any(not job.state.final for job in holders):
            world.sometimes("a put replaced a waiting job")
        elif holders:
            world.sometimes("a put with a finished job's key was created")


def _new_job(world: World) -> NewJob:
    choose = world.choose
    world.jobs_made += 1
    job_id = f"j{world.jobs_made}"
    if world.ids and choose.rarely():
        job_id = choose.one(world.ids)
    elif job_id not in world.audit.bodies:
        world.ids.append(job_id)
    body = b"body %d" % world.jobs_made
    if choose.rarely():
        body = LARGE + body
    world.audit.bodies.setdefault(job_id, set()).add(body)
    when = choose.weighted("due", (5, 2, 1))
    unique = choose.weighted("unique", (4, 1)) == 1
    return NewJob(
        **_ties(world, job_id),
        id=job_id,
        task=choose.one(("t", "t", "t2")),
        body=body,
        queue=choose.one(QUEUES),
        priority=choose.one((0, 0, 0, 5, -1)),
        delay=choose.one((1_000, 1, 20_000)) if when == 1 else None,
        run_at=world.clock.now() + choose.one((0, 5_000, -5_000)) if when == 2 else None,
        max_crashes=choose.one((3, 1, 2)),
        unique_key=choose.one(KEYS) if unique else None,
        unique_for=choose.one((None, 5_000, 60_000)) if unique else None,
        replace=unique and choose.pick(3) == 2,
        require_worker=choose.rarely() and choose.pick(3) == 2,
        tags=choose.one(TAGS) if choose.rarely() else (),
        expires=_expiry(world) if choose.rarely() else None,
        nonce=choose.one(("1", "2")) if choose.rarely() and Facet.CHOSEN_IDS in world.store.facets else None,
    )


def _expiry(world: World) -> Expiry | None:
    if Facet.EXPIRY not in world.store.facets:
        return None
    if world.choose.pick(3) == 0:
        return Expiry(at=world.clock.now() + world.choose.one((5_000, 0, -1)))
    return Expiry(after=world.choose.one((1_000, 0, 10_000)))


def _ties(world: World, job_id: str) -> dict[str, Any]:
    """What ties a new job to others, if anything."""
    if not world.together:
        return {}
    choose = world.choose
    ties: dict[str, Any] = {}
    if choose.weighted("lane", (3, 1)) == 1:
        ties["lane"] = choose.one(CHANGING) if choose.rarely() else choose.one(LANES)
    in_order = "lane" in ties and ties["lane"].sequence
    if choose.weighted("after", (3, 1)) == 1 and (not in_order or choose.rarely()):
        others = [i for i in world.some_ids() if i != job_id or choose.rarely()]
        ties |= {"after": tuple(others), "if_failed": choose.one(tuple(IfFailed))}
    return ties
