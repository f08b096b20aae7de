"""Which transaction a job is part of."""

from __future__ import annotations

import asyncio
import contextlib
import os
import unittest
from typing import Any

from asgiref.sync import sync_to_async
from django.core.management import call_command
from django.db import connections, transaction
from django.test import TestCase, override_settings
from shop import tasks
from shop.cases import ShopCase

from headrace.django.library import signals, task_backends


class WithoutADatabase(ShopCase):
    def test_jobs_are_there_at_once_whatever_becomes_of_a_transaction(self) -> None:
        with contextlib.suppress(ZeroDivisionError), transaction.atomic():
            result = tasks.add.enqueue(1)
            self.assertEqual(self.app.job(result.id).state, "ready")
            raise ZeroDivisionError
        self.assertEqual(self.app.job(result.id).state, "ready")


class AfterTheCommit(ShopCase):
    OPTIONS = {"database": "default"}

    def test_jobs_come_with_the_commit(self) -> None:
        told: list[str] = []
        receive = lambda task_result, **_: told.append(task_result.id)  # noqa: E731
        signals.task_enqueued.connect(receive)
        self.addCleanup(signals.task_enqueued.disconnect, receive)
        with transaction.atomic():
            result = tasks.add.enqueue(1)
            self.assertEqual((list(self.app.jobs()), result.enqueued_at, told), ([], None, []))
        self.assertEqual(([job.id for job in self.app.jobs()], told), ([result.id], [result.id]))
        self.assertIsNotNone(result.enqueued_at)

    def test_a_rollback_takes_them_back(self) -> None:
        with transaction.atomic():
            with contextlib.suppress(ZeroDivisionError), transaction.atomic():
                tasks.add.enqueue(1)
                raise ZeroDivisionError
            kept = tasks.add.enqueue(2)
        self.assertEqual([job.id for job in self.app.jobs()], [kept.id])

    def test_what_is_wrong_is_said_before_the_commit(self) -> None:
        with transaction.atomic(), self.assertRaises(TypeError):
            tasks.add.enqueue()

    def test_without_a_transaction_they_are_there_at_once(self) -> None:
        self.assertEqual(self.app.job(tasks.add.enqueue(1).id).state, "ready")

    def test_async_code_is_part_of_the_transaction_of_its_sync_code(self) -> None:
        atomic = transaction.atomic()

        async def buy() -> Any:
            await sync_to_async(atomic.__enter__)()
            result = await tasks.add.aenqueue(1)
            self.assertEqual([job.id async for job in self.app.ajobs()], [])
            await sync_to_async(atomic.__exit__)(None, None, None)
            await sync_to_async(connections.close_all)()
            return result

        result = asyncio.run(buy())
        self.assertEqual([job.id for job in self.app.jobs()], [result.id])


class InATestCase(TestCase):
    def test_testing_does_not_count_the_transaction_of_a_test_case(self) -> None:
        options = {"store": "sqlite:///:memory:", "database": "default"}
        backend = {"BACKEND": "headrace.django.HeadraceBackend", "OPTIONS": options}
        with override_settings(TASKS={"default": backend}), task_backends["default"].app.testing() as t:
            with transaction.atomic():
                tasks.add.enqueue(1)
                t.assert_not_enqueued(tasks.add.native)
            t.assert_enqueued(tasks.add.native, 1)


@unittest.skipUnless("SHOP_POSTGRES" in os.environ, "there is no PostgreSQL server")
class JoinedOnPostgres(unittest.TestCase):
    def setUp(self) -> None:
        options = {"store": os.environ["SHOP_POSTGRES_STORE"], "database": "postgres"}
        backend = {"BACKEND": "headrace.django.HeadraceBackend", "OPTIONS": options}
        self.enterContext(override_settings(TASKS={"default": backend}))
        self.app = task_backends["default"].app
        self.addCleanup(self.app.close)
        self.addCleanup(connections["postgres"].close)

    def test_a_job_is_part_of_the_transaction(self) -> None:
        with transaction.atomic(using="postgres"):
            kept = tasks.add.enqueue(1, 2)
            store: Any = self.app.store
            self.assertEqual(store.run(store.known_within(connections["postgres"], [kept.id])), [True])
            self.assertEqual(list(self.app.jobs()), [])  # (which looks through another connection)
        self.assertEqual([job.id for job in self.app.jobs()], [kept.id])
        with contextlib.suppress(ZeroDivisionError), transaction.atomic(using="postgres"):
            tasks.add.using(lane="eu").enqueue(2)
            raise ZeroDivisionError
        self.assertEqual([job.id for job in self.app.jobs()], [kept.id])
        self.app.worker().run_until_empty()
        kept.refresh()
        self.assertEqual(kept.return_value, 3)
        call_command("check", databases=["postgres"])
