"""For your tests: `with app.testing() as t:` runs jobs on a real store in memory, with a clock that you move."""

from headrace.testing.harness import Testing

__all__ = ["Testing"]
