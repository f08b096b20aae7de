"""What people do: they change jobs and queues, cancel, delete and revive, tag and track, add to jobs from outside."""

from __future__ import annotations

from conformance.model.records import WAITING
from headrace.records import Expiry, State
from headrace.store.facets import Edit

from .actors import Request
from .scene import LARGE, QUEUES, RULES, TAGS, TASKS
from .words import Refused
from .world import World


def tie(world: World) -> None:
    """Somebody changes jobs that wait, or takes away some that run."""
    if not (world.together and world.ids):
        return
    choose = world.choose
    waiting = [job.id for job in world.jobs.values() if job.state in WAITING]
    running = [job.id for job in world.jobs.values() if job.state is State.RUNNING]
    act = choose.one(("edit", "depend", "take_back"))
    awaited = [job_id for job_id in waiting if any(job_id in job.after for job in world.jobs.values())]
    likely = {"take_back": running, "depend": awaited}.get(act) or waiting
    ids = [choose.one(likely or world.ids), choose.one(world.ids)][: 1 + choose.pick(2)]
    known = dict(world.jobs)
    if act == "edit":
        change = _change(world, ids)
        request = Request(act, f"edit {ids}: {change}", lambda _, store: store.edit(ids, change), ids)
    elif act == "take_back":
        to = choose.one((None, None, *QUEUES))
        request = Request(act, f"take back {ids} to {to}", lambda _, store: store.take_back(ids, to), ids)
    else:
        failed = [job.id for job in world.jobs.values() if job.state in (State.FAILED, State.CANCELLED)]
        add = (world.some_ids, lambda: tuple(failed[:1]), tuple)[choose.pick(3)]()
        remove = tuple(known[ids[0]].after[:1]) if ids[0] in known and choose.pick(2) else ()
        words = f"{ids[0]} depends on {add}, not on {remove}"
        request = Request(act, words, lambda _, store: store.depend(ids[0], add, remove), ids)
    answer, _ = world.ask(request)
    world.sent.append(request)
    if isinstance(answer, Refused):
        world.sometimes("a cycle was refused" if answer.why == "DependencyCycle" else "a lane was refused")
    elif act == "depend" and answer:
        world.sometimes("dependencies were changed")
    elif act == "edit" and any(answer):
        world.sometimes("a waiting job was edited")
    elif act == "take_back" and any(answer):
        world.sometimes("a running job was taken back")


def _change(world: World, ids: list[str]) -> Edit:
    choose = world.choose
    when = choose.pick(4)
    body = None
    if choose.rarely():
        world.jobs_made += 1
        body = choose.one((b"", LARGE)) + b"edited %d" % world.jobs_made
        for job_id in ids:
            world.audit.bodies.setdefault(job_id, set()).add(body)
    return Edit(
        queue=choose.one((None, None, *QUEUES)),
        priority=choose.one((None, None, 5)),
        delay=choose.one((0, 1_000)) if when == 1 else None,
        run_at=world.clock.now() + choose.one((-5_000, 5_000)) if when == 2 else None,
        body=body,
        data=b"edited" if choose.rarely() else None,
        expires=Expiry(after=choose.one((1_000, 0))) if choose.rarely() else None,
    )


def govern(world: World) -> None:
    """An operator sets the controls of a queue, or of a lane."""
    if not world.together:
        return
    acts = ("limit", "pause", "resume", "limit", "resume", "set_lane", "set_lane", "clear_lane")
    queue, act = world.choose.one(QUEUES), world.choose.one(acts)
    if act.endswith("lane"):
        _rule(world, queue, act)
        return
    limit = world.choose.one((1, None, 2))
    arguments = {"limit": (queue, limit), "pause": (queue, "me"), "resume": (queue,)}[act]
    words = f"{act} {', '.join(map(str, arguments))}"
    paused, _ = world.ask(Request(act, words, lambda _, store: getattr(store, act)(*arguments)))
    if act == "pause" and paused and any(job.queue == queue for job in world.jobs.values()):
        world.sometimes("a queue was paused with jobs in it")
    jobs = [job for job in world.jobs.values() if job.queue == queue]
    running = sum(job.state is State.RUNNING for job in jobs)
    if act == "limit" and limit and running >= limit and any(job.state is State.READY for job in jobs):
        world.sometimes("a queue's limit held a job back")


