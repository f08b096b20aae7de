-- migrate_due: scheduled jobs, which were in one sorted set in format 1, get into one for each queue. What has been moved is not there
-- any more: the step needs no position.
--
-- ARGV[2]  the step after this one
-- Answers  the step to call next
--@include migration job

if at_step ~= 'migrate_due' then
  return at_step or ''
end
local OLD, AT_ONCE = PREFIX .. 'due', 1000
check_type(OLD, 'zset')
check_type(DUE, 'zset')
local found = call('ZRANGE', OLD, 0, AT_ONCE - 1, 'WITHSCORES')
local members, ids, moved = {}, {}, {}
for i = 1, #found, 2 do
  members[#members + 1], ids[#ids + 1] = found[i], found[i]:sub(7)
end
local records = read_many('HMGET', JOB, ids)
for i, id in ipairs(ids) do
  if records[i] then
    -- One that cannot be read is set aside when its time comes.
    local good, job = pcall(parse, id, records[i])
    local queue = good and job.queue or '(unknown)'
    append(moved, queue, found[2 * i], members[i])
    check_type(PREFIX .. 'due:' .. queue, 'zset')
  end
end
local answer = go_on(#members == AT_ONCE and '' or nil)
bulk('ZREM', OLD, members)
for queue, entries in pairs(moved) do
  bulk('ZADD', PREFIX .. 'due:' .. queue, entries)
  call('ZADD', DUE, 'LT', entries[1], queue)
end
return answer
