-- lanes: some lanes of a queue, in no order; one may come twice.
--
-- ARGV[2]  queue
-- ARGV[3]  where to go on, '' to begin
-- ARGV[4]  how many, about
-- Answers  {where to go on ('': that was all), {key, limit, rate, per, 1 if it is a sequence, how many of its jobs have not ended, how many
--          run, weight, what an operator has set as msgpack}, ...}, '' for what a lane does not have
--@include current admission

local AT_ONCE = 500
local queue, answer = ARGV[2], { '' }
local ruled, cursor = ARGV[3]:match('^([rl])(%d+)$')
local key = ruled == 'l' and lanes.key or lanes.rules
local next_, found = unpack(call('HSCAN', key, cursor or '0', 'COUNT', math.min(tonumber(ARGV[4]) or AT_ONCE, AT_ONCE)))
local prefix = lanes.name(queue, '')
for i = 1, #found, 2 do
  local name = found[i]
  if name:sub(1, #prefix) == prefix then
    local lane = lanes.shown(name)
    -- Those with a rule came first.
    if lane and (ruled ~= 'l' or not lane.kept.rule) then
      local kept = lane.kept
      answer[#answer + 1] = {
        kept.key, kept.limit or '', kept.rate or '', kept.per, kept.sequence and 1 or 0, kept.number, lane.running,
        kept.weight or 1, lanes.packed(kept.rule),
      }
    end
  end
end
if next_ ~= '0' then
  answer[1] = (ruled or 'r') .. next_
elseif ruled ~= 'l' then
  answer[1] = 'l0'
end
return answer
