"""Benchmarks: every figure is a ratio between things measured in turn, in one run, on one machine."""

import os

# An installed headrace has its bytecode. Without it every process that is started compiles headrace anew, which takes
# longer than all else that a worker does before its first job.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
