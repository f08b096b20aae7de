"""Asking workers to stop, in stores whose renewals can tell them."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from headrace.store.contract import Operation


@runtime_checkable
class StopsWorkers(Protocol):
    """What a store offers that can tell a worker something at its next renewal."""

    def stop_session(self, session: str) -> Operation[bool]:
        """Ask a worker to stop: its renewals say so from now on. False: no session of this id is open."""
