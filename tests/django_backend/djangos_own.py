"""Runs Django's own tests of tasks with headrace's backend in the place of Django's.

    python -m django_backend.djangos_own FOLDER

FOLDER is where Django's source distribution was unpacked. `test_tasks.py` and `test_immediate_backend.py` are run, with
the names of the dummy and the immediate backend replaced by those of `inplace`. Each case that is left out has its
reason here.
"""

from __future__ import annotations

import os
import sys
import types
import unittest
from pathlib import Path

LEFT_OUT = {
    "ImmediateBackendTestCase.test_throws_keyboard_interrupt": "the immediate backend lets a task interrupt the "
    "process that enqueues it; a worker fails its job and goes on",
    "ImmediateBackendTestCase.test_cannot_get_result": "asserts that results can't be looked up; here they can",
    "ImmediateBackendTestCase.test_cannot_refresh_result": "asserts that results can't be refreshed; here they can",
    "ImmediateBackendTestCase.test_cannot_pass_run_after": "asserts that run_after is refused; here it is supported",
}
"""Cases of Django that assert what its immediate backend lacks."""

MODULES = ("test_tasks", "test_immediate_backend")
REPLACED = {
    "django.tasks.backends.dummy": "django_backend.inplace",
    "django.tasks.backends.immediate": "django_backend.inplace",
}


def load(tests: Path, name: str) -> types.ModuleType:
    """A module of Django's tests, with our backends in it."""
    source = (tests / "tasks" / f"{name}.py").read_text(encoding="utf-8")
    for old, new in REPLACED.items():
        source = source.replace(old, new)
    module = types.ModuleType(f"tasks.{name}")
    module.__package__ = "tasks"
    module.__file__ = str(tests / "tasks" / f"{name}.py")
    sys.modules[module.__name__] = module
    exec(compile(source, module.__file__, "exec"), vars(module))
    return module


def cases(suite: unittest.TestSuite) -> list[unittest.TestCase]:
    return [case for each in suite for case in (cases(each) if isinstance(each, unittest.TestSuite) else [each])]  # type: ignore[list-item]


def main(folder: Path) -> int:
    import django
    from django.conf import settings

    os.environ["HEADRACE_STORE"] = "sqlite:///:memory:"
    database = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
    backend = {"BACKEND": "django_backend.inplace.ImmediateBackend", "QUEUES": []}
    settings.configure(
        INSTALLED_APPS=["headrace.django"], DATABASES={"default": database}, TASKS={"default": backend}, USE_TZ=True
    )
    django.setup()
    from django.test.utils import get_runner, setup_test_environment

    setup_test_environment()
    sys.path.insert(0, str(folder / "tests"))
    runner = get_runner(settings)(verbosity=2, interactive=False)
    loader = unittest.defaultTestLoader
    found = cases(unittest.TestSuite(loader.loadTestsFromModule(load(folder / "tests", name)) for name in MODULES))
    names = {".".join(case.id().split(".")[-2:]): case for case in found}
    missing = set(LEFT_OUT) - set(names)
    assert not missing, f"Django has no such cases any more: {missing}"
    run = [case for name, case in names.items() if name not in LEFT_OUT]
    before = runner.setup_databases()
    result = runner.run_suite(unittest.TestSuite(run))
    runner.teardown_databases(before)
    print(f"Django {django.get_version()}: {result.testsRun} cases ran, {len(LEFT_OUT)} left out")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
