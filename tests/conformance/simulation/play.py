"""A history from its first step to the end, when nothing goes wrong any more."""

from __future__ import annotations

from typing import Any

from conformance.model.events import LISTENS
from headrace.records import Kind, SessionInfo, Take

from .accidents import deliver_late, end_session, freeze, jump, thaw
from .actors import Request, Worker
from .audit import check
from .choosing import Replay
from .people import add, administer, block, govern, tie
from .producers import put
from .scene import KEEP_FAILED, QUEUES, TASKS
from .upkeep import advance, instants, pass_time, sweep
from .workers import complete, hear_turn, spawn, work
from .world import World

ACTS = (
    (work, 20),
    (put, 6),
    (pass_time, 3),
    (deliver_late, 3),
    (administer, 4),
    (sweep, 2),
    (end_session, 2),
    (freeze, 1),
    (thaw, 3),
    (jump, 1),
    (tie, 4),
    (govern, 1),
)
OF_TRANSACTIONS = ((complete, 2),)
"""With a store that can take part in a transaction of its caller."""


def play(world: World) -> None:
    choose = world.choose
    # What is not for this history has its place all the same: a story is replayed in a world that has everything.
    acts = ACTS + OF_TRANSACTIONS * world.transactional + ((block, 2 * choose.blocks), (add, 5 * choose.outside))
    weights = [weight for _, weight in acts]
    while world.choose.step():
        act, _ = acts[world.choose.weighted("act", weights)]
        act(world)
    world.choose = Replay([])  # from here on only the dullest choices: nothing goes wrong any more
    drain(world)


def drain(world: World) -> None:
    """L1: what was put comes to an end. L2: and is purged, and nothing remains."""
    world.say("-- nothing goes wrong any more --")
    for request in world.late:
        world.ask(request)
    world.audit.histories(world.ids)
    if world.together:
        for queue in QUEUES:
            world.ask(Request("limit", f"no limit on {queue}", lambda _, store, q=queue: store.limit(q, None)))
            world.ask(Request("resume", f"resume {queue}", lambda _, store, q=queue: store.resume(q)))
            for key in ("loose", "fair"):
                words = f"clear lane {key} of {queue}"
                world.ask(Request("clear_lane", words, lambda _, store, q=queue, k=key: store.clear_lane(q, k)))
        for task in TASKS:
            world.ask(Request("unblock", f"unblock {task}", lambda _, store, t=task: store.unblock(t)))
    fresh = spawn(world)
    fresh = Worker(SessionInfo(id=fresh.info.id, name=fresh.name, queues=QUEUES, tasks=TASKS))
    world.ask(Request("open", f"{fresh.name} opens", lambda _, store: store.open(fresh.info)))
    take = Take(QUEUES, 50)
    for _ in range(1_000):
        if all(job.state.final for job in world.jobs.values()):
            break
        sweep(world)
        fresh.number += 1
        done = [(held, {"kind": Kind.DONE}) for held in fresh.held]

        def build(side: int, store: Any, n: int = fresh.number, done: Any = done) -> Any:
            outcomes = [held.outcome(side, **fields) for held, fields in done]
            return store.exchange(fresh.info.id, n, outcomes, take)

        request = Request("exchange", f"{fresh.name} does everything", build, (done, []))
        hear_turn(world, fresh, request, world.ask(request), False)
        if not fresh.held:
            advance(world, max(1, min((wait for wait in instants(world) if wait > 0), default=1)))
    unfinished = [job for job in world.jobs.values() if not job.state.final]
    check(not unfinished, "L1: jobs that do not come to an end", *unfinished)
    world.audit.histories(world.ids)
    last = max((job.finished or 0 for job in world.jobs.values()), default=0)
    last = max([last, *(start for lane in world.model.known_lanes.values() for start in lane.starts)])
    advance(world, max(0, last - world.clock.now()) + KEEP_FAILED + 1)
    sweep(world)
    check(not world.jobs, "L2: jobs that are not purged", *world.jobs)
    world.audit.statistics()
    world.clock.advance(LISTENS)  # and nobody listens any more
    world.store.run(world.store.sweep())
