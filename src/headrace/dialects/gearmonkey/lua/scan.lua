-- scan: a bounded step of a walk over all jobs, of whatever function and whoever put them.
--
-- ARGV[2]  cursor
-- Answers  {next cursor, jobs, now}; a job is {function, number, status, ttl, score in the scheduled queue or false, and of the
--          record: its arrival, `cancelled`, queue, task, group}; what there is not is false
--@include prelude record

local page = call('SCAN', ARGV[2], 'MATCH', 'job:*', 'COUNT', 500)
local found = {}
for _, key in ipairs(page[2]) do
  local fn, number = key:match('^job:(.+):(%d+)$')
  if fn and call('TYPE', key).ok == 'hash' then
    local status = call('HGET', key, 'status')
    if status then
      local known = read_record(fn, number)
      local score = status == 'idle' and call('ZSCORE', queue_key(fn, 'scheduled'), number)
      found[#found + 1] = { fn, number, status, call('TTL', key), score, known.arrival, known.state or false,
        known.queue or false, known.task or false, known.group or false }
    end
  end
end
return { page[1], found, now }
