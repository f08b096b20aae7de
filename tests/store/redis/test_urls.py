"""URLs, and what is wrong with some."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing

import pytest

from headrace.errors import ConfigurationError
from headrace.store import open_store
from headrace.store.redis import RedisStore
from headrace.store.redis.addresses import parse


@pytest.mark.parametrize(
    ("url", "kind", "name", "namespace"),
    [
        ("redis://localhost", "single", "Redis at localhost:6379", "headrace"),
        ("redis://:pw@localhost:1/2?ns=shop", "single", "Redis at localhost:1", "shop"),
        ("rediss://user:pw@h/0?ssl_cert_reqs=none&ns=a", "single", "Redis at h:6379", "a"),
        ("unix:///tmp/s?ns=x&db=2", "single", "Redis at /tmp/s", "x"),
        ("redis+cluster://a,b:7001?ns=x", "cluster", "Redis cluster at a:6379,b:7001", "x"),
        ("redis+sentinel://a,b:7/main/0?ns=x", "sentinel", "Redis service 'main' of a:26379,b:7", "x"),
    ],
)
def test_a_url_says_where_and_which_namespace(url: str, kind: str, name: str, namespace: str) -> None:
    place, found = parse(url)
    assert (place.kind, place.name, found) == (kind, name, namespace)
    with closing(open_store(url)) as store:  # nothing is sent before it is used
        assert isinstance(store, RedisStore)
        assert store.url == url


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://", "names no Redis server"),
        ("unix://", "names no Redis server"),
        ("redis+sentinel://a,b", "which service"),
        ("redis+cluster://a,,b", "host that is empty"),
        ("redis+cluster://a:x", "a:x"),
        ("redis://h?ns=", "namespace"),
        ("redis://h?ns=a{b}", "namespace"),
        ("redis://h?db=x", "db"),
    ],
)
def test_what_is_wrong_with_a_url_is_said(url: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        RedisStore(url)


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://:topsecret@h1",
        "redis+cluster://u:topsecret@,x",
        "redis+cluster://u:topsecret@h:99999",
        "redis:/u:topsecret@h",
        "reddis://u:topsecret@h",
        "redis://u:top%73ecret@h?ns=a{b",
        "workkit+redis://u:topsecret@h",
        "workkit+redis://u:topsecret@h?schedule=s&ns=x",
        "hworker+redis://u:topsecret@h?name=n&timeout=x",
        "gearmonkey+redis://u:topsecret@h?ns=x",
        "bedrock://u:topsecret@h:99999",
        "bedrock://u:topsecret@h?foo=1",
    ],
)
def test_a_url_that_is_refused_keeps_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        open_store(url)
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None or "secret" not in str(refused.value.__cause__)


def test_redis_is_imported_only_when_it_is_used() -> None:
    code = "import sys, headrace.store; headrace.store.open_store('sqlite:///:memory:'); print('redis' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_missing_redis_package_is_told_with_what_to_install() -> None:
    code = (
        "import sys; sys.modules['redis'] = None\n"
        "from headrace.store import open_store\n"
        "try: open_store('redis://h')\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.startswith("ConfigurationError")
    assert "headrace[redis]" in output
