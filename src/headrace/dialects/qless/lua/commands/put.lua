-- put worker queue jid klass data delay [priority p] [tags list] [retries r] [depends list]
-- Puts a job into a queue. One that is there already moves, and keeps what is not given (an empty list of dependencies
-- is none given). `worker` is who calls.
-- Reply: the jid.
local function new_job(command, arguments)
  local new = {
    worker = arguments[1],
    queue = required(command, 'queue', arguments[2]),
    jid = required(command, 'jid', arguments[3]),
    klass = required(command, 'klass', arguments[4]),
    data = required(command, 'data', arguments[5]),
    delay = number(command, 'delay', arguments[6]),
  }
  json(command, 'data', new.data)
  local last = #arguments
  if last % 2 == 1 then
    error(command .. '(): Odd number of additional args')
  end
  for i = 7, last, 2 do
    local name, value = arguments[i], arguments[i + 1]
    if name == 'priority' or name == 'retries' then
      new[name] = number(command, name, value)
    elseif name == 'tags' or name == 'depends' then
      new[name] = value == '[]' and {} or Qless.Values.list(command, name, value)
    end
  end
  return new
end

Qless.put = function(now, arguments)
  return Qless.Put.put(now, new_job('Put', arguments))
end
return Qless.put
