"""Apps of many files: modules that an app includes, and tasks that are declared without an app."""

from __future__ import annotations

import asyncio
import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import ModuleType

import pytest

from headrace import ArgumentsError, ConfigurationError, Headrace, SharedTask, flow, inject, shared_task

Package = Callable[..., str]

_numbers = count()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Package]:
    """Write a package with a name of its own, `{pkg}` in its modules: `package(mail="...", app="...")`."""
    monkeypatch.syspath_prepend(str(tmp_path))
    names = []

    def write(**modules: str) -> str:
        name = f"included_{next(_numbers)}"
        names.append(name)
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
        for module, text in modules.items():
            file = tmp_path / name / f"{module.replace('__', '/')}.py"
            if "__" in module:
                file.parent.mkdir()
                (file.parent / "__init__.py").write_text(f"from . import {file.stem}\n", encoding="utf-8")
            file.write_text(text.replace("{pkg}", name), encoding="utf-8")
        importlib.invalidate_caches()
        return name

    yield write
    for loaded in [module for module in sys.modules if module.partition(".")[0] in names]:
        del sys.modules[loaded]


MAIL = """
from headrace import shared_task

@shared_task(queue="mail")
def send(to: str) -> str:
    return f"sent to {to}"

@shared_task
async def receive(number: int = 1) -> int:
    return number
"""
APP = """
from headrace import Headrace
app = Headrace("sqlite:///:memory:")
app.include("{pkg}.mail")
"""


def load(name: str) -> ModuleType:
    return importlib.import_module(name)


# -- when modules are imported --


def test_a_module_is_imported_when_the_tasks_are_first_needed(package: Package, app: Headrace) -> None:
    pkg = package(mail=MAIL)
    app.include(f"{pkg}.mail")
    assert f"{pkg}.mail" not in sys.modules
    assert sorted(app.tasks) == [f"{pkg}.mail:receive", f"{pkg}.mail:send"]
    assert app.tasks[f"{pkg}.mail:send"].options.queue == "mail"


@pytest.mark.parametrize("start", ["worker", "testing"])
def test_a_worker_and_a_test_import_what_is_included(start: str, package: Package, app: Headrace) -> None:
    """Its tasks, and the schedules that it declares with their queues."""
    pkg = package(
        jobs='from {pkg}.app import app\n@app.task(queue="slow")\ndef tidy() -> None: ...\n'
        'app.schedule("nightly", tidy.using(queue="night").every("every day at 4am"))\n',
        app='from headrace import Headrace\napp = Headrace("sqlite:///:memory:")\napp.include("{pkg}.jobs")\n',
    )
    own: Headrace = load(f"{pkg}.app").app
    if start == "worker":
        assert set(own.worker().queues) == {"default", "slow", "night"}
    else:
        with own.testing(schedules=True) as t:
            t.advance("1 day")
            assert [job.queue for job in t.jobs] == ["night"]


@pytest.mark.parametrize("first", ["app", "mail", "orders"])
def test_modules_that_import_the_app_and_each_other_load_in_any_order(first: str, package: Package) -> None:
    pkg = package(
        app="from headrace import Headrace\n"
        'app = Headrace("sqlite:///:memory:")\napp.include("{pkg}.mail", "{pkg}.orders")\n',
        mail="from {pkg}.app import app\nfrom headrace import shared_task\n"
        "@app.task\ndef send(to: str) -> str:\n    return to\n"
        "@shared_task\ndef greet(to: str) -> str:\n    from {pkg}.orders import ship\n    return ship.name\n",
        orders="from {pkg}.mail import greet, send\nfrom headrace import shared_task\n"
        "@shared_task\ndef ship(order: int) -> str:\n    return greet.enqueue('ada').id\n",
    )
    load(f"{pkg}.{first}")
    app: Headrace = load(f"{pkg}.app").app
    with app.testing() as t:
        load(f"{pkg}.orders").ship.enqueue(1)
        assert t.run_all() == 2
    assert sorted(app.tasks) == [f"{pkg}.mail:greet", f"{pkg}.mail:send", f"{pkg}.orders:ship"]


