"""URLs, and what is wrong with some."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing

import pytest

from headrace.errors import ConfigurationError, StoreUnavailable
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
        ("redis://h/abc", "'abc' is no database"),
        ("redis://h/0/1", "'0/1' is no database"),
        ("redis://h/-1", "'-1' is no database"),
        ("redis://h:x/0", "Port"),
        ("redis://h:70000/0", "Port"),
        ("redis://h?foo=1", "no option 'foo'.*ns, client_name, db"),
        ("redis://h?decode_responses=1", "no option 'decode_responses'"),
        ("redis://h?protocol=3", "no option 'protocol'"),
        ("redis://h?ssl_cert_reqs=none", "no option 'ssl_cert_reqs'"),
        ("redis://h?tls=1", "no option 'tls'"),
        ("unix:///tmp/s?socket_keepalive=1", "no option 'socket_keepalive'"),
        ("redis+cluster://a,b/3", "'3' is no database"),
        ("redis+sentinel://a,b/main/x", "'x' is no database"),
        ("redis+sentinel://a,b/main?foo=1", "no option 'foo'"),
    ],
)
def test_what_is_wrong_with_a_url_is_said(url: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        RedisStore(url)


DIALECTS = {
    "qless+redis://h:1/0": "",
    "gearmonkey+redis://h:1/0": "",
    "hworker+redis://h:1/0": "name=n",
    "workkit+redis://h:1/0": "schedule=s",
}


@pytest.mark.parametrize("url", DIALECTS)
def test_what_is_wrong_with_the_url_of_a_dialect_is_said(url: str) -> None:
    own = DIALECTS[url]
    with closing(open_store(f"{url}?{own}&socket_timeout=3&db=2")):
        pass
    for wrong, words in (
        ("ns=shop", "no namespace"),
        ("foo=1", "no option 'foo'"),
        ("decode_responses=1", "no option"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            open_store(f"{url}?{own}&{wrong}")
    with pytest.raises(ConfigurationError, match="'abc' is no database"):
        open_store(f"{url[:-1]}abc?{own}")
    dialect = url.partition("+")[0]
    with pytest.raises(ConfigurationError, match=rf"names no Redis server. Write for example {dialect}\+redis://"):
        open_store(f"{dialect}+http://x?{own}")


@pytest.mark.parametrize(
    "url",
    [
        "redis://h?client_name=me&socket_connect_timeout=1&health_check_interval=3&socket_keepalive=yes&password=p",
        "rediss://h/1?ssl_cert_reqs=none&ssl_ca_certs=x&ssl_check_hostname=no",
        "redis+sentinel://a,b/main/1?tls=yes&ssl_cert_reqs=none",
        "redis+cluster://a,b/0?tls=1&ssl_keyfile=x",
        "redis://h/%31",
        "redis://[::1]:1/0",
    ],
)
def test_what_connections_take_may_be_said(url: str) -> None:
    with closing(open_store(url)) as store:
        assert isinstance(store, RedisStore)
        with pytest.raises(StoreUnavailable):
            store.run(store.counts())


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
