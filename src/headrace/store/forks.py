"""What a forked child must not touch: connections that its parent opened."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Holder(Protocol):
    """An object that has connections."""

    def leave_to_parent(self) -> None:
        """In a child: let go of them without closing them, as if there had been none."""


holders: WeakSet[Holder] = WeakSet()
"""All that have to let go of connections in a child."""
abandoned: list[object] = []
"""A parent's connections. A child keeps them here, as an object that is collected closes its connection."""


def _after_fork() -> None:
    for holder in list(holders):
        holder.leave_to_parent()


os.register_at_fork(after_in_child=_after_fork)
