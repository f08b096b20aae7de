-- complete jid worker queue data [next queue] [delay seconds] [depends list]
-- Ends a run well. With `next` the job goes on there, and jobs that depend on it go on waiting.
-- Reply: `complete`, or the state in the next queue: `waiting`, `scheduled` or `depends`.
function Qless.complete(now, jid, worker, queue, data, ...)
  required('Complete', 'jid', jid)
  required('Complete', 'worker', worker)
  required('Complete', 'queue', queue)
  json('Complete', 'data', data)
  local to, delay, depends
  if ... then
    local options = {...}
    for i = 1, #options - 1, 2 do
      local name, value = options[i], options[i + 1]
      if name == 'next' then
        to = value ~= '' and value or nil
      elseif name == 'delay' then
        delay = number('Complete', 'delay', value)
      elseif name == 'depends' then
        depends = Qless.Values.list('Complete', 'depends', value)
      end
    end
    if not to and delay then
      error('Complete(): "delay" cannot be used without a "next".')
    elseif not to and depends then
      error('Complete(): "depends" cannot be used without a "next".')
    end
  end
  return Qless.Completion.complete(now, jid, worker, queue, data, to, delay or 0, depends)
end
