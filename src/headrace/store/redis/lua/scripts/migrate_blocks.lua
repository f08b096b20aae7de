-- migrate_blocks: what `migrate_arrivals` has put in order becomes the blocks of arrivals.lua, oldest first.
--
-- ARGV[2]  the step after this one
-- Answers  the step to call next
--@include migration arrivals

if at_step ~= 'migrate_blocks' then
  return at_step or ''
end
local AT_ONCE = 8
local ORDERED, HOLES = PREFIX .. 'ordered', PREFIX .. 'holes'
local last = tonumber(call('HGET', META, 'jobs') or 0) or 0
local blocks, behind = {}, 'more'
for _ = 1, AT_ONCE do
  local reached = blocks[1] and (blocks[#blocks].number + 1) * BLOCK or 0
  local head = call('ZRANGEBYSCORE', ORDERED, string.format('%.0f', reached), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if not head[2] then
    behind = nil
    break
  end
  local number = math.floor(tonumber(head[2]) / BLOCK)
  local ids = call('ZRANGEBYSCORE', ORDERED, number * BLOCK, (number + 1) * BLOCK - 1)
  blocks[#blocks + 1] = { number = number, ids = ids }
end
-- The block that the next job comes to is there, even if all of its jobs are gone.
local open = math.floor(last / BLOCK)
local is_there = last == 0 or last % BLOCK == BLOCK - 1 or call('ZSCORE', ARRIVALS, open)
if not behind and not is_there and not (blocks[1] and blocks[#blocks].number == open) then
  blocks[#blocks + 1] = { number = open, ids = {} }
end
for _, block in ipairs(blocks) do
  check_type(block_key(block.number), 'list')
end
check_type(ARRIVALS, 'zset')
check_type(HOLES, 'hash')
local answer = go_on(behind)
for _, block in ipairs(blocks) do
  local first, behind = math.max(block.number * BLOCK, 1), (block.number + 1) * BLOCK
  local holes = math.min(behind, last + 1) - first - #block.ids
  if block.ids[1] then
    call('RPUSH', block_key(block.number), packed_ids(block.ids, 1, #block.ids))
  end
  call('ZADD', ARRIVALS, block.number, block.number)
  if holes > 0 then
    call('HSET', HOLES, block.number, holes)
  end
  call('ZREMRANGEBYSCORE', ORDERED, first, behind - 1)
end
return answer
