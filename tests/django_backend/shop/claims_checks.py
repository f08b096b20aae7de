"""What `manage.py check` finds."""

from __future__ import annotations

import sys
import tempfile
import types
from pathlib import Path
from typing import Any
from unittest import mock

from django.apps import apps
from django.conf import settings
from django.core.checks import run_checks
from django.test import SimpleTestCase, override_settings

from headrace.django import checks, registry
from headrace.django.library import PACKAGE


def parrot(context: Any) -> Any:
    return context


def found(options: Any) -> dict[str, str]:
    """Ids and words of what the checks find with these options."""
    backend = {"BACKEND": "headrace.django.HeadraceBackend", "OPTIONS": options}
    with override_settings(TASKS={"default": backend}):
        return {problem.id: problem.msg for problem in run_checks() if problem.id.startswith("headrace.")}


class Checks(SimpleTestCase):
    def setUp(self) -> None:
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.url = f"sqlite:///{self.folder}/jobs.db"

    def only(self, problem: str, words: str, options: Any) -> None:
        said = found(options)
        self.assertEqual(list(said), [problem])
        self.assertIn(words, said[problem])

    def test_settings_that_are_fine_are_not_mentioned(self) -> None:
        self.assertEqual(found({"store": self.url}), {})
        self.assertEqual(found({"store": "redis://127.0.0.1:1/0"}), {})  # it is not asked whether it is there
        self.assertEqual(found({"app": "shop.own:app"}), {})
        with mock.patch.dict("os.environ", HEADRACE_STORE=self.url):
            self.assertEqual(found({}), {})

    def test_unknown_options(self) -> None:
        self.only("headrace.E001", "unknown option 'databse'", {"store": self.url, "databse": "default"})
        self.only("headrace.E002", "['store'] is text, not", {"store": Path(self.folder)})

    def test_a_store_that_is_missing_or_can_not_be_read(self) -> None:
        self.only("headrace.E004", "['store'] is missing, and so is $HEADRACE_STORE", {})
        self.only("headrace.E003", "both 'app' and 'store'", {"store": self.url, "app": "shop.own:app"})
        self.only("headrace.E005", "No store speaks 'mysql'", {"store": "mysql://localhost/jobs"})
        self.only("headrace.E005", "There is no folder /no/such", {"store": "sqlite:////no/such/jobs.db"})
        self.only("headrace.E010", "Cannot find a module named 'shop.nowhere'", {"app": "shop.nowhere:app"})

    def test_the_file_of_djangos_own_database_is_not_for_jobs(self) -> None:
        database = {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{self.folder}/jobs.db"}
        with mock.patch.dict(settings.DATABASES, shop=database):
            self.only("headrace.E005", "must not share a file", {"store": self.url})

    def test_a_database_that_is_unknown_or_not_the_stores(self) -> None:
        self.only("headrace.E006", "'other', which is not in DATABASES", {"store": self.url, "database": "other"})
        words = "jobs are enqueued after the commit"
        self.only("headrace.I001", words, {"store": self.url, "database": "default"})

    def test_tasks_that_can_not_work(self) -> None:
        name = "shop.tasks"
        module, config = sys.modules[name], apps.get_app_config("shop")
        self.addCleanup(setattr, sys.modules["shop"], "tasks", module)
        self.addCleanup(sys.modules.__setitem__, name, module)
        for source, problem, words in (
            ("task(takes_context=True)(lambda number: 0)", "E008", "does not have a first argument of 'context'"),
            ("task(retries=-1)(print_number)", "E008", "retries"),
            ("import nothing_like_it", "E009", "shop.tasks can't be imported: ModuleNotFoundError"),
        ):
            del sys.modules[name]
            code = f"from {PACKAGE} import task\nfrom headrace.django import task\ndef print_number(n): ...\n{source}\n"
            with mock.patch("importlib._bootstrap_external.SourceFileLoader.get_code", _code(code)):
                said = [(each.id, each.msg) for each in checks.check_tasks([config])]
            self.assertEqual([each for each, _ in said], [f"headrace.{problem}"], said)
            self.assertIn(words, said[0][1])
            sys.modules[name] = module

    def test_a_task_that_seems_to_forget_its_context(self) -> None:
        from headrace.django import task

        task(parrot)
        self.addCleanup(registry.declared.pop, f"{__name__}.parrot")
        said = found({"store": self.url})
        self.assertIn("has a first parameter 'context'", said["headrace.W005"])

    def test_a_backend_without_its_app_and_an_app_without_its_backend(self) -> None:
        immediate = {"BACKEND": f"{PACKAGE}.backends.immediate.ImmediateBackend"}
        with override_settings(TASKS={"default": immediate}):
            self.assertEqual([each.id for each in checks.check_backends()], ["headrace.W002"])
        with mock.patch.object(apps, "is_installed", lambda name: name != "headrace.django"):
            self.assertIn("headrace.W001", found({"store": self.url}))


def _code(source: str) -> Any:
    def get_code(self: Any, name: str) -> types.CodeType:
        return compile(source, name, "exec")

    return get_code
