"""Being woken up from within one's own process."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import closing

import pytest

from headrace.store.wakeup import Pokes, readable


def is_poked(pokes: Pokes, seconds: float = 0) -> bool:
    return bool(readable([pokes.reader], seconds))


def test_pokes_are_taken_together() -> None:
    with closing(Pokes()) as pokes:
        assert not pokes.taken()
        for _ in range(200):
            pokes.poke()
        assert is_poked(pokes)
        assert pokes.taken()
        assert not is_poked(pokes)
        assert not pokes.taken()


def test_too_many_pokes_are_as_good_as_many() -> None:
    with closing(Pokes()) as pokes:
        for _ in range(70_000):  # more than a pipe holds
            pokes.poke()
        assert pokes.taken()
        assert not pokes.taken()


def test_a_signal_handler_may_poke_whoever_it_interrupts() -> None:
    with closing(Pokes()) as pokes:
        before = signal.signal(signal.SIGUSR2, lambda *_: pokes.poke())
        main = threading.main_thread().ident
        assert main is not None
        other = threading.Thread(target=lambda: signal.pthread_kill(main, signal.SIGUSR2))
        try:
            with pokes._guard:  # as if it were poked by its own thread at this moment
                other.start()
                other.join()
                assert is_poked(pokes, 20)
        finally:
            signal.signal(signal.SIGUSR2, before)


def test_a_poke_after_the_end_is_not_written_to_another_file() -> None:
    pokes = Pokes()
    descriptors = {pokes.reader, pokes._writer}
    pokes.close()
    reader, writer = os.pipe2(os.O_NONBLOCK)  # gets their numbers, the lowest free ones
    try:
        assert {reader, writer} == descriptors
        pokes.poke()
        assert pokes.taken(), "nobody waits for ever for what is closed"
        assert readable([reader], 0) == []
        pokes.close()
        os.write(writer, b"still open")
    finally:
        os.close(reader)
        os.close(writer)


def test_what_is_forgotten_leaves_no_descriptors_behind() -> None:
    pokes = Pokes()
    reader = pokes.reader
    del pokes
    with closing(Pokes()) as others:
        assert others.reader == reader


@pytest.mark.usefixtures("a_thousand_files")
def test_any_file_can_be_waited_for() -> None:
    with closing(Pokes()) as pokes:
        assert pokes.reader > 1_024
        assert not is_poked(pokes)
        pokes.poke()
        assert is_poked(pokes)
