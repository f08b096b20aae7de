"""Job ids: never the same twice, not even in two processes of which one is a fork of the other."""

from __future__ import annotations

import os
import uuid

from headrace.values.ids import new_id


def test_they_are_version_7_uuids_in_order() -> None:
    made = [new_id() for _ in range(10_000)]
    assert made == sorted(set(made))
    assert {(uuid.UUID(one).version, uuid.UUID(one).variant) for one in made} == {(7, uuid.RFC_4122)}


def test_a_forked_child_makes_its_own() -> None:
    """The part that is random, that is: the time may be the same."""
    new_id()
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writer, "".join(new_id()[16:] for _ in range(32)).encode())
        os._exit(0)
    ours = {new_id()[16:] for _ in range(32)}
    os.waitpid(child, 0)
    told = os.read(reader, 4096).decode()
    os.close(reader)
    os.close(writer)
    theirs = {told[at : at + 16] for at in range(0, len(told), 16)}
    assert len(theirs) == 32
    assert not ours & theirs
