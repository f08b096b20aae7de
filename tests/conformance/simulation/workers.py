"""What workers do: they send a request until it is answered, and remember what they heard."""

from __future__ import annotations

from typing import Any

from headrace.records import Charge, ExchangeReply, Kind, SessionInfo, State, Verdict
from headrace.store.contract import Reported

from .actors import Held, Request, Worker
from .audit import check
from .requests import next_request
from .scene import LARGE, PATTERNS, QUEUES, TIMEOUTS
from .words import Refused
from .world import World

REPORTED = {
    Reported.OK: "a report was recorded",
    Reported.LOST: "a report of a lost lease was refused",
    Reported.CHANGED: "a run met data that others had changed",
}


def spawn(world: World) -> Worker:
    world.sessions_made += 1
    name = f"w{world.sessions_made}"
    info = SessionInfo(
        id=f"session {name}",
        name=name,
        queues=world.choose.one((QUEUES, QUEUES, QUEUES[:2], QUEUES[1:], *(PATTERNS if world.together else ()))),
        tasks=("t",),
        timeout=world.choose.one(TIMEOUTS),
    )
    worker = Worker(info)
    world.workers.append(worker)
    return worker


def work(world: World) -> None:
    """A worker makes its next request, or repeats the one whose reply it has not seen."""
    able = [worker for worker in world.workers if not (worker.dead or worker.frozen)]
    able.sort(key=lambda worker: -len(worker.held))
    index = world.choose.pick(10)
    newcomer = not able or (index == 9 and len(able) < 4)
    worker = spawn(world) if newcomer else able[index % len(able)]
    if worker.pending is None:
        worker.pending = next_request(world, worker)
    elif worker.pending.name in ("exchange", "report"):
        world.sometimes("an exchange was repeated after its reply was lost")
    request = worker.pending
    fate = world.choose.weighted("reply", (8, 2, 1, 1))
    if fate == 2:
        world.say(f"{request.words}  ->  (on its way)")
        world.late.append(request)
        return
    again = request.times_run > 0
    answers = world.ask(request)
    world.sent.append(request)
    if fate == 1:
        world.words[-1] += " (reply lost)"
        return
    if fate == 3:
        answers = world.ask(request)
        again = True
    worker.pending = None
    _hear(world, worker, request, answers, again)


def _hear(world: World, worker: Worker, request: Request, answers: tuple[Any, Any], again: bool) -> None:
    """The worker learns the answer."""
    answer = answers[0]
    if isinstance(answer, Refused):
        check(answer.why == "SessionGone", f"the newest {request.name} of a session was refused", answer)
        if worker.was_frozen:
            world.sometimes("a zombie was told that its session is gone")
        worker.dead = True
        reborn = spawn(world)  # the same process goes on under a new name, and remembers
        reborn.old = worker.held + worker.old
        return
    if worker.was_frozen:
        world.sometimes("a zombie came back in time")
        worker.was_frozen = False
    if request.name == "open":
        worker.opened = True
    elif request.name == "exchange":
        hear_turn(world, worker, request, answers, again)
    elif request.name == "report":
        for recorded in answer:
            world.sometimes(REPORTED[recorded])
    elif request.name == "renew":
        check(not answer.strays, "a session held what its worker did not know", answer)
        for held in request.about:
            held.started = True
        if answer.lost:
            world.sometimes("renewing told of a loss")
            for held in [held for held in worker.held if held.id in answer.lost]:
                worker.held.remove(held)
                worker.old.append(held)
        if answer.cancelled:
            world.sometimes("renewing told of a cancellation")
        if answer.data:
            world.sometimes("renewing told of data from outside")


def hear_turn(
    world: World, worker: Worker, request: Request, answers: tuple[ExchangeReply, ExchangeReply], again: bool
) -> None:
    outcomes, started = request.about
    turn = answers[0]
    for held in started:
        held.started = True
    for (held, fields), verdict in zip(outcomes, turn.verdicts, strict=True):
        if verdict is Verdict.OK:
            check(held.run not in world.settled, "I6: settled twice", held)
            world.settled.add(held.run)
            _mark_outcome(world, held, fields)
        elif verdict is Verdict.CHANGED:
            world.sometimes("a run met data that others had changed")
            continue  # it still has the lease, and comes again
        elif verdict is Verdict.ALREADY:
            world.sometimes("a settle had been recorded already")
        else:
            world.sometimes("a settle was refused as stale")
        if held in worker.held:
            worker.held.remove(held)
            worker.old.append(held)
    if again and turn.leases:
        world.sometimes("a repeated take gave leases again")
    models = {lease.id: lease for lease in answers[1].leases}
    for lease in turn.leases:
        job = (lease.id, world.audit.lives[lease.id])
        check(lease.token > world.tokens.get(job, 0), "I4: a token was handed out twice", lease)
        in_lane = world.jobs[lease.id].lane is not None if lease.id in world.jobs else False
        check(lease.due <= world.latest or in_lane, "I7: handed out before it was due", lease)
        world.tokens[job] = lease.token
        if lease.spare:
            world.sometimes("a spare lease was handed out")
        if lease.due > lease.created:
            world.sometimes("a scheduled job was handed out")
        worker.held.append(Held((lease, models[lease.id]), world.clock.steady(), not lease.spare, (*job, lease.token)))


def complete(world: World) -> None:
    """The task of a run completes it, ahead of its end: whatever becomes of the run, the job is done."""
    leases = [held for worker in world.workers for held in worker.held + worker.old[-2:]]
    if not world.transactional or not leases:
        return
    held, result = world.choose.one(leases), world.choose.one((b"completed", None, LARGE))

    def build(side: int, store: Any) -> Any:
        lease = held.leases[side]
        return store.complete((lease.ref, lease.token, lease.id), result)

    answer, _ = world.ask(Request("complete", f"{held} is completed", build))
    world.sometimes("a run was completed" if answer else "a run that was lost or completed could not be completed")
    if answer:
        world.completed.add(held.run)


def _mark_outcome(world: World, held: Held, fields: dict[str, Any]) -> None:
    job = world.jobs.get(held.id)
    if held.run in world.completed:
        check(job is not None and job.state is State.DONE, "I21: completed, and not done", job)
        world.sometimes("a completed run was settled")
        return
    if fields["kind"] is Kind.MOVED and job:
        world.sometimes("a job was moved")
    if fields["kind"] is Kind.WAITING and job and job.state is State.BLOCKED:
        world.sometimes("a job waited for its children")
    if fields.get("charge") is Charge.DEFERRAL:
        world.sometimes("a job was deferred")
    if fields["kind"] is Kind.DONE and held.id in world.cancel_asked:
        world.sometimes("a cancelling job was done anyway")
