-- rights: which commands of those that scripts need this user may not run. A script that met one half way would leave half of
-- its work behind: so a client that is about to write asks once.
--
-- Answers  the names of these commands
--@include prelude

local NOTHING = PREFIX .. 'nothing'
local NEEDED = {
  { 'DEL', NOTHING }, -- first: what follows may then take memory, even on a server that has none left
  { 'HSET', NOTHING, 'a', 'b' }, { 'UNLINK', NOTHING }, { 'RPUSH', NOTHING, 'a' }, { 'PEXPIRE', NOTHING, 1000 }, { 'PERSIST', NOTHING },
  { 'DEL', NOTHING }, { 'SADD', NOTHING, 'a' }, { 'DEL', NOTHING }, { 'ZADD', NOTHING, 1, 'a' }, { 'DEL', NOTHING },
  { 'EXISTS', NOTHING }, { 'HDEL', NOTHING, 'a' }, { 'HEXISTS', NOTHING, 'a' }, { 'HGET', NOTHING, 'a' }, { 'HGETALL', NOTHING },
  { 'HKEYS', NOTHING }, { 'HLEN', NOTHING }, { 'HMGET', NOTHING, 'a' }, { 'HSCAN', NOTHING, 0 }, { 'HSTRLEN', NOTHING, 'a' }, { 'LINDEX', NOTHING, 0 },
  { 'LLEN', NOTHING }, { 'LPOS', NOTHING, 'a' }, { 'LRANGE', NOTHING, 0, 0 }, { 'LREM', NOTHING, 1, 'a' }, { 'LTRIM', NOTHING, 0, 0 }, { 'PTTL', NOTHING },
  { 'SCARD', NOTHING }, { 'SISMEMBER', NOTHING, 'a' }, { 'SMEMBERS', NOTHING }, { 'SRANDMEMBER', NOTHING }, { 'SREM', NOTHING, 'a' },
  { 'TIME' }, { 'TYPE', NOTHING }, { 'ZCARD', NOTHING }, { 'ZCOUNT', NOTHING, 0, 0 }, { 'ZMSCORE', NOTHING, 'a' },
  { 'ZPOPMIN', NOTHING }, { 'ZRANGE', NOTHING, 0, 0 }, { 'ZRANGEBYLEX', NOTHING, '-', '+' }, { 'ZRANGEBYSCORE', NOTHING, 0, 0 },
  { 'ZRANK', NOTHING, 'a' }, { 'ZREM', NOTHING, 'a' }, { 'ZREMRANGEBYRANK', NOTHING, 0, 0 }, { 'ZREMRANGEBYSCORE', NOTHING, 0, 0 },
  { 'ZREVRANGEBYSCORE', NOTHING, 0, 0 }, { 'ZSCORE', NOTHING, 'a' },
}

local denied, listed = {}, {}
for _, command in ipairs(NEEDED) do
  local answer = redis.pcall(unpack(command))
  local problem = type(answer) == 'table' and answer.err
  if problem and (problem:find("can't run this command", 1, true) or problem:find('ACL failure', 1, true)) then -- by version
    if not listed[command[1]] then
      listed[command[1]] = true
      denied[#denied + 1] = command[1]
    end
  elseif problem and not problem:find('WRONGTYPE', 1, true) then
    error(problem, 0)
  end
end
return denied
