"""The sample session of the original document, typed line by line into a socket.

Status lines are equal; each JSON answer holds the sample's keys and values in the sample's order (among others: spec
14.8 and 14.9); the row's first eight columns are as printed (14.10). The errata, all there are:

* answers without a body say `Content-Length: 0` where the sample shows none (14.11);
* stated lengths are those of the real bodies (14.8, 14.9, 14.13: 43 stands for 61, 110 for 120);
* the row at the end shows `{"value":2}` though the job was finished with `{"value":3}` (14.13).

The sample's own clock stood at 07:39:04 when the job was taken and, by the row it prints, at 07:38:51 when it was
finished. Ours does what it is told.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime

from dialects.bedrock.harness import InProcess, Reply, Wire
from headrace.values.clock import ManualClock


def at(clock: ManualClock, time: str) -> None:
    moment = datetime.strptime(f"2014-12-29 {time}", "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    clock.jump(int(moment.timestamp() * 1000) - clock.now())


def type_in(wire: Wire, text: str) -> Reply:
    """As by hand: a line at a time."""
    for line in text.strip().splitlines():
        wire.send(line.strip() + "\n")
    wire.send("\n")
    return wire.read()


def holds(reply: Reply, sample: str) -> bool:
    """Whether an answer has the sample's members, with their values, in the sample's order."""
    wanted, found = json.loads(sample), reply.json
    return {name: found[name] for name in wanted} == wanted and [n for n in found if n in wanted] == list(wanted)


def test_the_sample_session(make_server: Callable[..., InProcess], clock: ManualClock) -> None:
    at(clock, "07:38:51")
    wire = make_server().connect()
    created = type_in(
        wire,
        """CreateJob
           name: foo
           data: {"value":1}
           repeat: finished, +1 minute""",
    )
    assert (created.status, created.headers["Content-Length"], created.body) == ("200 OK", "11", b'{"jobID":1}')

    at(clock, "07:39:04")
    got = type_in(wire, "GetJob\nname: foo")
    assert got.status == "200 OK"
    assert holds(got, '{"data":{"value":1},"jobID":1,"name":"foo"}')

    updated = type_in(wire, 'UpdateJob\njobID: 1\ndata: {"value":2}')
    assert (updated.status, updated.body) == ("200 OK", b"")

    looked = type_in(wire, "QueryJob\njobID: 1")
    assert looked.status == "200 OK"
    assert holds(looked, '{"data":{"value":2},"jobID":1,"name":"foo","state":"RUNNING"}')

    at(clock, "07:38:51")
    finished = type_in(wire, 'FinishJob\njobID: 1\ndata: {"value":3}')
    assert (finished.status, finished.body) == ("200 OK", b"")

    assert type_in(wire, "GetJob\nname: foo").status == "404 No job found"

    rows = type_in(wire, "Query\nquery: select * from jobs;")
    assert rows.status == "200 OK"
    printed = (
        '["2014-12-29 07:38:51",1,"QUEUED","foo","2014-12-29 07:39:51","2014-12-29 07:39:04","finished, +1 minute",'
        '{"value":3}'
    )
    assert rows.body.decode() == f'[{printed},500,0,"",""]]'
    assert int(rows.headers["Content-Length"]) == len(rows.body)

    at(clock, "07:39:51")
    again = type_in(wire, "GetJob\nname: foo")
    assert again.status == "200 OK"
    assert holds(again, '{"data":{"value":3},"jobID":1,"name":"foo"}')
