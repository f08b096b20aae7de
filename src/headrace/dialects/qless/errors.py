"""What the Qless client raises."""

from __future__ import annotations

from headrace.errors import HeadraceError


class QlessException(HeadraceError):
    """The script refused a command; the text says why."""


class LostLockException(QlessException):
    """The job belongs to somebody else by now. The argument is its jid."""
