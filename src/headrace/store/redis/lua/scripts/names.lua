-- names: keep a long list of queues, so that requests can name it. Requests that use it keep it up; it goes a day after the last.
--
-- ARGV[2]  what it is called: [= and the digest (SHA-1, hexadecimal) of ARGV[3]
-- ARGV[3]  the queues, each once: H name
-- Answers  how many there are
-- Fails    REFUSED
--@include current checks hungry

local key, entries, at = patterns.list_key(ARGV[2]), {}, 1
if not key or ARGV[2] ~= '[=' .. redis.sha1hex(ARGV[3]) then
  checks.refuse('A list of queues is called [= and the digest of its names.')
end
while at <= #ARGV[3] do
  local name
  name, at = unpack_from('>Hc0', ARGV[3], at)
  checks.text(name, 'The name of a queue')
  entries[#entries + 1] = #entries / 2
  entries[#entries + 1] = name
end
if #entries == 0 or #entries > 2 * LONG_LIST then
  checks.refuse('A list of queues has 10,000 names at most, and one at least.')
end
check_type(key, 'zset')
bulk('ZADD', key, entries)
call('PEXPIRE', key, LIST_LASTS)
return #entries / 2
