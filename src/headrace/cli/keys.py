"""The keys of `headrace top`: what each does to the screen's state, and reading them from a terminal."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import NamedTuple

from msgspec.structs import replace

from headrace.cli.screen import FAILURES, JOBS, QUEUES, VIEWS, State


class Action(NamedTuple):
    """Something to do: `quit`, `pause`, `cancel` or `revive`, and to what."""

    what: str
    about: str = ""


KEYS = {
    "\x1b[A": "up", "\x1b[B": "down", "\x1bOA": "up", "\x1bOB": "down", "\t": "tab", "k": "up", "j": "down",
}  # fmt: skip
"""What terminals send for keys with names."""

_ACTIONS = {"p": ("pause", QUEUES), "c": ("cancel", JOBS), "r": ("revive", FAILURES)}


def press(state: State, key: str) -> tuple[State, Action | None]:
    """What a key does: another state, and perhaps something to do.

    >>> state, action = press(State(), "f")
    >>> VIEWS[state.view].name, action
    ('failures', None)
    >>> press(State(), "q")[1]
    Action(what='quit', about='')
    """
    key = KEYS.get(key, key)
    if key == "q":
        return state, Action("quit")
    if state.help:
        return replace(state, help=False), None
    state = replace(state, message="")
    if key == "?":
        return replace(state, help=True), None
    if key == "tab":
        return replace(state, view=(state.view + 1) % len(VIEWS), selected=0), None
    if key == "f":
        return replace(state, view=QUEUES if state.view == FAILURES else FAILURES, selected=0), None
    if key in ("up", "down"):
        moved = state.selected + (1 if key == "down" else -1)
        return replace(state, selected=max(0, min(moved, len(state.lines) - 1))), None
    if key in _ACTIONS:
        what, view = _ACTIONS[key]
        if state.view != view:
            return replace(state, message=f"{what}: select one of the {VIEWS[view].name} first (tab)."), None
        if state.selected < len(state.lines):
            return state, Action(what, state.lines[state.selected][0])
    return state, None


@contextmanager
def keyboard(poke: Callable[[], None]) -> Iterator[SimpleQueue[str]]:
    """Standard input, key by key and without echo. Calls `poke` when there is one, and when the window changes."""
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    typed: SimpleQueue[str] = SimpleQueue()

    def listen() -> None:
        while text := os.read(descriptor, 64):
            for key in keys_in(text.decode(errors="replace")):
                typed.put(key)
            poke()
        typed.put("q")  # the terminal is gone
        poke()

    before = termios.tcgetattr(descriptor)
    resized = signal.signal(signal.SIGWINCH, lambda *_: poke())
    try:
        tty.setcbreak(descriptor)
        threading.Thread(target=listen, daemon=True).start()
        yield typed
    finally:
        signal.signal(signal.SIGWINCH, resized)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def keys_in(text: str) -> list[str]:
    """What was typed, taken apart into keys.

    >>> keys_in("a" + chr(27) + "[Aq")
    ['a', '\\x1b[A', 'q']
    """
    keys = []
    while text:
        size = next((len(name) for name in KEYS if len(name) > 1 and text.startswith(name)), 1)
        keys.append(text[:size])
        text = text[size:]
    return keys
