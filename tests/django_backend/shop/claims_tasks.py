"""Options, arguments and validation of tasks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import django
from django.test import override_settings
from shop import tasks
from shop.cases import ShopCase

from headrace.django import HeadraceBackend, library, task
from headrace.django.library import InvalidTask, signals
from headrace.django.task import OPTIONS
from headrace.options import OF_CALL, OF_TASK


def plain(number: int = 0) -> int:
    return number


def late() -> None: ...


def about(context: Any, number: int) -> int:
    return number


class Tasks(ShopCase):
    def test_the_backend_supports_all_that_django_asks_about(self) -> None:
        for name in ("defer", "async_task", "get_result", "priority"):
            self.assertIs(getattr(HeadraceBackend, f"supports_{name}"), True)

    def test_a_task_has_an_attribute_for_each_option_of_headrace(self) -> None:
        self.assertEqual(set(OPTIONS), {*OF_TASK, *OF_CALL} - {"queue", "priority", "run_after"})
        self.assertEqual(tasks.flaky.retries, 2)
        self.assertEqual(tasks.send.native.options.queue, "mail")
        self.assertEqual(tasks.send.native.options.priority, 7)

    def test_djangos_own_decorator_takes_options_but_for_django_6_0(self) -> None:
        if django.VERSION[:2] == (6, 0):
            with self.assertRaises(TypeError):
                library.task(retries=5)
        else:
            self.assertEqual(library.task(retries=5)(plain).retries, 5)

    def test_options_of_calls_are_carried_by_the_job(self) -> None:
        result = tasks.add.using(
            retries=3, tags=["a"], headers={"by": "ada"}, queue_name="mail", priority=-100
        ).enqueue(1)
        job = self.app.job(result.id)
        self.assertEqual(
            (job.queue, job.tags, job.headers, job.snapshot.priority), ("mail", ("a",), {"by": "ada"}, -100)
        )
        self.assertEqual(job.snapshot.options, b'{"retries":3,"headers":{"by":"ada"}}')
        self.assertEqual(tasks.add.using(tags=["a"]).using(retries=1).tags, ["a"])

    def test_a_plain_call_carries_no_options(self) -> None:
        self.assertIsNone(self.app.job(tasks.flaky.enqueue(1).id).snapshot.options)

    def test_a_lane_is_named_by_an_argument_however_it_is_passed(self) -> None:
        lanes = [
            self.app.job(result.id).snapshot.lane
            for result in (tasks.send.enqueue("eu"), tasks.send.enqueue(tenant="us"))
        ]
        self.assertEqual([(lane.key, lane.limit) for lane in lanes if lane], [("eu", 1), ("us", 1)])

    def test_unique_calls_are_those_that_mean_the_same(self) -> None:
        first = tasks.once.enqueue(7)
        self.assertEqual(tasks.once.enqueue(number=7, kind="a").id, first.id)
        self.assertNotEqual(tasks.once.enqueue(8).id, first.id)

    def test_the_result_of_a_call_that_another_job_stands_for_is_that_of_the_job(self) -> None:
        first = self.worked(tasks.add.using(unique_key="k", unique_for=60).enqueue(1))
        found = tasks.add.using(unique_key="k").enqueue(2)
        self.assertEqual((found.id, found.status, found.args), (first.id, "SUCCESSFUL", [1]))

    def test_arguments_come_back_as_they_were_split(self) -> None:
        result = tasks.echo.enqueue(1, [2, (3,)], b"4", a={"b": None}, args="x")
        self.assertEqual(
            self.app.job(result.id).snapshot.body, b'{"args":[1,[2,[3]],"4"],"kwargs":{"a":{"b":null},"args":"x"}}'
        )
        self.assertEqual(self.worked(result).return_value, [[1, [2, [3]], "4"], {"a": {"b": None}, "args": "x"}])
        self.assertEqual((result.args, result.kwargs), ([1, [2, [3]], "4"], {"a": {"b": None}, "args": "x"}))

    def test_arguments_that_json_has_not_are_refused(self) -> None:
        with self.assertRaisesRegex(TypeError, "Unsupported type"):
            tasks.echo.enqueue(datetime.now(UTC))
        with self.assertRaisesRegex(TypeError, "not finite"):
            tasks.echo.enqueue(float("inf"))
        self.assertEqual(list(self.app.jobs()), [])

    def test_a_call_that_does_not_fit_the_function_is_refused(self) -> None:
        with self.assertRaisesRegex(TypeError, "missing a required argument: 'first'"):
            tasks.add.enqueue()
        with self.assertRaisesRegex(TypeError, "'third'"):
            tasks.add.enqueue(1, third=3)
        tasks.flaky.enqueue(1)  # (the context is not for the caller to pass)

    def test_what_an_option_can_not_be_is_refused_where_it_is_written(self) -> None:
        cases: list[tuple[Any, str]] = [
            (lambda: task(retries=-1)(plain), "retries"),
            (lambda: task(lane="{tenant}")(plain), "'tenant', which is not a parameter"),
            (lambda: task(scratch=True)(plain), "isolate"),
            (lambda: tasks.add.using(tags="a"), "tags"),
            (lambda: tasks.add.using(isolate=True), "isolate= is an option of the task add"),
            (lambda: tasks.add.using(lane="{tenant}").enqueue(1), "'tenant', which is not a parameter"),
        ]
        for attempt, words in cases:
            with self.assertRaisesRegex(InvalidTask, words):
                attempt()

    def test_an_unknown_option_is_a_type_error(self) -> None:
        with self.assertRaises(TypeError):
            task(retires=5)(plain)
        with self.assertRaisesRegex(TypeError, "using\\(\\) does not know the option 'retires'. It takes priority, "):
            tasks.add.using(retires=5)

    def test_options_need_a_backend_of_headrace(self) -> None:
        immediate = {"BACKEND": f"{library.PACKAGE}.backends.immediate.ImmediateBackend"}
        with override_settings(TASKS={"default": immediate}):
            with self.assertRaisesRegex(InvalidTask, "the backend 'default' of the task plain is another one"):
                task(retries=5)(plain)
            self.assertEqual(tasks.add.enqueue(1, 2).return_value, 3)  # as tests of users do

    def test_a_task_that_was_declared_for_another_backend_runs_here(self) -> None:
        immediate = {"BACKEND": f"{library.PACKAGE}.backends.immediate.ImmediateBackend"}
        with override_settings(TASKS={"default": immediate}):
            made = library.task(plain)
        self.assertEqual(self.worked(made.enqueue(5)).return_value, 5)

    def test_priorities_and_times_to_come_decide_the_order(self) -> None:
        late = tasks.add.using(run_after=datetime.now(UTC) + timedelta(hours=1)).enqueue(1)
        for priority in (0, 100, -100):
            tasks.add.using(priority=priority).enqueue(priority)
        started: list[int] = []
        signals.task_started.connect(lambda task_result, **_: started.append(task_result.args[0]), weak=False)
        self.app.worker(slots=1).run_until_empty()
        late.refresh()
        self.assertEqual((started, late.status), ([100, 0, -100], "READY"))

    def test_a_worker_listens_to_the_queues_of_the_settings(self) -> None:
        self.use({"store": self.url}, QUEUES=["default", "mail", "rare"])
        self.assertIn("rare", self.app.worker().queues)
        self.assertEqual(self.worked(tasks.add.using(queue_name="rare").enqueue(1)).status, "SUCCESSFUL")
        self.use({"store": self.url}, QUEUES=[])
        self.assertEqual(self.worked(tasks.add.using(queue_name="any").enqueue(1)).status, "SUCCESSFUL")

    def test_the_task_as_headrace_knows_it_can_recur(self) -> None:
        tasks.add.native.every("every day at 9:30").enqueue(1)
        self.assertEqual(len(self.app.schedules()), 1)

    def test_the_modules_own_task_counts_and_not_the_first_that_was_made(self) -> None:
        library.task(plain)
        module = __import__("sys").modules[__name__]
        function = module.plain
        module.plain = task(retries=4)(function)  # type: ignore[attr-defined]
        self.addCleanup(setattr, module, "plain", function)
        module.plain.enqueue(1)
        self.assertEqual(self.app.tasks["shop.claims_tasks.plain"].options.retries, 4)

    def test_a_task_that_is_declared_when_the_app_is_there_has_its_options_at_once(self) -> None:
        self.assertNotIn("shop.claims_tasks.late", self.app.tasks)
        task(retries=4)(late)
        self.assertEqual(self.app.tasks["shop.claims_tasks.late"].options.retries, 4)

    def test_the_time_of_a_run_is_not_for_the_decorator(self) -> None:
        with self.assertRaisesRegex(TypeError, "run_after"):
            task(retries=4, run_after=datetime.now(UTC))

    def test_an_app_of_ones_own_has_the_tasks_of_django_beside_its_own(self) -> None:
        self.use({"app": "shop.own:app"})
        self.addCleanup(self.app.close)
        with self.app.testing() as t:
            result = tasks.add.enqueue(1, 2)
            job = self.app.tasks["own"].enqueue()
            t.run_all()
            result.refresh()
            self.assertEqual((result.return_value, job.result()), (3, "own"))
            with self.assertRaisesRegex(library.TaskResultDoesNotExist, "which no tasks module"):
                self.backend.get_result(job.id)

    def test_settings_that_can_not_work_are_refused_when_first_used(self) -> None:
        for options, words in (
            ({"store": self.url, "databse": "default"}, "unknown option 'databse'"),
            ({"store": "mysql://localhost/jobs"}, "No store speaks 'mysql'"),
            ({"store": self.url, "database": "other"}, "which is not in DATABASES"),
            ({"app": "shop.nowhere:app"}, "Cannot find a module named 'shop.nowhere'"),
            ({"app": "shop.own:app", "store": self.url}, "both 'app' and 'store'"),
        ):
            self.use(options)
            with self.assertRaisesRegex(library.InvalidTaskBackend, words):
                tasks.add.enqueue(1)
