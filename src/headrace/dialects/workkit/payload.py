"""What stands in `S:jobs`: the canonical text of a job, its id, its arguments, and how foreign texts are read."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from headrace.dialects.base import once_per_task
from headrace.dialects.positions import Positions, decode_by_name
from headrace.errors import ArgumentsError, Unsupported
from headrace.task import Task

from .literals import called, is_literal

LONGEST_SHOWN = 200


class Payload(Struct, frozen=True):
    """A job as its text says. Arguments stay as they were written: whoever runs the job knows their types."""

    cron: str
    job: str
    args: list[Raw] | None = None
    headrace: Raw = Raw()
    """What headrace itself keeps there: what makes a call a job of its own, or a schedule's name and rule."""

    @property
    def arguments(self) -> list[bytes]:
        return [bytes(argument) for argument in self.args or ()]

    @property
    def call(self) -> tuple[str, list[bytes]]:
        """The job that is called, and its arguments: of a function literal those of the call in it."""
        found = called(self.job, self.arguments) if is_literal(self.job) else None
        return (self.job, self.arguments) if found is None else (f"#'{found[0]}", found[1])


_decoder = msgspec.json.Decoder(Payload)


def canonical(job: str, cron: str, args: Sequence[Any], ours: object = None) -> bytes:
    r"""The text that every producer writes for the same job, to the byte. `ours`: what the field `headrace` holds.

    >>> canonical("#'clojure.core/println", "2014 3 *  0/2,3 9-17 * */5", ["Zo\u00eb"]).decode()
    '{"args":["Zo\\u00eb"],"cron":"2014 3 * 0\\/2,3 9-17 * *\\/5","job":"#\'clojure.core\\/println"}'
    """
    payload: dict[str, object] = {"args": list(args), "cron": " ".join(cron.split()), "job": job}
    if ours is not None:
        payload["headrace"] = ours
    try:
        text = json.dumps(payload, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
        json.dumps(payload, ensure_ascii=False).encode()  # half of a surrogate pair is no text: nobody could read it
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentsError(f"{job}: the arguments cannot be written as JSON: {error}.") from None
    # A solidus stands in strings only, so that nothing else is hit.
    return text.replace("/", "\\/").encode()


def job_id(text: bytes) -> str:
    """The SHA-1 of a text.

    >>> job_id(canonical("#'clojure.core/println", "* * * * * * *", ["test"]))
    'b47c4f60e77f631e8045ca999ec215fa74d4d658'
    """
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()


def member_of(identity: str) -> bytes:
    """How `S:next` names a job: its bytes are its identity in the set.

    >>> member_of("ab")
    b'{"id":"ab"}'
    """
    return b'{"id":"%s"}' % as_bytes(identity)


def as_bytes(text: str) -> bytes:
    """An id or a name as it came from the wire, where anything may stand that is not even text."""
    return text.encode(errors="surrogateescape")


def read_payload(text: bytes) -> Payload | None:
    """What a text says, whatever its order and white space; None if it is not a job.

    >>> read_payload(b'{"job": "#\\'a/b", "cron": "* * * * * * *", "since": 1}').job
    "#'a/b"
    >>> read_payload(b"[]")
    """
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


@once_per_task
def positions_of(task: Task[Any, Any]) -> Positions:
    """Those of a task's parameters that can be passed by position; what the worker fills in has none."""
    without = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    return Positions(task.name, [each for each in task.arguments.parameters if each.kind not in without])


def by_position(task: Task[Any, Any] | None, body: bytes) -> list[Any]:
    """From a body to `args`. Without a task to tell the order, the values go as they stand in the body."""
    if task is None or body.startswith(b"["):
        values = json.loads(body)
        return list(values.values() if isinstance(values, dict) else values)
    given = decode_by_name(body)
    args = [json.loads(value) for value in positions_of(task).take(given)]
    if given:
        raise Unsupported(
            f"WorkKit passes arguments by position, and {min(given)!r} of {task.name} has none. "
            "Give the function parameters that can be passed by position."
        )
    return args


def by_name(task: Task[Any, Any] | None, args: list[bytes]) -> bytes:
    """From `args`, each as JSON, to a body."""
    return b"[%s]" % b",".join(args) if task is None else positions_of(task).body(args)


def shown(text: str) -> str:
    """What others wrote, so that it can't disturb a terminal or fill a disk."""
    return repr(text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…")


def shown_id(identity: str) -> str:
    return identity if identity.isalnum() and len(identity) <= LONGEST_SHOWN else shown(identity)
