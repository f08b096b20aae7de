"""`headrace check` on dialects: it sees what their `find` shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from headrace import Headrace
from headrace.ops import check
from store.redis.servers import Server

from .bedrock.harness import process as bedrock_process

REDIS = {
    "workkit": "workkit+{url}?schedule=checked",
    "hworker": "hworker+{url}?name=checked",
    "gearmonkey": "gearmonkey+{url}",
    "qless": "qless+{url}",
}
NAME = "a/send"


@pytest.fixture(params=[*REDIS, "bedrock"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with ExitStack() as stack:
        if request.param == "bedrock":
            yield f"bedrock://127.0.0.1:{stack.enter_context(bedrock_process(tmp_path / 'jobs.db')).port}"
        else:
            yield REDIS[request.param].format(url=stack.enter_context(closing(Server())).url)


def test_arguments_that_do_not_fit_are_found(url: str) -> None:
    old, new = Headrace(url), Headrace(url)

    @old.task(name=NAME)
    def send(to: str) -> None: ...

    @new.task(name=NAME)
    def send_to(to: int) -> None: ...

    ids = {send.enqueue("ada").id, send.enqueue("bob").id}
    assert check.check(old).ok
    found = check.check(new)
    (misfit,) = found.misfits
    assert (found.jobs, misfit.task, misfit.count) == (2, NAME, 2)
    assert misfit.example in ids
    assert "Expected `int`, got `str` - at `$.to`" in misfit.why
    old.close()
    new.close()
