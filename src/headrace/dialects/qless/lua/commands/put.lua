-- put worker queue jid klass data delay [priority p] [tags list] [retries r] [depends list]
-- Puts a job into a queue. One that is there already moves, and keeps what is not given (an empty list of dependencies
-- is none given). `worker` is who calls.
-- Reply: the jid.
function Qless.put(now, worker, queue, jid, klass, data, delay, ...)
  required('Put', 'queue', queue)
  required('Put', 'jid', jid)
  required('Put', 'klass', klass)
  json('Put', 'data', data)
  delay = number('Put', 'delay', delay)
  local priority, tags, retries, depends
  if ... then
    local options = {...}
    if #options % 2 == 1 then
      error('Put(): Odd number of additional args')
    end
    for i = 1, #options, 2 do
      local name, value = options[i], options[i + 1]
      if name == 'priority' then
        priority = number('Put', name, value)
      elseif name == 'retries' then
        retries = number('Put', name, value)
      elseif name == 'tags' then
        tags = value == '[]' and {} or Qless.Values.list('Put', name, value)
      elseif name == 'depends' then
        depends = value == '[]' and {} or Qless.Values.list('Put', name, value)
      end
    end
  end
  return Qless.Put.put(now, worker, queue, jid, klass, data, delay, priority, tags, retries, depends)
end
