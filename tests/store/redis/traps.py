"""What tests of scripts share: a trap that springs at a script's k-th call, and what is visible of a store."""

from __future__ import annotations

from typing import Any

from redis.exceptions import ResponseError

from headrace.store.redis import scripts
from headrace.store.redis.operation import Script
from headrace.store.redis.store import RedisStore

from .servers import contents

WRITES = {
    b"hset", b"hdel", b"zadd", b"zrem", b"zremrangebyrank", b"zremrangebyscore", b"zpopmin", b"sadd", b"srem", b"rpush",
    b"ltrim", b"lrem", b"del", b"unlink", b"pexpire", b"persist", b"publish", b"xadd",
}  # fmt: skip


# -- check first, then write --

TRAP = b"""
local redis = (function(calls, real, trap)
  return setmetatable({ call = function(name, ...)
    calls = calls + 1
    if calls == trap then error('TRAP ' .. name:lower() .. ' ;', 0) end
    return real.call(name, ...)
  end }, { __index = real })
end)(0, redis, tonumber(table.remove(ARGV)))
"""


def spring(store: RedisStore, script: Script[Any], k: int) -> bytes | None:
    """Run a script that fails at its k-th call; which command that was, or None if there are fewer."""
    driver = store.driver
    # The number is an argument, so that the server compiles one text and not as many as there are calls.
    text, script = TRAP + scripts.source(script.name), Script(script.name, (*script.arguments, b"%d" % k), script.read)
    command = driver._command(script, whole=True).replace(
        b"$%d\r\n%s\r\n" % (len(scripts.source(script.name)), scripts.source(script.name)),
        b"$%d\r\n%s\r\n" % (len(text), text),
    )
    connection = driver.opener.open()
    try:
        connection.send_packed_command([command])
        connection.read_response()
    except ResponseError as error:
        return str(error).split("TRAP ")[1].split()[0].encode()
    finally:
        connection.disconnect()
    return None


def lasting(store: RedisStore) -> dict[str, Any]:
    """What is in a store; from here on none of its keys expires, however slow the machine is."""
    found = contents(store)
    for key in found:
        store.driver.command("PERSIST", key)
    return found


def visible(store: RedisStore) -> dict[str, object]:
    return {key.removeprefix(store.keys.prefix): value for key, value in contents(store).items()}
