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
    if call('PUBLISH', PREFIX .. 'wake:' .. session, queue) > 0 then
      woken = woken + 1
    end
  end
end
