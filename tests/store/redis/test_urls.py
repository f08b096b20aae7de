"""URLs, and what is wrong with some."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from headrace.cli.exits import CONFIGURATION
from headrace.errors import ConfigurationError, StoreUnavailable, Unsupported
from headrace.store import open_store
from headrace.store.facets import Tags, facet
from headrace.store.redis.addresses import OPTIONS, parse
from headrace.store.redis.store import RedisStore
from processes import environment


@pytest.mark.parametrize(
    ("url", "kind", "name", "namespace"),
    [
        ("redis://localhost", "single", "Redis at localhost:6379", "headrace"),
        ("redis://:pw@localhost:1/2?ns=shop", "single", "Redis at localhost:1", "shop"),
        ("rediss://user:pw@h/0?ssl_cert_reqs=none&ns=a", "single", "Redis at h:6379", "a"),
        ("unix:///tmp/s?ns=x&db=2", "single", "Redis at /tmp/s", "x"),
        ("redis+cluster://a,b:7001?ns=x", "cluster", "Redis cluster at a:6379,b:7001", "x"),
        ("redis+sentinel://a,b:7/main/0?ns=x", "sentinel", "Redis service 'main' of a:26379,b:7", "x"),
        ("REDIS://h:/", "single", "Redis at h:6379", "headrace"),
        ("redis://[::1]:7/0", "single", "Redis at [::1]:7", "headrace"),
        ("redis://u:p%40%2F@h/0?socket_timeout=2.5&socket_keepalive=no", "single", "Redis at h:6379", "headrace"),
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
        ("redis:/h", "names no Redis server"),
        ("redis://", "host that is empty"),
        ("redis:///0", "host that is empty"),
        ("redis://:pw@/0", "host that is empty"),
        ("unix://", "absolute path"),
        ("unix://tmp/redis.sock", "absolute path"),
        ("redis+sentinel://a,b", "which service"),
        ("redis+cluster://a,,b", "host that is empty"),
        ("redis+cluster://a:x", "Ports are numbers"),
        ("redis://h:abc/0", "Ports are numbers"),
        ("redis://h:99999/0", "Ports are numbers"),
        ("redis://h:0/0", "Ports are numbers"),
        ("redis://h:6379:5/0", "Ports are numbers"),
        ("redis://[::1/0", "in brackets"),
        ("redis://[::1]6379/0", "in brackets"),
        ("redis://h/shop", r"'shop' is no database .* A namespace is an option"),
        ("redis://h/-1", "'-1' is no database"),
        ("redis://h/0/1", "'0/1' is no database"),
        ("redis://h/0?db=1", "two databases"),
        ("redis+sentinel://h/s/abc", "'abc' is no database"),
        ("redis+sentinel://h/s?foo=1", "no option 'foo'"),
        ("redis://h?tls=1", "no option 'tls'"),
        ("unix:///tmp/s?socket_keepalive=1", "no option 'socket_keepalive'"),
        ("redis+cluster://h/3", "'3' is no database"),
        ("redis+cluster://h?db=3", "no option 'db'"),
        ("redis://h/0#ns", "write it as %23"),
        ("redis://h?ns=", "namespace"),
        ("redis://h?ns=a{b}", "namespace"),
        ("redis://h?ns=a&ns=b", "ns is said twice"),
        ("redis://h?ns=a%FFb", "not UTF-8"),
        ("redis://h?ns=a\udcff", "cannot be printed"),
        ("redis://h?NS=shop", "no option 'NS'. There are ns, "),
        ("redis://h?foo=bar", "no option 'foo'"),
        ("redis://h?protocol=3", "no option 'protocol'"),
        ("redis://h?decode_responses=true", "no option 'decode_responses'"),
        ("redis://h?max_connections=5", "no option 'max_connections'"),
        (
            "redis://h?ssl_ca_certs=/",
            r"no option 'ssl_ca_certs' \(redis\+cluster and .* and rediss have it",
        ),
        ("redis+cluster://h?ssl_ca_certs=/", "tls=yes"),
        ("redis+cluster://h?tls=maybe", "tls is yes or no"),
        ("rediss://h?ssl_cert_reqs=bogus", "ssl_cert_reqs is none, optional or required"),
        ("rediss://h?ssl_ca_certs=/nowhere", "ssl_ca_certs is the path of a file"),
        ("redis://h?socket_timeout=abc", "socket_timeout is a number of seconds"),
        ("redis://h?socket_timeout=0", "socket_timeout is a number of seconds"),
        ("redis://h?db=x", "db is the number of a database"),
    ],
)
def test_what_is_wrong_with_a_url_is_said(url: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        open_store(url)


@pytest.mark.parametrize(
    "url",
    ["redis://:se#cret@h/0", "redis://u:se/cret@h/0", "redis://u:1?se=cret@h/0", "redis+cluster://u:1/cret@h"],
)
def test_a_password_that_is_not_escaped_is_told_how_to_be(url: str) -> None:
    with pytest.raises(ConfigurationError, match="write / as %2F") as refused:
        open_store(url)
    assert "se" not in str(refused.value).replace("user", "").replace("else", "")
    assert "cret" not in str(refused.value)


DIALECTS = {
    "qless+redis://h:1/0": "",
    "gearmonkey+redis://h:1/0": "",
    "hworker+redis://h:1/0": "name=n",
    "workkit+redis://h:1/0": "schedule=s",
}


@pytest.mark.parametrize("url", DIALECTS)
def test_what_is_wrong_with_the_url_of_a_dialect_is_said(url: str) -> None:
    own = DIALECTS[url]
    with closing(open_store(f"{url}?{own}&socket_timeout=3&db=0")):
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
        "redis://h?client_name=me&socket_connect_timeout=1&socket_keepalive=yes&password=p",
        "rediss://h/1?ssl_cert_reqs=none&ssl_check_hostname=no&ssl_ciphers=HIGH&db=1",
        "redis+sentinel://a,b/main/1?tls=yes&ssl_cert_reqs=none&sentinel_username=u&sentinel_password=p",
        "redis+cluster://a,b/0?tls=1",
        "unix://u:p@/nowhere?db=3",
        "redis://h/%31",
        "redis://[::1]:1/0",
    ],
)
def test_what_connections_take_may_be_said(url: str) -> None:
    with closing(open_store(url)) as store:
        assert isinstance(store, RedisStore)
        with pytest.raises(StoreUnavailable):
            store.run(store.counts())
        with pytest.raises(StoreUnavailable):
            asyncio.run(store.arun(store.counts()))


@pytest.mark.parametrize(
    "url",
    [
        "redis+sentinel://:topsecret@h1",
        "redis+cluster://u:topsecret@,x",
        "redis+cluster://u:topsecret@h:99999",
        "redis:/u:topsecret@h",
        "redis://u:topsecret@",
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


def test_what_a_dialect_cannot_do_is_told_without_the_password() -> None:
    with closing(open_store("gearmonkey+redis://u:topsecret@h/0")) as store, pytest.raises(Unsupported) as refused:
        facet(store, Tags)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["redis://:se#cret@localhost/0", "redis://localhost:abc/0", "redis://localhost/0?foo=1"]
)
def test_the_command_line_ends_with_the_code_for_configuration(url: str) -> None:
    command = [sys.executable, "-m", "headrace", "queues", "--store", url]
    ended = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert ended.returncode == CONFIGURATION
    assert ended.stderr.startswith("headrace: 'redis://")
    assert ended.stderr.count("\n") == 1
    assert "cret" not in ended.stderr


def test_the_guide_names_every_option() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "guide.md").read_text()
    page = guide.partition("## Redis URLs")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(\w+)`", page))
    assert named > {"ns"}.union(*OPTIONS.values())


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
