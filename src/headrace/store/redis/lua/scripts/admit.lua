-- admit: bring in the next part of a batch that has been staged.
--
-- ARGV[2]  the batch
-- Answers  {1 if there are more parts, and once there are none: id of a job that did not come in, id of the one that has its unique
--          key, ...}. Of one whose id another job has: its id, a NUL and its nonce, and its id
--@include put commit

local stages = stages_of(ARGV[2])

local function answer()
  local found, clashes = call('HGETALL', stages.about), { 0 }
  for i = 1, #found, 2 do
    if found[i]:sub(1, 1) == 'c' then
      clashes[#clashes + 1] = found[i]:sub(2)
      clashes[#clashes + 1] = found[i + 1]
    end
  end
  return clashes
end

local parts = call('LRANGE', stages.parts, 0, 1)
put_at = tonumber(call('HGET', stages.about, 'at') or nil)
if not put_at or not parts[1] then
  return answer()
end
count_arrivals()
if parts[1]:sub(1, 1) == 'p' then
  joining.join(parts[1], ARGV[2])
else
  batch = parts[1]:sub(2)
end
read_batch(true)
local clashes, answers, nonces = {}, insert_all()
for i, other in ipairs(answers) do
  if other ~= '' then
    clashes[#clashes + 1] = 'c' .. ids[i] .. (nonces[i] and '\0' .. nonces[i] or '')
    clashes[#clashes + 1] = other
  end
end
work_off()
-- It was accepted when it was staged: it comes in even if the server is full by now.
local keep = keep_arrivals()
commit(function()
  even_when_full()
  keep()
end)
call('LTRIM', stages.parts, 1, -1)
bulk('HSET', stages.about, clashes)
if parts[2] then
  return { 1 }
end
call('ZREM', stages.arriving, ARGV[2])
local clashes_of_all = answer()
if clashes_of_all[2] then
  call('PEXPIRE', stages.about, KEPT)
else
  call('DEL', stages.about)
end
return clashes_of_all
