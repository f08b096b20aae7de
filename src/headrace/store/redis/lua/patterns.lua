-- Names of queues that stand for others: `*` any text, `?` any character, `[a-z]` one of these, `[^a-z]` any other.
makers.patterns = function()
  patterns.parsed = {}

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
    local parts = patterns.parsed[pattern]
    if parts == nil then
      parts = patterns.parse_pattern(pattern)
      patterns.parsed[pattern] = parts
      if parts then
        parts.prefix = pattern:match('^[^*?%[]*')
        parts.is_prefix = pattern == parts.prefix .. '*'
      end
    end
    if not parts or name:sub(1, #parts.prefix) ~= parts.prefix then
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
