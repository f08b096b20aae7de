"""Tasks on an hworker queue: which one runs its jobs, and how their arguments travel."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

import pytest

from headrace import Headrace, State
from headrace.errors import ConfigurationError
from store.redis.servers import Server

from .scene import Queue

MakeApp = Callable[..., Headrace]


def nothing() -> None: ...
def one(to: str) -> None: ...
def optional(to: str = "all") -> None: ...
def several(a: int, b: str = "x", *, c: bool = False) -> None: ...
def rest(*numbers: int) -> None: ...
def first_and_rest(first: str, *numbers: int) -> None: ...
def words(**words: int) -> None: ...
def array(values: list[int]) -> None: ...
def dictionary(values: dict[str, int]) -> None: ...


CALLS: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], Any]] = [
    (nothing, (), {}, []),
    (one, ("ada",), {}, "ada"),
    (one, (), {"to": "ada"}, "ada"),
    (optional, (), {}, "all"),
    (several, (1,), {}, [1]),
    (several, (1, "y"), {}, [1, "y"]),
    (several, (1,), {"c": True}, [1, "x", True]),
    (rest, (), {}, []),
    (rest, (1, 2), {}, [1, 2]),
    (first_and_rest, ("a",), {}, ["a"]),
    (first_and_rest, ("a", 1, 2), {}, ["a", 1, 2]),
    (words, (), {"x": 1}, {"x": 1}),
    (array, ([1, 2],), {}, [1, 2]),
    (dictionary, ({"k": 1},), {}, {"k": 1}),
]


@pytest.mark.parametrize(("function", "args", "kwargs", "payload"), CALLS, ids=range(len(CALLS)))
def test_arguments_on_the_wire_and_back(
    one_server: Server,
    one_queue: Queue,
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    payload: Any,
) -> None:
    app = Headrace(f"hworker+{one_server.url}?name={name}")
    got: list[Any] = []

    def record(*args: Any, **kwargs: Any) -> None:
        bound = inspect.signature(function).bind(*args, **kwargs)
        bound.apply_defaults()
        got.append(bound.arguments)

    record.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    record.__annotations__ = function.__annotations__
    task = app.task(name="task")(record)
    job = task.enqueue(*args, **kwargs)
    (raw,) = one_queue.jobs
    assert json.loads(raw) == [job.id, payload]
    one_queue.push(json.dumps(["foreign", payload]).encode())
    app.worker().run_until_empty()
    expected = inspect.signature(function).bind(*args, **kwargs)
    expected.apply_defaults()
    assert got == [expected.arguments, expected.arguments]
    app.close()


@pytest.mark.parametrize("payload", [b"[]", b"{}", b"null"])
def test_a_task_without_arguments_takes_every_way_to_say_nothing(
    queue: Queue, make_app: MakeApp, payload: bytes
) -> None:
    app = make_app()
    ran: list[int] = []
    app.task(name="task")(lambda: ran.append(1))
    queue.push(b'["a",%s]' % payload)
    app.worker().run_until_empty()
    assert (ran, queue.broken) == ([1], {})


@pytest.mark.parametrize(
    ("function", "payload"),
    [
        (nothing, 1), (nothing, [1]), (one, 1), (one, ["x"]), (several, []), (several, [1, "x", True, 4]),
        (several, {"a": 1}),
        (several, ["x"]), (rest, 1), (rest, ["x"]), (first_and_rest, []), (words, []),
    ],
)  # fmt: skip
def test_a_payload_that_does_not_fit_is_broken(
    one_server: Server, one_queue: Queue, name: str, function: Callable[..., Any], payload: Any
) -> None:
    app = Headrace(f"hworker+{one_server.url}?name={name}")
    app.task(name="task")(function)
    raw = json.dumps(["a", payload]).encode()
    one_queue.push(raw)
    app.worker().run_until_empty()
    assert list(one_queue.broken) == [raw]
    assert one_queue.is_empty
    app.close()


def both(*texts: str, urgent: bool = False) -> None: ...
def loose(to: str, **options: int) -> None: ...


@pytest.mark.parametrize("function", [both, loose])
def test_arguments_without_a_position_are_refused(make_app: MakeApp, function: Callable[..., Any]) -> None:
    app = make_app()
    task = app.task(name="task")(function)
    with pytest.raises(ConfigurationError, match="by position"):
        task.enqueue("x")
    with pytest.raises(ConfigurationError, match="by position"):
        app.worker().run_until_empty()


# -- queues and tasks --


def test_a_tasks_queue_is_the_name_and_default_is_the_name_in_the_url(
    server: Server, queue: Queue, make_app: MakeApp
) -> None:
    app = make_app()
    got: list[str] = []

    @app.task
    def here(text: str) -> None:
        got.append(text)

    @app.task(queue=f"{queue.name}-other")
    def there(text: str) -> None:
        got.append(text.upper())

    here.enqueue("here")
    there.enqueue("there")
    assert queue.keys == {queue.jobs_key, f"{queue.jobs_key}-other"}
    assert [(counts.queue, counts.by_state) for counts in app.store.run(app.store.counts())] == [
        (queue.name, {State.READY: 1}),
        (f"{queue.name}-other", {State.READY: 1}),
    ]
    app.worker().run_until_empty()
    assert sorted(got) == ["THERE", "here"]
    assert queue.keys == set()


def test_two_tasks_on_one_name_are_refused(make_app: MakeApp, queue: Queue) -> None:
    app = make_app()
    first = app.task(name="first")(one)
    first.enqueue("fine")
    app.task(name="second", queue=queue.name)(optional)
    with pytest.raises(ConfigurationError, match="first and second share"):
        first.enqueue("x")
    with pytest.raises(ConfigurationError, match="first and second share"):
        app.worker().run_until_empty()
    assert len(queue.jobs) == 1


def test_a_job_for_a_queue_of_another_task_is_refused(make_app: MakeApp, queue: Queue) -> None:
    app = make_app()
    task = app.task(name="first")(one)
    with pytest.raises(ConfigurationError, match="has no task here"):
        task.using(queue="elsewhere").enqueue("x")
    assert queue.keys == set()


def test_queues_without_a_task_here_are_left_to_others(make_app: MakeApp, queue: Queue) -> None:
    app = make_app()
    app.task(name="there", queue=f"{queue.name}-other")(one)
    queue.push(b'["a",1]')
    app.worker().run_until_empty()
    assert queue.jobs == [b'["a",1]']
