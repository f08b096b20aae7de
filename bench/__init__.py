"""Benchmarks: every figure is a ratio between things measured in turn, in one run, on one machine."""
