"""Base of the test cases: a store of their own, and a worker."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from django.test import TransactionTestCase, override_settings

from headrace import Headrace
from headrace.django.library import task_backends


class ShopCase(TransactionTestCase):
    """`OPTIONS` are added to a store in a file of the test."""

    OPTIONS: dict[str, Any] = {}
    QUEUES = ["default", "mail"]

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.url = f"sqlite:///{self.folder}/jobs.db"
        self.use({"store": self.url} | self.OPTIONS)
        self.addCleanup(self.app.close)

    def use(self, options: dict[str, Any], **more: Any) -> None:
        backend = {"BACKEND": "headrace.django.HeadraceBackend", "QUEUES": self.QUEUES, "OPTIONS": options, **more}
        self.enterContext(override_settings(TASKS={"default": backend}))

    @property
    def backend(self) -> Any:
        return task_backends["default"]

    @property
    def app(self) -> Headrace:
        app: Headrace = self.backend.app
        return app

    def work(self) -> None:
        self.app.worker().run_until_empty()

    def worked(self, result: Any) -> Any:
        """The result, after a worker has done what it can."""
        self.work()
        result.refresh()
        return result
