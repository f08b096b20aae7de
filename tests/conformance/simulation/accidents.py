"""What goes wrong: workers freeze, crash and come back, requests arrive late, the wall clock jumps."""

from __future__ import annotations

from typing import Any

from .actors import Request
from .words import Refused
from .world import World


def freeze(world: World) -> None:
    able = [worker for worker in world.workers if not (worker.dead or worker.frozen)]
    if able:
        worker = world.choose.one(able)
        worker.frozen = worker.was_frozen = True
        world.say(f"{worker.name} freezes")


def thaw(world: World) -> None:
    frozen = [worker for worker in world.workers if worker.frozen and not worker.dead]
    if frozen:
        worker = world.choose.one(frozen)
        worker.frozen = False
        world.say(f"{worker.name} thaws")


def end_session(world: World) -> None:
    """A worker leaves, or has crashed and whoever noticed closes its session."""
    able = [worker for worker in world.workers if not worker.dead and worker.opened]
    if not able:
        return
    worker = world.choose.one(able)
    worker.dead = True
    how = world.choose.pick(4)
    if how == 3:
        world.say(f"{worker.name} crashes, unnoticed")
        return
    entered = [held for held in worker.held if held.started and held not in worker.settling]
    crashed = {0: [], 1: world.choose.some(entered), 2: None}[how]

    def build(side: int, store: Any) -> Any:
        refs = None if crashed is None else [held.leases[side].ref for held in crashed]
        return store.close_session(worker.info.id, crashed=refs)

    guilty = "nobody knows" if crashed is None else ", ".join(map(str, crashed)) or "none"
    request = Request("close_session", f"{worker.name} is closed, crashed: {guilty}", build)
    given_back, _ = world.ask(request)
    world.sent.append(request)
    if given_back and how == 0:
        world.sometimes("a session was closed gracefully with leases")
    if crashed:
        world.sometimes("a session was closed with known crashes")


def deliver_late(world: World) -> None:
    """What was on its way arrives, or something arrives a second time. Nobody waits for the reply."""
    if world.late and world.choose.pick(2) == 0:
        request = world.late.pop(world.choose.pick(len(world.late)))
    elif world.sent:
        request = world.sent[-1 - world.choose.pick(min(len(world.sent), 12))]
    else:
        return
    answer, _ = world.ask(request)
    world.words[-1] += " (arrived late)"
    if answer == Refused("StaleRequest"):
        world.sometimes("a request arrived late and was refused as stale")
    if answer == Refused("SessionGone"):
        world.sometimes("a request arrived late for a session that was gone")


def jump(world: World) -> None:
    by = world.choose.one((-10_000, 10_000, -3_600_000, 3_600_000))
    world.say(f"the wall clock jumps by {by:,} ms")
    world.clock.jump(by)
    world.latest = max(world.latest, world.clock.now())
    if by < 0 and any(worker.held for worker in world.workers):
        world.sometimes("the wall clock was set back with leases out")
