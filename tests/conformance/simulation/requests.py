"""What workers ask for: exchanges, reports, renewals, and what became of runs."""

from __future__ import annotations

from typing import Any

from headrace.records import Charge, Kind, Report, Take

from .actors import Held, Request, Worker
from .scene import LARGE, QUEUES
from .world import World


def next_request(world: World, worker: Worker) -> Request:
    if not worker.opened:
        return Request("open", f"{worker.name} opens", lambda _, store: store.open(worker.info))
    kind = world.choose.weighted("request", (6, 3, 6) if world.choose.outside else (6, 1, 1))
    if kind == 1:
        return _renewal(world, worker)
    if kind == 2 and worker.held + worker.old:
        return _report(world, worker)
    return _exchange(world, worker)


def _exchange(world: World, worker: Worker) -> Request:
    choose, info = world.choose, worker.info
    worker.number += 1
    number, steady = worker.number, world.clock.steady()
    outcomes = [(held, _fate_of(world, held)) for held in choose.some([h for h in worker.held if h.started])]
    if worker.old and choose.pick(3) == 2:
        held = worker.old[-1 - choose.pick(min(len(worker.old), 3))]
        outcomes.append((held, _fate_of(world, held)))
    for held, fields in outcomes:
        _compare(world, held, number, fields)
    started = [held for held in worker.held if not held.started][: choose.pick(2)]
    take = None
    if not choose.rarely():
        rotate = choose.pick(len(info.queues))
        queues = info.queues[rotate:] + info.queues[:rotate]
        grace = 500 if number % 4 == 0 else 0
        take = Take(queues, choose.one((1, 2, 3, 0)), choose.one((0, 1, 2)), choose.pick(2) == 1, grace)
    words = f"{worker.name} exchanges #{number}"
    words += "".join(f", {held} {fields['kind'].name}" for held, fields in outcomes)
    if take:
        in_turn = " in turn" if take.round_robin else ""
        words += f", takes {take.slots}+{take.spare} from {','.join(take.queues)}{in_turn}"
        words += f" to start within {take.grace} ms" if take.grace else ""
    if started:
        words += f", started {', '.join(map(str, started))}"

    def build(side: int, store: Any) -> Any:
        return store.exchange(
            info.id,
            number,
            [held.outcome(side, **fields) for held, fields in outcomes],
            take,
            steady=steady,
            started=[held.leases[side].ref for held in started],
        )

    for held, fields in outcomes:
        if fields.get("body") is not None:
            world.audit.bodies[held.id].add(fields["body"])
    return Request("exchange", words, build, (outcomes, started))


def _compare(world: World, held: Held, number: int, said: dict[str, Any]) -> None:
    """Where others change data, most requests of a run say what its data is a change of."""
    if world.updates and number % 4 and said.get("data") is not None:
        said["base"] = held.leases[0].data or b""


def _fate_of(world: World, held: Held) -> dict[str, Any]:
    """What became of a run."""
    choose = world.choose
    if held.leases[0].deferred_since is not None and choose.pick(2) == 0:
        return {"kind": Kind.AGAIN, "charge": Charge.DEFERRAL}  # the task is as unknown as it was
    kinds = [Kind.DONE, Kind.AGAIN, Kind.FAILED, Kind.CRASHED, Kind.MOVED, Kind.RELEASED, Kind.BROKEN]
    kinds += [Kind.WAITING] if world.together else []
    kind = kinds[choose.weighted("outcome", (3, 3, 2, 2, 2, 2, 1, 2)[: len(kinds)])]
    fields: dict[str, Any] = {"kind": kind}
    if kind is Kind.WAITING:
        fields["after"] = world.some_ids()
    if choose.pick(2) == 0:
        fields["began"], fields["ended"] = held.began, world.clock.steady()
    if choose.rarely():
        fields["data"] = choose.one((b"data", b""))
    if kind is Kind.DONE:
        fields["result"] = choose.one((None, b"result", LARGE))
        fields["charge"] = choose.one((Charge.ATTEMPT, Charge.NOTHING))
    if kind in (Kind.FAILED, Kind.BROKEN):
        fields["error"], fields["charge"] = b"error", Charge.ATTEMPT
    if kind is Kind.FAILED:
        fields["group"] = choose.one(("group", "other group"))
    if kind is Kind.CRASHED and choose.pick(2):
        fields["error"] = b"crash"
    if kind is Kind.AGAIN:
        fields["charge"] = choose.one((Charge.ATTEMPT, Charge.DEFERRAL, Charge.NOTHING))
        if choose.pick(2):
            fields["error"], fields["group"] = b"error", "again"
    if kind in (Kind.AGAIN, Kind.MOVED):
        if choose.pick(2):
            fields["delay"] = choose.one((1_000, 1, 20_000))
        elif choose.rarely():
            fields["at"] = world.clock.now() + choose.one((0, 5_000, -5_000))
    if kind is Kind.MOVED:
        fields["queue"] = choose.one(QUEUES)
        if choose.pick(2):
            world.jobs_made += 1
            body = b"moved %d" % world.jobs_made
            fields["task"], fields["body"] = "t2", choose.one((body, LARGE + body))
    if choose.rarely():
        fields["note"] = "note"
    if "error" in fields or "data" in fields:
        fields["account"] = b"account"
    return fields


def _report(world: World, worker: Worker) -> Request:
    worker.number += 1
    number, steady, choose = worker.number, world.clock.steady(), world.choose
    about = [choose.one(worker.held + worker.old) for _ in range(1 + choose.pick(2))]
    said = [
        {
            "progress": choose.one((None, (1.0, 2.0), (2.0, 2.0))),
            "data": choose.one((None, b"reported")),
            "log": choose.one(((), ((steady, "line"), (steady, "another")))),
        }
        for _ in about
    ]
    for held, fields in zip(about, said, strict=True):
        fields["account"] = fields["data"] and b"what it was"
        _compare(world, held, number, fields)

    def build(side: int, store: Any) -> Any:
        leases = [held.leases[side] for held in about]
        reports = [
            Report(ref=lease.ref, token=lease.token, id=lease.id, **fields)
            for lease, fields in zip(leases, said, strict=True)
        ]
        return store.report(worker.info.id, number, reports, steady=steady)

    words = f"{worker.name} reports #{number} on {', '.join(map(str, about))}"
    return Request("report", words, build)


def _renewal(world: World, worker: Worker) -> Request:
    in_hand, number = {held.id for held in worker.held}, worker.number
    named = worker.held + [held for held in worker.old[-2:] if held.id not in in_hand]  # a loss is told by id
    started = [held for held in worker.held if not held.started][: world.choose.pick(2)]

    def build(side: int, store: Any) -> Any:
        leases = [held.leases[side] for held in named]
        return store.renew(
            worker.info.id,
            [(lease.ref, lease.token, lease.id) for lease in leases],
            started=[held.leases[side].ref for held in started],
            complete=number,
        )

    words = f"{worker.name} renews {', '.join(map(str, named))}"
    words += f", started {', '.join(map(str, started))}" if started else ""
    return Request("renew", words, build, started)
