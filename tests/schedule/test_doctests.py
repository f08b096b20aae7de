"""The examples in the docstrings run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import headrace.schedule

MODULES = [module.name for module in pkgutil.iter_modules(headrace.schedule.__path__, "headrace.schedule.")]


@pytest.mark.parametrize("name", ["headrace.schedule", *MODULES])
def test_the_examples_in_the_docstrings_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
