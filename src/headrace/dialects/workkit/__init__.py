"""WorkKit: a distributed schedule in two Redis keys, shared with every program that follows the published format.

>>> from headrace.dialects.workkit import create
>>> s = create("app-tasks", redis="redis://127.0.0.1:6379/")

`s.add(clear, at="7pm tomorrow")`, `s.add_now(clear)`, `s.listen()`; or as a store for tasks and workers:
`Headrace("workkit+redis://127.0.0.1:6379/0?schedule=app-tasks")`.
"""

from .find import Entry
from .schedule import Schedule, create
from .store import WorkKitStore

__all__ = ["Entry", "Schedule", "WorkKitStore", "create"]
