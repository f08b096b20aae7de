"""What cannot work is refused where it is declared, in words."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from headrace import Headrace, JobFailed
from headrace.errors import ConfigurationError


@pytest.fixture
def app() -> Iterator[Headrace]:
    made = Headrace("sqlite:///:memory:")
    yield made
    made.close()


def plain(*args: Any) -> None: ...


async def coroutine(*args: Any) -> None: ...


def generator(*args: Any) -> Iterator[None]:
    yield


async def async_generator(*args: Any) -> AsyncIterator[None]:
    yield


class Notifier:
    async def __call__(self, context: Any, error: BaseException) -> None: ...


def refusal(declare: Callable[[], Any]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        declare()
    return str(caught.value)


def test_hooks_are_functions_of_what_they_are_called_with(app: Headrace) -> None:
    def bare() -> None: ...
    def wrapping() -> Iterator[None]:
        yield

    def of_one(it: Any) -> None: ...

    for register, hook, takes in (
        (app.middleware, wrapping, "@app.middleware takes a function of (context)"),
        (app.on_failure, of_one, "on_failure takes a function of (context, error)"),
        (lambda hook: app.task(on_failure=hook)(plain), bare, "on_failure takes a function of (context, error)"),
        (app.on_start, of_one, "@app.on_start takes a function without parameters"),
        (app.on_stop, of_one, "@app.on_stop takes a function without parameters"),
        (app.provide("pool"), of_one, "@app.provide('pool') takes a function without parameters"),
    ):
        assert refusal(functools.partial(register, hook)).startswith(f"{takes}; {hook!r} can't be called like that: ")
    app.on_start(print)  # what it takes, it does not say
    app.on_failure(functools.partial(plain, 1))


@pytest.mark.parametrize("function", [plain, coroutine, async_generator, functools.partial(plain, 1), 5])
def test_middleware_is_a_generator_function(app: Headrace, function: Any) -> None:
    words = refusal(lambda: app.middleware(function))
    assert words == f"@app.middleware takes a plain generator function that yields once, not {function!r}."
    assert app.middlewares == []


@pytest.mark.parametrize("function", [coroutine, generator, async_generator, Notifier(), 5])
def test_on_failure_is_a_plain_function(app: Headrace, function: Any) -> None:
    words = f"on_failure takes a plain function, which is called where the job ran, loop or not; not {function!r}."
    assert refusal(lambda: app.on_failure(function)) == words
    assert refusal(lambda: app.task(on_failure=function)(plain)) == words
    assert app.failure_hooks == []
    assert app.tasks == {}


@pytest.mark.parametrize("function", [generator, async_generator, 5])
def test_start_and_stop_hooks_are_functions(app: Headrace, function: Any) -> None:
    assert refusal(lambda: app.on_start(function)) == (
        f"@app.on_start takes a function or a coroutine function, not {function!r}."
    )
    assert refusal(lambda: app.on_stop(function)).startswith("@app.on_stop takes")
    assert app.on_start(coroutine) is coroutine
    assert app.on_stop(plain) is plain


@pytest.mark.parametrize("function", [generator, async_generator, functools.partial(generator, 1)])
def test_a_task_is_no_generator(app: Headrace, function: Any) -> None:
    words = refusal(lambda: app.task(name="stream")(function))
    assert words.startswith(f"{function!r} is a generator function: a job would end before its first line.")
    assert app.tasks == {}


def test_a_task_is_a_function(app: Headrace) -> None:
    assert refusal(lambda: app.task(name="five")(5)) == "@app.task takes a function, not 5."  # type: ignore[type-var]


class Mailer:
    def send(self) -> None: ...

    @classmethod
    def count(cls) -> int:
        return 0


@pytest.mark.parametrize("name", [None, "named"])
@pytest.mark.parametrize("function", [Mailer.send, Mailer().send, Mailer.count, vars(Mailer)["count"]])
def test_a_task_is_no_method(app: Headrace, function: Any, name: str | None) -> None:
    assert refusal(lambda: app.task(name=name)(function)) == (
        f"@app.task takes a function, and {function.__qualname__} is a method: a worker has no object to call it on. "
        "Write a function outside of the class, or put @app.task above @staticmethod."
    )
    assert app.tasks == {}


def test_a_method_is_refused_where_it_is_decorated(app: Headrace) -> None:
    with pytest.raises(ConfigurationError, match=r"Shop\.pack is a method"):

        class Shop:
            @app.task
            def pack(self) -> None: ...


def test_a_static_method_is_a_function(app: Headrace) -> None:
    class Shop:
        @app.task
        @staticmethod
        def price(number: int) -> int:
            return number * 2

    job = Shop.price.enqueue(4)
    app.worker().run_until_empty()
    assert (job.result(timeout=0), Shop().price(4)) == (8, 8)


@pytest.mark.parametrize("name", [None, "named"])
def test_a_task_is_no_class(app: Headrace, name: str | None) -> None:
    assert refusal(lambda: app.task(name=name)(Mailer)) == (
        "@app.task takes a function, and Mailer is a class. Write a function that makes one."
    )


def test_a_lambda_needs_a_name(app: Headrace) -> None:
    words = "A lambda has no name for workers to find it by: pass @app.task(name=...)."
    assert refusal(lambda: app.task(lambda: None)) == words
    assert refusal(lambda: app.task(queue="mail")(lambda: None)) == words
    assert app.task(name="named")(lambda: None).name == "named"


def test_a_function_inside_a_function_is_one(app: Headrace) -> None:
    @app.task
    def inner() -> int:
        return 1

    assert inner.name.endswith(":inner")


def test_a_wrapper_that_forgets_to_await(app: Headrace, recwarn: pytest.WarningsRecorder) -> None:
    """That is seen when it is run, and said as what it is."""

    @functools.wraps(coroutine)
    def wrapper() -> Any:
        return coroutine()

    job = app.task(name="wrapped")(wrapper).enqueue()
    app.worker().run_until_empty()
    with pytest.raises(JobFailed, match="It returned a coroutine, which nobody awaits") as caught:
        job.result(timeout=0)
    assert caught.value.group == "result"
    assert not [warning for warning in recwarn if "never awaited" in str(warning.message)]