def test_a_module_may_read_the_tasks_while_it_is_imported(package: Package, app: Headrace) -> None:
    """Also those that it has declared itself so far; the rest of it is not lost."""
    pkg = package(
        app=APP.replace('"{pkg}.mail"', '"{pkg}.plans", "{pkg}.mail"'),
        mail=MAIL,
        plans="from {pkg}.app import app\nfrom headrace import shared_task\n"
        "@shared_task\ndef early() -> None: ...\n"
        'app.schedule("mail", app.tasks["{pkg}.mail:send"].every("every day at 4am"), "ada")\n'
        'app.schedule("early", early.every("every day at 5am"))\n'
        "@shared_task\ndef late() -> None: ...\n",
    )
    load(f"{pkg}.plans")
    own: Headrace = load(f"{pkg}.app").app
    assert {"early", "late", "send", "receive"} == {name.partition(":")[2] for name in own.tasks}
    assert sorted(own.declared) == ["early", "mail"]


def test_threads_that_need_the_tasks_at_once_all_find_them(package: Package, app: Headrace) -> None:
    pkg = package(mail=f"import time\ntime.sleep(0.05)\n{MAIL}")
    app.include(f"{pkg}.mail")
    found: list[list[str]] = []
    threads = [threading.Thread(target=lambda: found.append(sorted(app.tasks))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[f"{pkg}.mail:receive", f"{pkg}.mail:send"]] * 8


def test_a_misspelt_module_is_named_each_time(package: Package, app: Headrace) -> None:
    pkg = package(mail=MAIL)
    app.include(f"{pkg}.mial")
    for _ in range(2):
        with pytest.raises(
            ConfigurationError, match=rf"include\('{pkg}.mial'\): there is no module named '{pkg}.mial'"
        ):
            _ = app.tasks


def test_a_mistake_in_a_module_is_raised_as_it_is(package: Package, app: Headrace) -> None:
    app.include(f"{package(mail='import no_such_library')}.mail", f"{package(mail='1 / 0')}.mail")
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        _ = app.tasks


@pytest.mark.parametrize("name", ["", ".mail", "shop..mail", "shop/mail.py", 5, None])
def test_what_is_no_name_of_a_module_is_refused_at_once(name: str, app: Headrace) -> None:
    with pytest.raises(ConfigurationError, match=r"takes the full names of modules, as in app.include\('shop.mail'\)"):
        app.include("fractions", name)
    assert app.tasks == {}


# -- shared tasks --


def test_a_shared_task_of_one_app_is_used_like_any_task(package: Package) -> None:
    pkg = package(mail=MAIL, app=APP)
    mail, app = load(f"{pkg}.mail"), load(f"{pkg}.app").app
    assert mail.send("ada") == "sent to ada"
    with app.testing() as t:
        jobs = [
            mail.send.enqueue("ada"),
            mail.send.using(queue="slow", tags=["x"]).enqueue("bob"),
            *app.enqueue_many([mail.send.call("eve")]),
            *flow.chain(mail.receive.call(), mail.send.call("zoe")),
        ]
        t.run_all()
        assert t.assert_enqueued(mail.send, to="bob").queue == "slow"
        t.assert_not_enqueued(mail.send, to="dan")
        assert [job.result() for job in jobs] == ["sent to ada", "sent to bob", "sent to eve", 1, "sent to zoe"]
        assert {job.task for job in jobs} == {f"{pkg}.mail:send", f"{pkg}.mail:receive"}


def test_a_shared_coroutine_function_is_one(package: Package) -> None:
    pkg = package(mail=MAIL, app=APP)
    mail, app = load(f"{pkg}.mail"), load(f"{pkg}.app").app
    assert mail.receive.of(app).is_async

    async def calls() -> None:
        assert await mail.receive(2) == 2
        with app.testing() as t:
            job = await mail.receive.aenqueue(3)
            await t.arun_all()
            assert await job == 3

    asyncio.run(calls())


def test_a_shared_task_can_be_scheduled_and_schedules_can_get_it(package: Package) -> None:
    pkg = package(mail=MAIL, app=APP)
    mail, app = load(f"{pkg}.mail"), load(f"{pkg}.app").app
    app.schedule("nightly", mail.send.every("every day at 4am"), "ada")
    with app.testing(schedules=True) as t:
        stored = mail.receive.cron("0 5 * * *", name="five").enqueue(7)
        stored.edit(task=mail.send, args=["bob"])
        mail.receive.repeat("FINISHED, +1 HOUR", name="hourly").enqueue()
        t.advance("1 day")
        t.run_all()
        assert {"sent to ada", "sent to bob"} <= {job.result() for job in t.jobs if job.state == "done"}


def test_a_shared_task_that_no_app_includes_is_refused_in_words() -> None:
    @shared_task
    def lonely() -> int:
        return 1

    assert lonely() == 1
    with pytest.raises(
        ConfigurationError,
        match=rf"lonely is a shared task that no app includes yet. Write app.include\('{__name__}'\) where the app",
    ):
        lonely.enqueue()


@pytest.fixture
def both(package: Package) -> tuple[Headrace, Headrace, SharedTask[[str], str]]:
    """Two apps, and the task that they share."""
    pkg = package(mail=MAIL)
    apps = Headrace("sqlite:///:memory:", name="one"), Headrace("sqlite:///:memory:", name="two")
    for app in apps:
        app.include(f"{pkg}.mail")
    return *apps, load(f"{pkg}.mail").send


Both = tuple[Headrace, Headrace, SharedTask[[str], str]]


def test_a_task_of_several_apps_must_be_told_which(both: Both) -> None:
    one, two, send = both
    with pytest.raises(ConfigurationError, match=r"is a task of 2 apps \(<Headrace one on .*Say which one: send.of\("):
        send.enqueue("ada")
    with one.testing() as first, two.testing() as second:
        with pytest.raises(ConfigurationError, match="is a task of 2 apps"):
            send.enqueue("ada")
        send.of(one).enqueue("ada")
        two.tasks[send.name].enqueue("bob")
        one.schedule("nightly", send.of(one).every("every day at 4am"), "ada")
        with pytest.raises(ArgumentsError, match="of another app"):
            one.schedule("wrong", send.of(two).every("every day at 4am"), "ada")
        assert (len(first.jobs), len(second.jobs)) == (1, 1)


def test_inside_a_run_the_app_of_the_run_is_meant(both: Both) -> None:
    one, two, send = both

    @one.task(name="parent")
    def parent() -> str:
        return send.enqueue("ada").id

    with one.testing() as first, two.testing() as second:
        parent.enqueue()
        first.run_all()
        assert first.assert_enqueued(send, "ada").result() == "sent to ada"
        second.assert_not_enqueued(send)


def test_inside_testing_the_app_that_is_tested_is_meant(both: Both) -> None:
    """A factory makes an app for each test, and all of them include the same tasks."""
    one, _, send = both
    with one.testing() as t:
        job = send.enqueue("ada")
        t.run_all()
        assert job.result() == "sent to ada"


def test_an_app_that_does_not_include_a_task_is_told_how(both: Both, app: Headrace) -> None:
    *_, send = both
    with pytest.raises(ConfigurationError, match=rf"does not include .*Write app.include\('{send.module}'\)."):
        send.of(app)


def test_each_app_has_its_own_defaults(package: Package) -> None:
    pkg = package(mail=MAIL)
    patient, hasty = Headrace("sqlite:///:memory:", retries=7), Headrace("sqlite:///:memory:")
    for app in (patient, hasty):
        app.include(f"{pkg}.mail")
    assert [app.tasks[f"{pkg}.mail:send"].options.retries for app in (patient, hasty)] == [7, 0]


def test_a_package_brings_the_shared_tasks_of_the_modules_that_it_imports(package: Package, app: Headrace) -> None:
    """And not those that it imports from elsewhere, which may be meant for another app."""
    other = package(mail=MAIL)
    pkg = package(
        mail__lists=f"from headrace import shared_task\nfrom {other}.mail import send\n"
        "@shared_task\ndef subscribe() -> None: ...\n"
    )
    app.include(f"{pkg}.mail")
    assert list(app.tasks) == [f"{pkg}.mail.lists:subscribe"]


def test_a_name_that_is_taken_is_refused(package: Package, app: Headrace) -> None:
    declaration = 'from headrace import shared_task\n@shared_task(name="mail:send")\ndef {}() -> None: ...\n'
    pkg = package(one=declaration.format("a"), two=declaration.format("b"), three=declaration.format("c") * 2)
    app.include(f"{pkg}.one", f"{pkg}.two")
    with pytest.raises(ConfigurationError, match="There is a task 'mail:send' already"):
        _ = app.tasks
    load(f"{pkg}.three")  # the same function again, as when a module is reloaded
    with pytest.raises(ConfigurationError, match="There is a shared task 'mail:twice' already"):
        exec("""
from headrace import shared_task
@shared_task(name="mail:twice")
def first(): ...
@shared_task(name="mail:twice")
def second(): ...
""")


def test_a_reloaded_module_declares_its_tasks_anew(package: Package, app: Headrace) -> None:
    module = load(f"{package(mail=MAIL)}.mail")
    importlib.reload(module)
    app.include(module.__name__)
    assert app.tasks[f"{module.__name__}:send"] is module.send.of(app)


# -- what is checked when --


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"colour": "red"}, "@shared_task does not know the option 'colour'"),
        ({"retries": -1}, "retries"),
        ({"scratch": True}, "add isolate=True"),
        ({"limit": 3}, "add lane="),
        ({"lane": "x-{nobody}"}, "names 'nobody', which is not a parameter of the task"),
        ({"name": ""}, "name"),
    ],
)
def test_options_are_checked_at_the_declaration(options: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):

        @shared_task(**options)  # type: ignore[call-overload]
        def mistaken(to: str) -> None: ...


