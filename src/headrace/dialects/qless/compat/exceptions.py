"""What the published client raises."""

from headrace.dialects.qless.driver import LostLockException, QlessException

__all__ = ["LostLockException", "QlessException"]
