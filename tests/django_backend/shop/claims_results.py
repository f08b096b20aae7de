"""Results, signals and the context, as workers leave them."""

from __future__ import annotations

import asyncio
import sys
import threading
from datetime import timedelta
from typing import Any

from django.db import connections
from django.test import override_settings
from shop import tasks
from shop.cases import ShopCase
from shop.models import Order

from headrace.django.library import TaskResultDoesNotExist, signals
from headrace.values.ids import new_id


class Results(ShopCase):
    def seen(self) -> list[tuple[str, str, Any]]:
        """What signals tell: name, status, and the exception that is being handled."""
        found: list[tuple[str, str, Any]] = []
        for name in ("task_enqueued", "task_started", "task_finished"):

            def receive(sender: Any, task_result: Any, name: str = name, **_: Any) -> None:
                found.append((name, str(task_result.status), sys.exc_info()[0]))

            signal = getattr(signals, name)
            signal.connect(receive)
            self.addCleanup(signal.disconnect, receive)
            self.keep = (*getattr(self, "keep", ()), receive)
        return found

    def test_a_task_that_succeeds_at_its_third_attempt(self) -> None:
        for name in ("flaky", "aflaky"):
            with self.subTest(name):
                seen = self.seen()
                result = self.worked(getattr(tasks, name).enqueue(3))
                self.assertEqual((result.status, result.return_value, result.attempts), ("SUCCESSFUL", 3, 3))
                self.assertEqual(len(set(result.worker_ids)), 1)
                self.assertNotEqual(result.worker_ids[0], "")
                self.assertEqual([error.exception_class_path for error in result.errors], ["builtins.ValueError"] * 2)
                self.assertTrue(result.errors[1].traceback.endswith("ValueError: attempt 2\n"))
                self.assertLess(result.started_at, result.last_attempted_at + timedelta(milliseconds=1))
                self.assertLessEqual(result.last_attempted_at, result.finished_at)
                ran = ("task_started", "RUNNING", None)
                self.assertEqual(
                    seen, [("task_enqueued", "READY", None), ran, ran, ran, ("task_finished", "SUCCESSFUL", None)]
                )

    def test_a_task_that_fails_for_good_is_finished_once_inside_the_exceptions_handler(self) -> None:
        for name in ("flaky", "aflaky"):
            with self.subTest(name):
                seen = self.seen()
                result = self.worked(getattr(tasks, name).enqueue(9))
                self.assertEqual((result.status, result.attempts, len(result.errors)), ("FAILED", 3, 3))
                self.assertIs(result.errors[2].exception_class, ValueError)
                with self.assertRaisesRegex(ValueError, "Task failed"):
                    result.return_value  # noqa: B018
                self.assertEqual(seen[-1], ("task_finished", "FAILED", ValueError))
                self.assertEqual(len(seen), 5)

    def test_a_traceback_begins_with_the_task(self) -> None:
        for task in (tasks.flaky, tasks.aflaky):
            result = self.worked(task.using(retries=0).enqueue(9))
            files = [line for line in result.errors[0].traceback.splitlines() if line.startswith("  File")]
            self.assertEqual(len(files), 1)
            self.assertIn("shop/tasks.py", files[0])

    def test_a_task_decides_about_its_job(self) -> None:
        result = self.worked(tasks.refuse.enqueue())
        self.assertEqual((result.status, result.attempts), ("FAILED", 1))
        self.assertEqual(result.errors[0].exception_class_path, "headrace.signals.Fail")

    def test_a_return_value_that_json_has_not_fails_the_task_and_is_not_tried_again(self) -> None:
        for task, words in ((tasks.unfit, "Unsupported type"), (tasks.endless, "not finite")):
            seen = self.seen()
            result = self.worked(task.enqueue())
            self.assertEqual((result.status, result.attempts), ("FAILED", 1))
            self.assertIs(result.errors[0].exception_class, TypeError)
            self.assertIn(words, result.errors[0].traceback)
            self.assertEqual([(name, status) for name, status, _ in seen][-1], ("task_finished", "FAILED"))

    def test_a_cancelled_job_has_failed(self) -> None:
        result = tasks.add.enqueue(1)
        self.app.job(result.id).cancel()
        result.refresh()
        self.assertEqual((result.status, result.attempts), ("FAILED", 0))
        self.assertEqual(result.errors[0].exception_class.__name__, "JobCancelled")

    def test_a_job_whose_arguments_do_not_fit_has_failed(self) -> None:
        result = tasks.add.enqueue(1)
        store = self.app.store
        edits = __import__("headrace.store.facets", fromlist=["Edit"])
        store.run(store.edit([result.id], edits.Edit(body=b'{"args": [1, 2, 3]}')))  # type: ignore[attr-defined]
        result = self.worked(result)
        self.assertEqual((result.status, result.errors[0].exception_class.__name__), ("FAILED", "JobFailed"))
        self.assertIn("too many positional arguments", result.errors[0].traceback)

    def test_unknown_ids_and_jobs_of_others_have_no_result(self) -> None:
        for unknown in (new_id(), "123", 123):
            with self.assertRaisesRegex(TaskResultDoesNotExist, "There is no job"):
                self.backend.get_result(unknown)
        with self.assertRaises(TaskResultDoesNotExist):
            asyncio.run(self.backend.aget_result("123"))

    def test_results_are_read_from_other_threads(self) -> None:
        result = self.worked(tasks.add.enqueue(1, 2))
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(tasks.add.get_result(result.id)))
        thread.start()
        thread.join()
        self.assertEqual(found, [result])

    def test_async_code_enqueues_and_looks_without_a_thread_for_the_loop_to_wait_for(self) -> None:
        async def play() -> Any:
            result = await tasks.aadd.aenqueue(1, second=2)
            await self.app.worker().arun_until_empty()
            await result.arefresh()
            return result

        seen = self.seen()
        result = asyncio.run(play())
        self.assertEqual((result.return_value, result.kwargs), (3, {"second": 2}))
        self.assertEqual([name for name, _, _ in seen], ["task_enqueued", "task_started", "task_finished"])

    def test_a_receiver_that_raises_does_not_fail_the_task(self) -> None:
        def receive(**_: Any) -> None:
            raise ZeroDivisionError

        for signal in (signals.task_started, signals.task_finished):
            signal.connect(receive)
            self.addCleanup(signal.disconnect, receive)
        with self.assertLogs("django.dispatch", "ERROR") as logs:
            result = self.worked(tasks.add.enqueue(1))
        self.assertEqual((result.status, result.attempts, len(logs.output)), ("SUCCESSFUL", 1, 2))

    def test_tasks_use_the_orm_sync_and_async(self) -> None:
        Order.objects.create(number=1)
        results = [tasks.count_orders.enqueue(), tasks.acount_orders.enqueue()]
        self.work()
        for result in results:
            result.refresh()
        self.assertEqual(results[0].return_value, [1, "sqlite", results[0].id])
        self.assertEqual(results[1].return_value, 1)

    def test_connections_that_a_job_left_are_closed_behind_it(self) -> None:
        """(One in memory is never closed: what Django asks it to do shows.)"""
        asked: list[int] = []
        kind = type(connections["default"])
        before = kind.close_if_unusable_or_obsolete

        def close(self: Any) -> None:
            asked.append(threading.get_ident())
            before(self)

        kind.close_if_unusable_or_obsolete = close
        self.addCleanup(setattr, kind, "close_if_unusable_or_obsolete", before)
        self.worked(tasks.count_orders.enqueue())
        self.assertEqual((len(asked), len(set(asked) - {threading.get_ident()})), (1, 1))  # it had none before

    def test_times_are_naive_where_the_project_has_naive_times(self) -> None:
        with override_settings(USE_TZ=False):
            result = self.worked(tasks.add.enqueue(1))
            self.assertIsNone(result.enqueued_at.tzinfo)
            self.assertIsNone(result.finished_at.tzinfo)


class InTests(ShopCase):
    """`app.testing()` for tests of the project's own."""

    def test_jobs_run_when_the_test_says_so(self) -> None:
        with self.app.testing() as t:
            result = tasks.add.using(run_after=t.now + timedelta(hours=1)).enqueue(1, 2)
            t.assert_enqueued(tasks.add.native, 1)
            t.assert_not_enqueued(tasks.flaky.native)
            self.assertEqual(t.run_all(), 0)
            t.advance("1 hour")
            self.assertEqual(t.run_all(), 1)
            result.refresh()
            self.assertEqual((result.return_value, result.finished_at), (3, t.now))