@pytest.mark.parametrize("function", [lambda: None, int, 5])
def test_what_is_no_function_of_a_module_is_refused_at_the_declaration(function: object) -> None:
    with pytest.raises(ConfigurationError, match="@shared_task"):
        shared_task(function)  # type: ignore[call-overload]


def test_types_are_checked_when_an_app_needs_the_task(package: Package, app: Headrace) -> None:
    pkg = package(
        bad="import threading\nfrom headrace import shared_task\n"
        "@shared_task\ndef wait(lock: threading.Event) -> None: ...\n"
    )
    app.include(f"{pkg}.bad")
    for _ in range(2):
        with pytest.raises(ConfigurationError, match=rf"{pkg}.bad:wait"):
            _ = app.tasks


def test_a_value_must_be_provided_once_all_modules_are_there(package: Package, app: Headrace) -> None:
    """The provider may come from a module that is included later, and enqueueing needs none."""
    pkg = package(
        app=APP.replace('"{pkg}.mail"', '"{pkg}.mail", "{pkg}.pools"'),
        mail="from headrace import inject, shared_task\n"
        "@shared_task\ndef count(step: int, *, pool: int = inject('pool')) -> int:\n    return pool + step\n",
        pools="from {pkg}.app import app\n@app.provide('pool')\ndef pool() -> int:\n    return 41\n",
    )
    own, mail = load(f"{pkg}.app").app, load(f"{pkg}.mail")
    assert mail.count.call(1).task.app is own
    with own.testing() as t:
        job = mail.count.enqueue(1)
        t.run_all()
        assert job.result() == 42
    app.include(f"{pkg}.mail")
    with pytest.raises(ConfigurationError, match="count asks for 'pool', which nothing provides"):
        _ = app.tasks


def test_a_shared_task_is_no_function_for_another_decorator(app: Headrace) -> None:
    with pytest.raises(
        ConfigurationError, match=r"<shared task .*twice> is a task already: @app.task takes a function"
    ):

        @app.task  # type: ignore[arg-type]
        @shared_task
        def twice(pool: int = inject("pool")) -> None: ...


def test_flow_tells_how_a_shared_task_is_called(both: Both) -> None:
    with pytest.raises(ArgumentsError, match=r"not SharedTask: write send.call\(...\)"):
        flow.chain(both[2])  # type: ignore[arg-type]
