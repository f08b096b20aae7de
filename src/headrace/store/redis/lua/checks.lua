-- What requests may say. Anyone may send them: what others would stumble over later is refused before anything is written.
-- `what` and `of` are put together only when something is wrong: most jobs are fine.
--@include prelude

local checks = on_demand()

makers[checks] = function()
  checks.SAID = { after = true, if_failed = true, lane = true, tags = true, schedule = true, tick = true, tracked = true,
    expires = true, nonce = true }
  checks.SAID_OF_LANES = { key = true, limit = true, rate = true, per = true, sequence = true, weight = true }
  checks.packed = {}
  checks.POLICIES = { wait = true, fail = true, run = true }

  function checks.refuse(text)
    fail('REFUSED', text .. ' Nothing was written.')
  end

  -- Going through a request has raised: one of us has refused it, or it is cut short.
  function checks.unreadable(what, problem)
    problem = tostring(problem)
    if problem:find('HEADRACE', 1, true) then
      error(problem, 0)
    end
    checks.refuse(what .. ' cannot be read: ' .. problem:gsub('^.*: ', '') .. '.')
  end

  -- All in one go from the beginning: to look for a byte of another kind would begin anew at each, and take three times as long.
  function checks.is_ascii(text)
    return text:find('^[^\128-\255]*$') ~= nil
  end

  -- UTF-8, as all names are.
  function checks.is_text(text)
    return checks.is_ascii(text) or not text:gsub('[\194-\223][\128-\191]', ' ')
      :gsub('\224[\160-\191][\128-\191]', ' '):gsub('[\225-\236\238\239][\128-\191][\128-\191]', ' ')
      :gsub('\237[\128-\159][\128-\191]', ' '):gsub('\240[\144-\191][\128-\191][\128-\191]', ' ')
      :gsub('[\241-\243][\128-\191][\128-\191][\128-\191]', ' '):gsub('\244[\128-\143][\128-\191][\128-\191]', ' ')
      :find('[\128-\255]')
  end

  function checks.text(text, what, of)
    if type(text) ~= 'string' or not checks.is_text(text) then
      checks.refuse(what .. (of or '') .. ' is not text in UTF-8.')
    end
  end

  -- Also refuses what is no number at all: that is neither more nor less than anything.
  function checks.number(number, least, most, what, of)
    if type(number) ~= 'number' or not (number >= least and number <= most) then
      checks.refuse(string.format(
        '%s%s is %s: it must be a number from %.14g to %.14g.', what, of or '', tostring(number), least, most))
    end
  end

  function checks.integer(number, least, most, what, of)
    checks.number(number, least, most, what, of)
    if number % 1 ~= 0 then
      checks.refuse(what .. (of or '') .. ' is ' .. number .. ': it must be an integer.')
    end
  end

  -- How long ago something was, or how long from now it will be: a time that fits in six bytes comes out.
  function checks.duration(number, what, of)
    checks.number(number, -LATEST / 2, LATEST / 2, what, of)
  end

  -- Of names that are packed as H name: the places where they begin, with the one behind the last, and how many they are.
  function checks.places(packed)
    local places, n, at = {}, 0, 1
    if checks.packed[packed] then
      return unpack(checks.packed[packed])
    end
    while at <= #packed do
      n = n + 1
      places[n] = at
      local high, low = packed:byte(at, at + 1)
      at = at + 2 + 256 * high + low
    end
    places[n + 1] = #packed + 1
    checks.packed[packed] = { assert(at == #packed + 1 and places), n } -- it is asked for again
    return places, n
  end

  -- Names that a request packs so.
  function checks.names(packed, what, of)
    local good, places, n = pcall(checks.places, packed)
    if not good then
      checks.refuse(what .. (of or '') .. ' cannot be read.')
    end
    for i = 1, checks.is_ascii(packed) and 0 or n do
      checks.text(packed:sub(places[i] + 2, places[i + 1] - 1), 'One of ' .. what, of)
    end
  end

  function checks.list_of_texts(list, what, of)
    local n = 0
    for place, text in pairs(type(list) == 'table' and list or { list = true }) do
      n = n + 1
      if type(place) ~= 'number' or type(text) ~= 'string' then
        checks.refuse(what .. (of or '') .. ' must be a list of texts.')
      end
      checks.text(text, 'One of ' .. what, of)
    end
    if n > 0 and n ~= #list then
      checks.refuse(what .. (of or '') .. ' must be a list without gaps.')
    end
  end

  function checks.lane(lane, id)
    if type(lane) ~= 'table' then
      checks.refuse('The lane of job ' .. id .. ' must be a map.')
    end
    for name in pairs(lane) do
      if not checks.SAID_OF_LANES[name] then
        checks.refuse('The lane of job ' .. id .. ' cannot have ' .. tostring(name) .. '.')
      end
    end
    checks.text(lane.key, 'The key of the lane of job ', id)
    if lane.key == '' then
      checks.refuse('The lane of job ' .. id .. ' needs a key.')
    end
    checks.integer(lane.limit or 0, 0, LATEST, 'The `limit` of the lane of job ', id)
    checks.integer(lane.rate or 0, 0, HIGHEST_RATE, 'The `rate` of the lane of job ', id)
    checks.integer(lane.per or 1, 1, LATEST, 'The `per` of the lane of job ', id)
    checks.integer(lane.weight or 1, 1, HIGHEST_WEIGHT, 'The `weight` of the lane of job ', id)
    if lane.sequence and lane.sequence ~= true then
      checks.refuse('The lane of job ' .. id .. ' is a sequence or not: true or false.')
    end
  end

  -- What a job may say of itself in `more`. The rest of what is kept there is for scripts to say.
  function checks.expires(expires, id)
    if type(expires) ~= 'table' or (expires.at == nil) == (expires.after == nil) then
      checks.refuse('The expiry of job ' .. id .. ' is a moment (`at`) or a duration (`after`).')
    end
    checks.integer(expires.at or expires.after, 0, LATEST / 2, 'The expiry of job ', id)
  end

  function checks.more(packed, id)
    local good, more = pcall(cmsgpack.unpack, packed)
    if not good or type(more) ~= 'table' then
      checks.refuse('Job ' .. id .. ' has a `more` that is no map in msgpack.')
    end
    for name in pairs(more) do
      if not checks.SAID[name] then
        checks.refuse('Job ' .. id .. ' cannot say ' .. tostring(name) .. ' of itself.')
      end
    end
    if more.after then
      checks.list_of_texts(more.after, 'what comes before job ', id)
      checks.number(#more.after, 0, MOST_PARENTS, 'How many jobs come before job ', id)
    end
    if more.if_failed and not checks.POLICIES[more.if_failed] then
      checks.refuse('Job ' .. id .. " has an `if_failed` that is neither 'wait' nor 'fail' nor 'run'.")
    end
    if more.lane then
      checks.lane(more.lane, id)
      if more.lane.sequence and (more.after and more.after[1] or more.schedule) then
        checks.refuse('Job ' .. id .. ' is in a sequence: it cannot come after others, nor be of a schedule.')
      end
    end
    if more.joining and (more.joining ~= true or not more.after or not more.after[1]) then
      checks.refuse('Job ' .. id .. ' comes after more jobs than it names: `joining` is true, and it names some.')
    end
    if more.tags then
      checks.list_of_texts(more.tags, 'the tags of job ', id)
    end
    if more.schedule then
      checks.text(more.schedule, 'The schedule of job ', id)
    end
    if more.expires then
      checks.expires(more.expires, id)
    end
    if more.tick then
      checks.integer(more.tick, 0, LATEST, 'The tick of job ', id)
    end
    if more.nonce then
      checks.text(more.nonce, 'The nonce of job ', id)
    end
    if more.tracked then
      checks.refuse('Job ' .. id .. ' is not there yet: `tag` makes it one that is tracked.')
    end
  end
end
