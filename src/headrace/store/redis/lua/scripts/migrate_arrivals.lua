-- migrate_arrivals: all jobs get into an index in order of arrival, of which `migrate_blocks` makes blocks; and those that are
-- blocked, failed or cancelled into the indexes of these.
--
-- ARGV[2]  the step after this one
-- Answers  the step to call next
--@include migration

if at_step ~= 'migrate_arrivals' then
  return at_step or ''
end
local INDEXES = { [BLOCKED] = 'state:blocked', [FAILED] = 'state:failed', [CANCELLED] = 'state:cancelled' }
local found, behind = next_piece(JOB, 1000)
local enter = {}
for i = 1, #found, 2 do
  local id, record = found[i], found[i + 1]
  -- One that is damaged arrives anew when it is set aside.
  if #record >= HEAD_SIZE and record:byte(1) <= CANCELLED then
    local arrival = unpack_from('>I6', record, ARRIVAL_AT)
    for _, index in ipairs({ 'ordered', INDEXES[record:byte(1)] }) do
      append(enter, index, arrival, id)
    end
  end
end
for index in pairs(enter) do
  check_type(PREFIX .. index, 'zset')
end
local answer = go_on(behind)
for index, members in pairs(enter) do
  bulk('ZADD', PREFIX .. index, members)
end
return answer
