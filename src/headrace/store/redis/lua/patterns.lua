-- Names of queues that stand for others: `*` any text, `?` any character, `[a-z]` one of these, `[^a-z]` any other. And lists of
-- names: `[=` and a digest (see scripts/names.lua). As patterns these would mean nothing.
--@include wait

makers[patterns] = function()
  patterns.parsed, patterns.known = {}, {}
  patterns.FEW, patterns.PIECE = 1000, 250

  -- Looks up which of some names are in a list, in one go.
  function patterns.learn(list, names)
    local key = patterns.list_key(list)
    if key then
      local known, there = patterns.known[list] or {}, check_type(key, 'zset') and read_many('ZMSCORE', key, names) or {}
      patterns.known[list] = known
      for i, name in ipairs(names) do
        known[name] = there[i] and tonumber(there[i]) or false
      end
    end
  end

  -- The place of a name in a list; false if it has none.
  function patterns.place_in(list, name)
    if not patterns.known[list] or patterns.known[list][name] == nil then
      patterns.learn(list, { name })
    end
    return patterns.known[list][name]
  end

  -- {place, name} each, from the place `start` on. (No list is longer than LONG_LIST.)
  function patterns.put_in_order(entries, start)
    table.sort(entries, function(a, b)
      return (a[1] - start) % LONG_LIST < (b[1] - start) % LONG_LIST
    end)
  end

  -- The names of a list that are in a sorted set of queues with a score up to `upto`, in their order from the place `start` on,
  -- {place, name} each. From the smaller side: that of the queues, if they are few. Else it goes through the list, until it has
  -- found `most`. Also whether these are all.
  function patterns.listed_in(key, queues, upto, start, most)
    local found = {}
    if call('ZCARD', queues) <= patterns.FEW then
      local due = call('ZRANGEBYSCORE', queues, '-inf', upto)
      for i, place in ipairs(read_many('ZMSCORE', key, due)) do
        found[#found + 1] = place and { tonumber(place), due[i] } or nil
      end
      patterns.put_in_order(found, start)
      return found, true
    end
    local total, passed = call('ZCARD', key), 0
    while passed < total and #found < most do
      local at = (start + passed) % total
      local names = call('ZRANGE', key, at, math.min(at + math.min(patterns.PIECE, total - passed), total) - 1)
      for i, score in ipairs(call('ZMSCORE', queues, unpack(names))) do
        found[#found + 1] = score and tonumber(score) <= upto and { at + i - 1, names[i] } or nil
      end
      passed = passed + #names
    end
    return found, passed >= total
  end

  function patterns.code_points(text)
    if #text <= 200 and not text:find('[\128-\255]') then
      return { text:byte(1, -1) }
    end
    local codes = {}
    for character in text:gmatch('[%z\1-\127\192-\255][\128-\191]*') do
      local code = 0
      for i = 1, #character do
        code = code * 256 + character:byte(i) -- in the order of code points, which is all that is needed
      end
      codes[#codes + 1] = code
    end
    return codes
  end

  patterns.STAR, patterns.ANY, patterns.BRACKET, patterns.CLOSING, patterns.CARET, patterns.DASH = 42, 63, 91, 93, 94, 45

  -- One of several characters: {is_class, inverted, low, high, ...}, and where it ends. Nothing if it does not.
  function patterns.parse_class(codes, at)
    local class = { inverted = codes[at] == patterns.CARET }
    at = at + (class.inverted and 1 or 0)
    local first, last = at, at + 1
    while codes[last] and codes[last] ~= patterns.CLOSING do
      last = last + 1
    end
    if not codes[last] then
      return nil
    end
    while at < last do
      -- A bracket that comes first is a member, and begins no range.
      local begins_range = at > first or codes[at] ~= patterns.CLOSING
      if begins_range and codes[at + 1] == patterns.DASH and at + 2 < last then
        class[#class + 1], class[#class + 2] = codes[at], codes[at + 2]
        at = at + 3
      else
        class[#class + 1], class[#class + 2] = codes[at], codes[at]
        at = at + 1
      end
    end
    return class, last + 1
  end

  -- A list of code points, STAR, ANY and classes; false if nothing can match.
  function patterns.parse_pattern(pattern)
    local codes, parts, at = patterns.code_points(pattern), {}, 1
    while codes[at] do
      local code = codes[at]
      at = at + 1
      if code == patterns.BRACKET then
        parts[#parts + 1], at = patterns.parse_class(codes, at)
        if not at then
          return false
        end
      else
        parts[#parts + 1] = code == patterns.STAR and 'star' or code == patterns.ANY and 'any' or code
      end
    end
    return parts
  end

  function patterns.fits(part, code)
    if type(part) ~= 'table' then
      return part == 'any' or part == code
    end
    for i = 1, #part, 2 do
      if part[i] <= code and code <= part[i + 1] then
        return not part.inverted
      end
    end
    return part.inverted
  end

  -- Whether a pattern means a name.
  function patterns.matches(pattern, name)
    if patterns.list_key(pattern) then
      return patterns.place_in(pattern, name) and true
    end
    local parts = patterns.parsed[pattern]
    if parts == nil then
      parts = patterns.parse_pattern(pattern)
      patterns.parsed[pattern] = parts
      if parts then
        parts.prefix = pattern:match('^[^*?%[]*')
        parts.is_prefix = pattern == parts.prefix .. '*'
      end
    end
    -- (A queue of test traffic, whose name begins with ~, is meant by patterns that begin so.)
    if not parts or name:sub(1, #parts.prefix) ~= parts.prefix or parts.prefix == '' and name:byte(1) == 126 then
      return false
    elseif parts.is_prefix then
      return true
    end
    local codes = patterns.code_points(name)
    local p, c, star, mark = 1, 1, nil, nil
    while c <= #codes do
      if parts[p] == 'star' then
        star, mark, p = p, c, p + 1
      elseif parts[p] and patterns.fits(parts[p], codes[c]) then
        p, c = p + 1, c + 1
      elseif star then
        mark = mark + 1
        p, c = star + 1, mark
      else
        return false
      end
    end
    while parts[p] == 'star' do
      p = p + 1
    end
    return p > #parts
  end
end