def _rule(world: World, queue: str, act: str) -> None:
    key = world.choose.one(("loose", "fair"))
    rule = world.choose.one(RULES) if act == "set_lane" else {}
    words = f"{act} {queue} {key} {rule}"
    world.ask(Request(act, words, lambda _, store: getattr(store, act)(queue, key, **rule)))
    found, _ = world.ask(Request("lane", f"look at lane {key} of {queue}", lambda _, store: store.lane(queue, key)))
    if found is not None and found.rule is not None and found.blocked and act == "set_lane":
        world.sometimes("a rule was set for a lane in which jobs waited")


def block(world: World) -> None:
    """Somebody blocks a task, or lifts a block."""
    if not world.together:
        return
    task, act = world.choose.one(TASKS), world.choose.one(("unblock", "block", "unblock"))
    barred = [job for job in world.model.jobs.values() if job.barred and job.task == task]
    changed, _ = world.ask(Request(act, f"{act} {task}", lambda _, store: getattr(store, act)(task)))
    if act == "unblock" and changed and barred:
        world.sometimes("jobs of a task that was blocked came back")


def add(world: World) -> None:
    """Somebody adds a line to the log of jobs, or changes the data of one."""
    if not (world.together and world.ids):
        return
    choose = world.choose
    running = [job.id for job in world.jobs.values() if job.state is State.RUNNING]
    ids = [choose.one(running or world.ids), choose.one(world.ids)][: 1 + choose.pick(2)]
    job = world.jobs.get(ids[0])
    if choose.pick(3) == 0:
        request = Request("log", f"log to {ids}", lambda _, store: store.log(ids, "from outside"), ids)
    else:
        world.updates += 1
        expected, data = job and job.data if choose.pick(4) else b"other", b"update %d" % world.updates
        words = f"update {ids[0]} from {expected!r}"
        request = Request("update", words, lambda _, store: store.update(ids[0], expected, data), ids)
    answer, _ = world.ask(request)
    world.sent.append(request)
    if request.name == "log" and any(answer):
        world.sometimes("a line was added from outside")
    elif request.name == "update" and answer and job and job.state is State.RUNNING:
        world.sometimes("the data of a running job was changed from outside")


def administer(world: World) -> None:
    if not world.ids:
        return
    act = world.choose.one(("cancel", "revive", "delete", "cancel", "tag", "track"))
    if act in ("tag", "track"):
        _mark(world, act)
        return
    fit = (State.FAILED, State.CANCELLED) if act == "revive" else (State.RUNNING,)
    likely = [job.id for job in world.jobs.values() if job.state in fit]
    pool = likely[:4] if likely and (act == "revive" or world.choose.pick(3) < 2) else world.ids
    ids = [world.choose.one(pool)] + ([world.choose.one(world.ids)] if world.choose.rarely() else [])
    known = dict(world.jobs)
    request = Request(act, f"{act} {', '.join(ids)}", lambda _, store: getattr(store, act)(ids), ids)
    answer, _ = world.ask(request)
    world.sent.append(request)
    for job_id, yes in zip(ids, answer, strict=True):
        job = known.get(job_id)
        if job and job.state is State.RUNNING and act == "cancel":
            world.cancel_asked.add(job_id)
            world.sometimes("a running job was cancelled")
        if job and job.state is State.RUNNING and act == "delete" and yes:
            world.sometimes("a running job was deleted")
        if act == "revive" and yes:
            world.sometimes("a failed or cancelled job was revived")
        if act == "revive" and not yes and job and job.state in (State.FAILED, State.CANCELLED):
            world.sometimes("a revival was refused because of the key")


def _mark(world: World, act: str) -> None:
    ids = [world.choose.one(world.ids), world.choose.one(world.ids)]
    if act == "tag":
        add, remove = world.choose.one(TAGS), world.choose.one(TAGS)
        request = Request(act, f"tag {ids} +{add} -{remove}", lambda _, store: store.tag(ids, add, remove), ids)
    else:
        on = world.choose.pick(3) < 2
        request = Request(act, f"track {ids} {on}", lambda _, store: store.track(ids, on), ids)
    known, _ = world.ask(request)
    world.sent.append(request)
    if any(known):
        world.sometimes("a job was tagged" if act == "tag" else "a job was tracked")
