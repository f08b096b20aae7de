"""What `headrace` itself offers: all that users name, without knowing where it lives."""

from __future__ import annotations

import subprocess
import sys

import pytest

import headrace
from headrace import errors, flow
from headrace.errors import HeadraceError, SessionGone, StaleRequest

OF_WORKERS = {SessionGone, StaleRequest}
"""A worker meets these and gets over them by itself."""


def test_every_error_that_users_catch() -> None:
    kinds = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, HeadraceError)}
    assert {kind for kind in kinds - OF_WORKERS if vars(headrace).get(kind.__name__) is not kind} == set()
    assert {kind.__name__ for kind in kinds - OF_WORKERS} <= set(headrace.__all__)


def test_flow() -> None:
    assert headrace.flow is flow
    assert "flow" in headrace.__all__


def test_all_names_are_there() -> None:
    assert sorted(set(headrace.__all__)) == sorted(headrace.__all__)
    assert [name for name in headrace.__all__ if not hasattr(headrace, name)] == []


def test_catching_errors_of_schedules_does_not_import_their_language() -> None:
    program = "import sys, headrace; headrace.ScheduleError; print('headrace.schedule' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "False\n"


def test_an_unknown_name_is_refused_as_by_any_module() -> None:
    with pytest.raises(AttributeError, match=r"^module 'headrace' has no attribute 'Haedrace'$"):
        headrace.Haedrace  # noqa: B018
    assert set(headrace.__all__) <= set(dir(headrace))
