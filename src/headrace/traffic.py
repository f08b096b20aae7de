"""Test traffic: jobs that line up apart, and are run by workers that ask for them.

The queue of such a job has the name of the one that it would be in, with a mark before it. So everything that is kept
by queue is apart by itself: lines, limits, lanes, counts, statistics. No other queue has such a name, and no pattern
means one unless it begins with the mark.
"""

from __future__ import annotations

from contextvars import ContextVar

from headrace.values.names import TEST_MARK

in_test_run: ContextVar[bool] = ContextVar("headrace_test_traffic", default=False)
"""Whether the code that runs here is the run of a test job: what it enqueues is test traffic too."""


def is_test(queue: str) -> bool:
    """Whether jobs of this queue are test traffic.

    >>> is_test("mail"), is_test("~mail")
    (False, True)
    """
    return queue.startswith(TEST_MARK)


def as_test(queue: str) -> str:
    """The queue, or the pattern, of the test traffic of another.

    >>> as_test("mail"), as_test("~mail")
    ('~mail', '~mail')
    """
    return queue if is_test(queue) else f"{TEST_MARK}{queue}"
