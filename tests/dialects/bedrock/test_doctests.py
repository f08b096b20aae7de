"""The examples in the documentation strings are true."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from headrace.dialects import bedrock

MODULES = [module.name for module in pkgutil.walk_packages(bedrock.__path__, f"{bedrock.__name__}.")]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
