"""From what the script says of a job to the job. Others put jobs, too: one that cannot be read fails, alone."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import Any

from headrace.dialects.qless import Client, Job
from headrace.errors import HeadraceError

log = logging.getLogger("headrace.qless.worker")

GROUP = "broken"
"""Of failures: these jobs."""


class Unreadable(Exception):
    """A job was taken that cannot be run. All that can be done about it has been done."""


def popped(client: Client, queue: str) -> Job | None:
    reply = client("pop", queue, client.worker_name, 1)
    try:
        jobs = json.loads(reply)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"a job of {queue!r} cannot be read, nor its jid: {error}") from error
    return read(client, jobs[0]) if jobs else None


def held_by(client: Client, queues: Sequence[str]) -> list[Job]:
    """The jobs of these queues that are given out to a client's name, as far as they can be read."""
    held = client.workers[client.worker_name]
    jids = [*held["jobs"], *held["stalled"]]
    jobs = []
    for fields in json.loads(client("multiget", *jids)) if jids else ():
        if fields["queue"] in queues:
            try:
                jobs.append(read(client, fields))
            except Unreadable as error:
                log.error("%s", error)
    return jobs


def read(client: Client, fields: dict[str, Any]) -> Job:
    """A job that a client's name holds. If it cannot be read it fails, and `Unreadable` is raised."""
    try:
        for name in ("jid", "klass", "data"):
            fields[name].encode()
        return Job(client, fields)
    except Exception as error:
        jid = fields["jid"]
        why = f"{type(error).__name__}: {error}".encode(errors="backslashreplace").decode()
        if isinstance(error, UnicodeError):
            why = "its jid, klass or data are not UTF-8"
        try:
            client("fail", jid, client.worker_name, GROUP, f"This job could not be read: {why}.")
        except HeadraceError as refusal:
            why += f"; and it could not be failed: {refusal}"
        raise Unreadable(f"job {jid!r} cannot be read: {why}") from error
