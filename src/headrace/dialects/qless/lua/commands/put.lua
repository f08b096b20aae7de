-- put worker queue jid klass data delay [priority p] [tags list] [retries r] [depends list]
-- Puts a job into a queue. One that is there already moves, and keeps what is not given (an empty list of dependencies
-- is none given). `worker` is who calls.
-- Reply: the jid.
Qless.put = function(now, arguments)
  local new = {
    worker = arguments[1],
    queue = required('Put', 'queue', arguments[2]),
    jid = required('Put', 'jid', arguments[3]),
    klass = required('Put', 'klass', arguments[4]),
    data = required('Put', 'data', arguments[5]),
    delay = number('Put', 'delay', arguments[6]),
  }
  json('Put', 'data', new.data)
  if #arguments % 2 == 1 then
    error('Put(): Odd number of additional args')
  end
  for i = 7, #arguments, 2 do
    local name, value = arguments[i], arguments[i + 1]
    if name == 'priority' or name == 'retries' then
      new[name] = number('Put', name, value)
    elseif name == 'tags' or name == 'depends' then
      new[name] = value == '[]' and {} or Qless.Values.list('Put', name, value)
    end
  end
  return Qless.Put.put(now, new)
end
return Qless.put
