"""CreateJob and CreateJobs."""

from __future__ import annotations

import msgspec

from headrace.dialects.bedrock.server.requests import Request
from headrace.dialects.bedrock.server.transaction import RUNNING_STATES, Answer, Row, Transaction, read_text
from headrace.dialects.bedrock.server.values import is_mocked
from headrace.dialects.bedrock.wire import DEFAULT_PRIORITY, Refused
from headrace.schedule.repeat import parse_modifier, parse_repeat

LONGEST_NAME = 255
MOST_JOBS = 10_000
"""CreateJobs takes no more at once: all other clients wait while it works."""
_decode_jobs = msgspec.json.Decoder(list[dict[str, msgspec.Raw]]).decode


def create_job(tx: Transaction, request: Request) -> Answer:
    """Schedule a new job, or find the one that it must not be a copy of."""
    return f'{{"jobID":{_create(tx, request)}}}'


def create_jobs(tx: Transaction, request: Request) -> Answer:
    identifiers = [_create(tx, element) for element in _elements(request)]
    return f'{{"jobIDs":[{",".join(map(str, identifiers))}]}}'


def _elements(request: Request) -> list[Request]:
    """The elements of `jobs`, each as if it had been sent as headers."""
    try:
        elements = _decode_jobs(request.get("jobs"))
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError, UnicodeError):
        raise Refused("401 Invalid JSON") from None
    if not elements or not all(elements):
        raise Refused("401 Invalid JSON")
    if len(elements) > MOST_JOBS:
        raise Refused("401 Invalid JSON", ("error", f"more than {MOST_JOBS} jobs"))
    mocked = {"mockrequest": "true"} if request.find("mockrequest") is not None else {}
    found = []
    for element in elements:
        headers = {name.lower(): text for name, raw in element.items() if (text := _as_text(name, raw)) is not None}
        malformed = frozenset(name for name, text in headers.items() if "\0" in text)
        found.append(Request("", headers | mocked, malformed))
    return found


def _as_text(name: str, raw: msgspec.Raw) -> str | None:
    """A JSON value as a header would carry it. null is as good as absent."""
    text = bytes(raw).decode().strip()
    if text.startswith('"'):
        return str(msgspec.json.decode(text))
    if text == "null":
        return None
    if name.lower() == "data" and text.startswith("[") and not msgspec.json.decode(text):
        return "{}"  # how PHP encodes an empty map
    return text


def _create(tx: Transaction, wanted: Request) -> int:
    name = wanted.required("name", LONGEST_NAME)
    priority = wanted.priority(None)
    data = wanted.find("data")
    if data is not None and tx.value("kind_of_json", data) != "object":
        raise Refused("402 Data is not a valid JSON Object")
    retry_after = wanted.parsed("retryafter", parse_modifier)
    parent_id = wanted.integer("parentjobid")
    parent = _check_parent(tx, parent_id) if parent_id else None
    text, mocked = _of_its_kind(tx, data or "{}", wanted, parent)

    twin = tx.first("by_name", name, int(mocked)) if wanted.get("unique") == "true" else None
    if twin is not None:
        job_id, twin_parent, twin_data = twin
        if twin_parent and twin_parent != parent_id:
            raise Refused("404 Trying to create a child that already exists, but it is tied to a different parent")
        if read_text(twin_data) == text:
            return int(job_id)
    repeat = wanted.parsed("repeat", parse_repeat)
    if priority is None:
        priority = wanted.priority(DEFAULT_PRIORITY, "priority")
    if parent is not None and parent.parent_id:
        raise Refused("405 Cannot create grandchildren")
    key = wanted.get("sequentialkey")
    if key and (repeat or parent_id):
        raise Refused("402 sequentialKey cannot be combined with repeat or parentJobID")
    if mocked:
        repeat = ""

    if twin is not None:
        if wanted.get("overwrite") in ("", "true"):
            tx.run("merge", twin[0], repeat, priority, text)
        return int(twin[0])
    state = _first_state(tx, parent, key)
    next_run = wanted.get("firstrun") or tx.now
    values = (tx.now_seconds, state, name, next_run, repeat, text, priority, parent_id, retry_after, key)
    tx.run("insert", *values)
    job_id = tx.last_id()
    if state == "QUEUED":
        tx.queued(name, next_run)
    return job_id


def _check_parent(tx: Transaction, parent_id: int) -> Row:
    parent = tx.find(parent_id)
    if parent is None:
        raise Refused("404 parentJobID does not exist")
    if parent.state not in (*RUNNING_STATES, "PAUSED"):
        raise Refused("405 Can only create child job when parent is RUNNING, RUNQUEUED or PAUSED")
    return parent


def _of_its_kind(tx: Transaction, data: str, wanted: Request, parent: Row | None) -> tuple[str, bool]:
    """The data of a real or a mocked job, and which of the two it is. A child is what its parent is."""
    has_mark = is_mocked(data)
    asked_for = has_mark or wanted.find("mockrequest") is not None
    mocked = asked_for if parent is None else is_mocked(parent.data)
    if mocked and not has_mark:
        data = tx.value("mock", data)
    elif has_mark and not mocked:
        data = tx.value("unmock", data)
    return data, mocked


def _first_state(tx: Transaction, parent: Row | None, key: str) -> str:
    if parent is not None and parent.state in RUNNING_STATES:
        return "PAUSED"
    if key and (tx.first("holder_of_sequence", key, 0) is not None or tx.first("first_waiting", key) is not None):
        return "WAITING"
    return "QUEUED"
