-- Publishing is a courtesy: a user who may not do it gets jobs done all the same.
local function publish(channel)
  local heard = redis.pcall('PUBLISH', PREFIX .. channel, '')
  return type(heard) == 'number' and heard or 0
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
    if publish('wake:' .. session) > 0 then
      woken = woken + 1
    end
  end
end
