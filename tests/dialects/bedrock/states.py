"""Short ways to say what state jobs are in."""

from __future__ import annotations

from typing import Any

from .harness import Wire


def state_of(wire: Wire, job_id: int) -> str:
    """A job's state; empty when it is gone."""
    reply = wire.ask("QueryJob", jobID=job_id)
    return reply.json["state"] if reply.code == 200 else ""


def states(wire: Wire, *ids: int) -> list[str]:
    return [state_of(wire, job_id) for job_id in ids]


def column(wire: Wire, name: str, job_id: int) -> Any:
    """One column of a job's row."""
    return wire.ask("Query", query=f"SELECT {name} FROM jobs WHERE jobID = {job_id};").json[0][0]


def create(wire: Wire, name: str = "job", **parameters: Any) -> int:
    """A new job's id."""
    reply = wire.ask("CreateJob", name=name, **parameters)
    assert reply.status == "200 OK", reply
    job_id: int = reply.json["jobID"]
    return job_id


def running(wire: Wire, name: str = "job", **parameters: Any) -> int:
    """A new job that a worker has."""
    job_id = create(wire, name, **parameters)
    got = wire.ask("GetJob", name=name)
    assert got.json["jobID"] == job_id, got
    return job_id


def family(wire: Wire, children: int = 1, **parameters: Any) -> tuple[int, list[int]]:
    """A parent that waits for its children, and the children, queued."""
    parent = running(wire, "parent", **parameters)
    ids = [create(wire, "child", parentJobID=parent) for _ in range(children)]
    assert wire.ask("FinishJob", jobID=parent).status == "200 OK"
    return parent, ids
