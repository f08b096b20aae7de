-- Options in `ql:config`. What is stored is text; defaults apply where nothing is stored.

-- Those that are listed, with the values they have until they are set.
Config.defaults = {
  ['application'] = 'qless',
  ['heartbeat'] = 60,
  ['grace-period'] = 10,
  ['stats-history'] = 30,
  ['histogram-history'] = 7,
  ['jobs-history-count'] = 50000,
  ['jobs-history'] = 604800,
}

-- The stored text of an option, or its default, or nil.
function Config.get(option)
  return call('HGET', 'ql:config', option) or Config.defaults[option]
end

-- All listed defaults, overlaid with everything stored.
function Config.all()
  local found = Qless.Values.hash('ql:config')
  for option, value in pairs(Config.defaults) do
    found[option] = found[option] or value
  end
  return found
end

function Config.set(option, value)
  call('HSET', 'ql:config', option, value)
  call('PUBLISH', 'ql:log', cjson.encode({event = 'config_set', option = option, value = value}))
end

function Config.unset(option)
  call('HDEL', 'ql:config', option)
  call('PUBLISH', 'ql:log', cjson.encode({event = 'config_unset', option = option}))
end

-- Seconds for which a pop or a heartbeat locks a job of a queue.
function Config.heartbeat(queue)
  local own, published, general = unpack(
    call('HMGET', 'ql:config', queue .. '-heartbeat', 'heartbeat-' .. queue, 'heartbeat'))
  return option(own) or option(published) or option(general, 60)
end
