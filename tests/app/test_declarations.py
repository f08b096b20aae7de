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
