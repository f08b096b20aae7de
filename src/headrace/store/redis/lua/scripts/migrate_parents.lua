-- migrate_parents: which jobs a job comes after was in {ns}:more in format 1, and is in {ns}:after in format 2. One that did not say
-- what it does when one of these fails went on waiting in format 1, and fails in format 2: it says so now.
--
-- ARGV[2]  the step after this one
-- Answers  the step to call next
--@include migration

if at_step ~= 'migrate_parents' then
  return at_step or ''
end
local MORE_KEY, AFTER = PREFIX .. 'more', PREFIX .. 'after'
check_type(AFTER, 'hash')
local found, behind = next_piece(MORE_KEY, 1000)
local changed, parents = {}, {}
for i = 1, #found, 2 do
  local good, more = pcall(cmsgpack.unpack, found[i + 1])
  if good and type(more) == 'table' and type(more.after) == 'table' then
    local packed = {}
    for place, id in ipairs(more.after) do
      packed[place] = pack('>Hc0', #id, id)
    end
    if packed[1] then
      parents[#parents + 1] = found[i]
      parents[#parents + 1] = table.concat(packed)
    end
    more.after, more.if_failed = packed[1] and #packed or nil, more.if_failed or 'wait'
    changed[#changed + 1] = found[i]
    changed[#changed + 1] = cmsgpack.pack(more)
  end
end
local answer = go_on(behind)
bulk('HSET', AFTER, parents)
bulk('HSET', MORE_KEY, changed)
return answer
