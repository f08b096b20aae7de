-- listen: is there work for a session, and if not, when will there be?
--
-- ARGV[2]  session id
-- Answers  {1 if there may be work already, milliseconds until the next scheduled job is due or -1}
--@include prelude record held session

local session = read_session(ARGV[2])
local ahead = -1
for _, fn in ipairs(session and session.functions or {}) do
  if call('EXISTS', queue_key(fn, 'high'), queue_key(fn, 'normal'), queue_key(fn, 'low')) > 0 then
    return { 1, 0 }
  end
  local head = call('ZRANGEBYSCORE', queue_key(fn, 'scheduled'), 0, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  if head[2] then
    local left = math.max(0, tonumber(head[2]) * 1000 - now)
    if left == 0 then
      return { 1, 0 }
    end
    ahead = ahead < 0 and left or math.min(ahead, left)
  end
end
return { 0, ahead }
