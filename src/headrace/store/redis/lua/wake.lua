-- Publishing is a courtesy: a user who may not do it gets jobs done all the same.
local function publish(channel)
  local heard = redis.pcall('PUBLISH', PREFIX .. channel, '')
  return type(heard) == 'number' and heard or 0
end

-- To a session that may be asleep: on its channel, and in the list that it is blocked on if it waits and takes in one. False: its
-- process is gone.
local function rouse(session)
  if publish('wake:' .. session) == 0 then
    return false
  end
  local bell = PREFIX .. 'bell:' .. session
  call('DEL', bell) -- once is enough
  call('RPUSH', bell, '1')
  call('PEXPIRE', bell, 60000)
  return true
end

-- As many sleepers as there are jobs for them. One whose process is gone does not count. A hint carries no job.
local function wake(queue, number)
  local key = PREFIX .. 'hungry:' .. queue
  local woken = 0
  for _ = 1, 64 do
    if woken >= number then
      return
    end
    local session = call('ZPOPMIN', key)[1]
    if not session then
      return
    end
    if rouse(session) then
      woken = woken + 1
    end
  end
end
