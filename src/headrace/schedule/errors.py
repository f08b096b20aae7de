"""The one error of this package. It lives with the others, so that catching it does not import the language."""

from headrace.errors import ScheduleError

__all__ = ["ScheduleError"]
