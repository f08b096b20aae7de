"""The one error of this package. It lives with the others, so that catching it does not import the language."""

from headrace.errors import ScheduleError

__all__ = ["ScheduleError"]


def misplaced(piece: str, text: str, why: str) -> ScheduleError:
    """The refusal of a part of a text.

    >>> misplaced("blue", "blue moon", "say when"), misplaced("soon", "soon", "say when")
    (ScheduleError("'blue' could not be placed in 'blue moon': say when"), \
ScheduleError("'soon' could not be understood: say when"))
    """
    where = "could not be understood" if piece == text else f"could not be placed in '{text}'"
    return ScheduleError(f"'{piece}' {where}: {why}")
